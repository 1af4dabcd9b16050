"""A plain second simulator to compare with: one pool of CPUs, FCFS and EASY, written for reading, sharing no code with ours.

EASY as in Mu'alem and Feitelson (2001): the first job that does not fit gets a reservation at the time at which enough
running jobs will have reached their limits; another may go ahead of it if it ends by then, or takes only what the first
will leave over.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class Ask(NamedTuple):
    """A job: seconds and CPUs. It is killed at its limit."""

    submit_s: float
    cpus: int
    run_s: float
    limit_s: float


def starts(jobs: Sequence[Ask], *, cpus: int, backfill: bool) -> list[float]:
    """When each of the jobs (in order of submission) starts."""
    begun: dict[int, float] = {}
    ends: list[tuple[float, int]] = []
    queue: list[int] = []
    free, coming = cpus, 0
    while coming < len(jobs) or ends:
        now = min([jobs[coming].submit_s] if coming < len(jobs) else [ends[0][0]])
        now = min(now, ends[0][0]) if ends else now
        while ends and ends[0][0] <= now:
            free += jobs[heapq.heappop(ends)[1]].cpus
        while coming < len(jobs) and jobs[coming].submit_s <= now:
            queue.append(coming)
            coming += 1
        for each in _chosen(jobs, queue, begun, ends, now=now, free=free, backfill=backfill):
            begun[each] = now
            free -= jobs[each].cpus
            heapq.heappush(ends, (now + min(jobs[each].run_s, jobs[each].limit_s), each))
            queue.remove(each)
    return [begun[each] for each in range(len(jobs))]


def _chosen(
    jobs: Sequence[Ask],
    queue: list[int],
    begun: dict[int, float],
    ends: list[tuple[float, int]],
    *,
    now: float,
    free: int,
    backfill: bool,
) -> list[int]:
    """Who starts now."""
    chosen: list[int] = []
    for each in queue:
        if jobs[each].cpus > free:
            break
        chosen.append(each)
        free -= jobs[each].cpus
    blocked = queue[len(chosen) :]
    if not backfill or not blocked:
        return chosen
    promised = [(begun[each] + jobs[each].limit_s, jobs[each].cpus) for _, each in ends]
    promised += [(now + jobs[each].limit_s, jobs[each].cpus) for each in chosen]
    shadow, spare = _reservation(sorted(promised), wanted=jobs[blocked[0]].cpus, free=free)
    for each in blocked[1:]:
        if jobs[each].cpus > free:
            continue
        if now + jobs[each].limit_s > shadow:
            if jobs[each].cpus > spare:
                continue
            spare -= jobs[each].cpus
        chosen.append(each)
        free -= jobs[each].cpus
    return chosen


def _reservation(promised: list[tuple[float, int]], *, wanted: int, free: int) -> tuple[float, int]:
    """When the first job starts at the latest, and how many CPUs it leaves over then."""
    shadow = next(
        at
        for index, (at, _) in enumerate(promised)
        if free + sum(n for _, n in promised[: index + 1]) >= wanted
    )
    return shadow, free + sum(cpus for at, cpus in promised if at <= shadow) - wanted
