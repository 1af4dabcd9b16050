"""What is looked through now and then: ended jobs that leave the memory, rows that are sent again because priorities moved."""

from __future__ import annotations

from warpdeck.controller.state.state import State
from warpdeck.model import JobId

PRIORITY_STEP = 0.05
"""A waiting job's row is sent again when its priority has changed by more than this part."""


def evict_finished(state: State, *, ended_before_unix: float) -> list[JobId]:
    """Takes out of memory what ended before that, unless others need it; the store keeps it."""
    wanted = needed_by_others(state)
    gone = [
        job.id
        for job in state.jobs.values()
        if job.is_finished
        and (job.end_at_unix or 0.0) < ended_before_unix
        and wanted.isdisjoint((job.id, job.array_job_id))
    ]
    for job_id in gone:
        state.drop_job(job_id)
    return gone


def needed_by_others(state: State) -> frozenset[JobId]:
    """The jobs on which waiting ones depend, and the heterogeneous jobs of which a component has not ended: it may have to begin
    again, and all others with it."""
    wanted: set[JobId] = set()
    for job_id in state.index.pending:
        dependencies = state.jobs[job_id].request.dependencies
        wanted.update(clause.job_id for clause in (dependencies.clauses if dependencies else ()))
    wanted.update(
        job.array_job_id for job in state.jobs.values() if job.component is not None and not job.is_finished
    )
    return frozenset(wanted)


class ToldPriorities:
    """What clients were told. With age all priorities move a little all the time."""

    def __init__(self) -> None:
        self._told: dict[JobId, int] = {}

    def moved(self, now: dict[JobId, int]) -> list[JobId]:
        """The jobs whose priority has moved far since it was told last; it is told now."""
        before = self._told
        moved = [
            job_id
            for job_id, priority in now.items()
            if abs(priority - before.get(job_id, priority))
            > PRIORITY_STEP * abs(before.get(job_id, priority))
        ]
        self._told = before = {job_id: before.get(job_id, now[job_id]) for job_id in now}
        before.update({job_id: now[job_id] for job_id in moved})
        return moved
