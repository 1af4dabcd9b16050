"""A simple reference simulator of one pool of CPUs with FCFS and EASY backfill. It shares no code with ours.

EASY follows Mu'alem and Feitelson (2001). The first job that does not fit gets a reservation at the time at which
enough running jobs will have reached their limits. Another job may start before it if it ends by then, or if it
uses only CPUs that the first job will leave free.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple


class ReferenceJob(NamedTuple):
    """A job with its times in seconds and its CPUs. It is killed at its time limit."""

    submit_s: float
    cpus: int
    run_s: float
    limit_s: float


def starts(jobs: Sequence[ReferenceJob], *, cpus: int, backfill: bool) -> list[float]:
    """Return the start time of each job. The jobs are in order of submission."""
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
    jobs: Sequence[ReferenceJob],
    queue: list[int],
    begun: dict[int, float],
    ends: list[tuple[float, int]],
    *,
    now: float,
    free: int,
    backfill: bool,
) -> list[int]:
    """Return the jobs that start now."""
    chosen: list[int] = []
    for each in queue:
        if jobs[each].cpus > free:
            break
        chosen.append(each)
        free -= jobs[each].cpus
    blocked = queue[len(chosen) :]
    if not backfill or not blocked:
        return chosen
    planned_ends = [(begun[each] + jobs[each].limit_s, jobs[each].cpus) for _, each in ends]
    planned_ends += [(now + jobs[each].limit_s, jobs[each].cpus) for each in chosen]
    shadow, spare = _reservation(sorted(planned_ends), wanted=jobs[blocked[0]].cpus, free=free)
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


def _reservation(planned_ends: list[tuple[float, int]], *, wanted: int, free: int) -> tuple[float, int]:
    """Return the latest start of the first job, and the number of CPUs that it leaves free then."""
    shadow = next(
        at
        for index, (at, _) in enumerate(planned_ends)
        if free + sum(n for _, n in planned_ends[: index + 1]) >= wanted
    )
    return shadow, free + sum(cpus for at, cpus in planned_ends if at <= shadow) - wanted
