"""Tasks of one array in their place: while nothing but a single array waits, the next task takes what the last one leaves.

A planning pass would decide the same, and costs as much as all the rest of a short job's way. So it is left out where it has
nothing to weigh: since the last pass only ends of this array's own tasks came in, that pass had nothing to do but start some
of them, and it was a moment ago. What the clock or a limit on accumulated use may change meanwhile waits for the next pass.
What is decided here is a Start like any other, which is checked again when it is applied.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.model import Job, JobId, JobState
from warpdeck.model.ranges import count_tasks, iter_tasks
from warpdeck.policy import Plan, Start
from warpdeck_agent.wire.messages import JobReport

from .events import Event, Planned, Reported
from .state import State

TRUST_S = 0.2
"""How long a pass is relied on: no decision is made on older words than these."""


class Succession:
    """Of the array that waits alone, since the last pass."""

    def __init__(self) -> None:
        self._array: JobId | None = None
        self._made_unix = 0.0

    def learn(self, state: State, made: Plan, now: float) -> None:
        """A pass was made."""
        only = next(iter(state.pending)) if len(state.pending) == 1 else None
        others = made.preempts or made.resumes or made.ends or made.more
        self._array = only if only is not None and not others and _is_plain(state.jobs[only]) else None
        self._made_unix = now

    def decide(self, state: State, batch: Sequence[Event], now: float) -> Planned | None:
        """The starts that follow from these events, which are in the state already; None if it takes a pass to tell."""
        array, self._array = self._array, None
        if array is None or not 0 <= now - self._made_unix <= TRUST_S or list(state.pending) != [array]:
            return None
        told = [event.report for event in batch if isinstance(event, Reported)]
        if len(told) < sum(not isinstance(event, Planned) for event in batch):
            return None
        ended = [_ended(state, report) for report in told if report.phase != "running"]
        starts = _starts(state.jobs[array], ended)
        if starts is not None:
            self._array = array
        return Planned(starts=starts) if starts else None


def _is_plain(job: Job) -> bool:
    """Whether what its tasks may have depends on no time, and on nothing that other jobs do."""
    request = job.request
    return job.is_folded_array and not job.held and not (
        request.dependencies
        or request.reservation
        or request.deadline_unix
        or request.time_min_s
        or request.resources.max_switches
    )  # fmt: skip


def _ended(state: State, report: JobReport) -> Job | None:
    """The job that has ended by this report, for good and by itself."""
    job = None if report.drain else state.jobs.get(JobId(report.job_id))
    return job if job is not None and job.state in (JobState.COMPLETED, JobState.FAILED) else None


def _starts(rest: Job, ended: Sequence[Job | None]) -> tuple[Start, ...] | None:
    """A task for each place that was left; None if one was not a task's like these, or if no more wait than there are places."""
    if count_tasks(rest.pending_tasks) <= len(ended):
        return None
    starts = []
    for task, job in zip(iter_tasks(rest.pending_tasks), ended, strict=False):
        if job is None or job.request is not rest.request or job.allocation is None:
            return None
        limit_s, partition = job.time_limit_s, job.partition
        starts.append(
            Start(
                job_id=rest.id,
                allocation=job.allocation,
                task=task,
                time_limit_s=limit_s,
                partition=partition,
            )
        )
    return tuple(starts)
