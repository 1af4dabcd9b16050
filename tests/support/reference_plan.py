"""Plan jobs of whole nodes slowly and simply, as a reference: strict order, and EASY backfill after Lifka.

All nodes are alike, and queues are in order of submission.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """A waiting job: its number of nodes and its duration."""

    number: int
    nodes: int
    limit_s: int


def strict(free: int, queue: list[Waiting]) -> list[int]:
    """Return the jobs that start now if no job may pass another one."""
    started: list[int] = []
    for job in queue:
        if job.nodes > free:
            break
        free -= job.nodes
        started.append(job.number)
    return started


def easy(free: int, ends: list[tuple[float, int]], queue: list[Waiting], now: float) -> list[int]:
    """Return the jobs that start now if no job may delay the first waiting job.

    `ends` contains (end time, number of nodes) of running jobs.
    """
    started = strict(free, queue)
    held = list(ends)
    for job in queue[: len(started)]:
        free -= job.nodes
        held.append((now + job.limit_s, job.nodes))
    behind = queue[len(started) :]
    if not behind:
        return started
    head = behind[0]

    def free_at(at: float) -> int:
        return free + sum(nodes for end, nodes in held if end <= at)

    shadow = min(end for end, _ in held if free_at(end) >= head.nodes)
    extra = free_at(shadow) - head.nodes
    for job in behind[1:]:
        in_time = now + job.limit_s <= shadow
        if job.nodes <= free and (in_time or job.nodes <= extra):
            free -= job.nodes
            extra -= 0 if in_time else job.nodes
            started.append(job.number)
    return started
