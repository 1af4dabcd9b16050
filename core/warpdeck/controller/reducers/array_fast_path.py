"""Start the next task of an array in the allocation of a task that has ended, without a planning pass.

A planning pass would make the same decision, but for a short job it costs as much as all other work. It is
skipped if there is nothing else to decide. This requires that only one array is waiting, and that the last
pass is recent and did nothing but start some of its tasks. Since that pass, only ends of tasks of this array
may have been reported. Changes that the clock or a limit on accumulated usage causes in the meantime wait for
the next pass. The result is an ordinary `Start`, which is checked again when it is applied.

Very short tasks would spend most of their time on the round trip between controller and node. Therefore the
next tasks are prefetched to the allocation (see launch_prefetch.py). An allocation gets at most the number of
tasks that run within `PREFETCH_RUN_S`. A further limit leaves enough waiting tasks for the other allocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from warpdeck.controller.events.events import Event, MessagesRead, Planned, Prefetch, Reported
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, JobState
from warpdeck.model.ranges import count_tasks, iter_tasks
from warpdeck.policy import Plan, Start
from warpdeck_agent.wire.messages import JobReport

TRUST_S = 0.2
"""Maximum age in seconds of the last pass. The fast path makes no decision on older information."""
PREFETCH_RUN_S = 0.1
"""Target total run time in seconds of the tasks prefetched to one allocation.

It covers several round trips, and is short enough not to delay the next job in the allocation.
"""
SHORTEST_S = 0.001
"""Lower bound in seconds for the assumed run time of a task. Every program takes longer."""
SHORT_S = 1.0
"""Run time in seconds above which tasks are not prefetched, because the round trip is then negligible."""
ROUND_TRIP_S = 0.03
"""Time in seconds from the end of a task until its node has the next task.

It covers collecting, reporting and committing the end, and sending the launch. An allocation without a
prefetched task is idle for this time, and another allocation could not get its last tasks any sooner.
"""
MAX_PREFETCHED_PER_ALLOCATION = 48
"""Maximum number of tasks prefetched to one allocation. The shortest tasks run for about two milliseconds."""
MAX_PREFETCHED = 512
"""Maximum number of prefetched tasks in total.

With more allocations than this, one task in each allocation keeps the nodes busy.
"""


class ArrayFastPath:
    """Decides starts of tasks of the only waiting array. It stores the facts that it has learned since the
    last pass.
    """

    def __init__(self) -> None:
        self._array: JobId | None = None
        self._made_unix = 0.0
        self._ran: tuple[JobId | None, float] = (None, 0.0)
        """The array of the tasks that ended last, and their mean run time in seconds."""

    @property
    def trusted(self) -> JobId | None:
        """The array for which starts can be decided without a pass; None if a pass is needed."""
        return self._array

    def learn(self, state: State, made: Plan, now: float) -> None:
        """Record the result of a planning pass."""
        only = next(iter(state.index.pending)) if len(state.index.pending) == 1 else None
        others = made.preempts or made.resumes or made.ends or made.more
        self._array = only if only is not None and not others and _is_plain(state.jobs[only]) else None
        self._made_unix = now

    def decide(
        self, state: State, batch: Sequence[Event], now: float, *, successors: Mapping[JobId, JobId] = {}
    ) -> Planned | None:
        """Return the starts that follow from these events; None if a pass is needed.

        The events are already applied to the state. `successors` maps jobs that these events ended to the
        prefetched jobs that took over their allocations.
        """
        array, self._array = self._array, None
        if array is None or not 0 <= now - self._made_unix <= TRUST_S or list(state.index.pending) != [array]:
            return None
        reports = [event.report for event in batch if isinstance(event, Reported)]
        if len(reports) < sum(not isinstance(event, Planned | MessagesRead) for event in batch):
            return None
        ended = [_ended(state, report) for report in reports if report.phase != "running"]
        starts = _starts(state.jobs[array], [job for job in ended if job is None or job.id not in successors])
        if starts is None:
            return None
        self._array = array
        if not ended:
            return None
        self._ran = (array, sum(job.ran_s() or 0.0 for job in ended if job is not None) / len(ended))
        return Planned(starts=starts)

    def prefetches(self, state: State, holders: Iterable[JobId]) -> tuple[Prefetch, ...]:
        """Return the tasks of the array to prefetch to these allocations.

        Each allocation is given by the job that holds it.
        """
        array = None if self._array is None else state.jobs.get(self._array)
        if array is None or not array.is_folded_array or self._ran[0] != array.id or self._ran[1] > SHORT_S:
            return ()
        depth = _depth(
            self._ran[1], count_tasks(array.pending_tasks), allocations=max(1, len(state.index.active))
        )
        tasks, made = iter_tasks(array.pending_tasks), []
        left = min(count_tasks(array.pending_tasks) - 1, MAX_PREFETCHED - len(state.index.successor))
        for holder in holders:
            last, waiting = _prefetched_line(state, holder)
            count = min(depth - waiting, left)
            if count > 0:
                chosen = tuple(next(tasks) for _ in range(count))
                made.append(Prefetch(job_id=array.id, after=last, tasks=chosen))
                left -= count
        return tuple(made)


def _depth(ran_s: float, waiting: int, *, allocations: int) -> int:
    """Return the number of tasks to prefetch to one allocation.

    It is half of the allocation's share of the waiting tasks, or its full share if that takes less than
    `ROUND_TRIP_S` to run.
    """
    ran_s = max(ran_s, SHORTEST_S)
    most = max(1, int(min(MAX_PREFETCHED_PER_ALLOCATION, PREFETCH_RUN_S / ran_s)))
    return min(
        most, max(waiting // (2 * allocations), min(waiting // allocations, int(ROUND_TRIP_S / ran_s)))
    )


def _prefetched_line(state: State, holder: JobId) -> tuple[JobId, int]:
    """Return the last job that is prefetched after `holder`, and the number of jobs prefetched there."""
    waiting = 0
    while (successor := state.index.successor.get(holder)) is not None:
        holder, waiting = successor, waiting + 1
    return holder, waiting


def _is_plain(job: Job) -> bool:
    """Return whether the start of the array's tasks depends neither on time nor on other jobs."""
    request = job.request
    return job.is_folded_array and not job.held and not (
        request.dependencies
        or request.reservation
        or request.deadline_unix
        or request.time_min_s
        or request.resources.max_switches
    )  # fmt: skip


def _ended(state: State, report: JobReport) -> Job | None:
    """Return the job that this report has ended for good, COMPLETED or FAILED; None otherwise."""
    job = None if report.drain else state.jobs.get(JobId(report.job_id))
    return job if job is not None and job.state in (JobState.COMPLETED, JobState.FAILED) else None


def _starts(array: Job, ended: Sequence[Job | None]) -> tuple[Start, ...] | None:
    """Return a start for each allocation that a task has left.

    Returns None if one of the ended jobs was not a task with the request of the waiting tasks, or if no task
    would be left waiting.
    """
    if count_tasks(array.pending_tasks) <= len(ended):
        return None
    starts = []
    for task, job in zip(iter_tasks(array.pending_tasks), ended, strict=False):
        if (
            job is None
            or job.request is not array.request
            or job.allocation is None
            or job.magnetic_reservation
        ):
            return None
        limit_s, partition = job.time_limit_s, job.partition
        starts.append(
            Start(
                job_id=array.id,
                allocation=job.allocation,
                task=task,
                time_limit_s=limit_s,
                partition=partition,
            )
        )
    return tuple(starts)
