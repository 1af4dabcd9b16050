"""Tasks of one array in their place: while nothing but a single array waits, the next task takes what the last one leaves.

A planning pass would decide the same, and costs as much as all the rest of a short job's way. So it is left out where it has
nothing to weigh: since the last pass only ends of this array's own tasks came in, that pass had nothing to do but start some
of them, and it was a moment ago. What the clock or a limit on accumulated use may change meanwhile waits for the next pass.
What is decided here is a Start like any other, which is checked again when it is applied.

Tasks that run for less than a moment would spend most of it on the way here and back. So their places get the next ones ahead
of time (see following): as many as run in AHEAD_RUN_S, and never so many that one place would keep what another could run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from warpdeck.controller.events.events import Ahead, Event, MessagesRead, Planned, Reported
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, JobState
from warpdeck.model.ranges import count_tasks, iter_tasks
from warpdeck.policy import Plan, Start
from warpdeck_agent.wire.messages import JobReport

TRUST_S = 0.2
"""How long a pass is relied on: no decision is made on older words than these."""
AHEAD_RUN_S = 0.1
"""What a place is handed ahead runs about so long: several round trips, and little to whom the place is given next."""
SHORTEST_S = 0.001
"""Less than any program takes."""
SHORT_S = 1.0
"""Tasks that run longer gain nothing."""
TURN_S = 0.03
"""From the end of a task until its node has the next: gathered, told, committed, sent. A place that runs out stands still for so
long, and what others would have of its last tasks comes no sooner."""
MOST_AHEAD = 48
"""Tasks handed to one place: the shortest run for some two milliseconds."""
MOST_HANDED = 512
"""Tasks handed in all: so many places at once are kept busy by their number."""


class ArrayFastPath:
    """Of the array that waits alone, since the last pass."""

    def __init__(self) -> None:
        self._array: JobId | None = None
        self._made_unix = 0.0
        self._ran: tuple[JobId | None, float] = (None, 0.0)
        """Of which array the tasks that ended last have run how long, one with another."""

    @property
    def trusted(self) -> JobId | None:
        """The array, while it is relied upon that nothing else is to be weighed."""
        return self._array

    def learn(self, state: State, made: Plan, now: float) -> None:
        """A pass was made."""
        only = next(iter(state.index.pending)) if len(state.index.pending) == 1 else None
        others = made.preempts or made.resumes or made.ends or made.more
        self._array = only if only is not None and not others and _is_plain(state.jobs[only]) else None
        self._made_unix = now

    def decide(
        self, state: State, batch: Sequence[Event], now: float, *, heirs: Mapping[JobId, JobId] = {}
    ) -> Planned | None:
        """The starts that follow from these events, which are in the state already; None if it takes a pass to tell.

        `heirs`: who has taken the places of jobs that these events ended.
        """
        array, self._array = self._array, None
        if array is None or not 0 <= now - self._made_unix <= TRUST_S or list(state.index.pending) != [array]:
            return None
        told = [event.report for event in batch if isinstance(event, Reported)]
        if len(told) < sum(not isinstance(event, Planned | MessagesRead) for event in batch):
            return None
        ended = [_ended(state, report) for report in told if report.phase != "running"]
        starts = _starts(state.jobs[array], [job for job in ended if job is None or job.id not in heirs])
        if starts is None:
            return None
        self._array = array
        if not ended:
            return None
        self._ran = (array, sum(job.ran_s() or 0.0 for job in ended if job is not None) / len(ended))
        return Planned(starts=starts)

    def ahead(self, state: State, holders: Iterable[JobId]) -> tuple[Ahead, ...]:
        """What is handed to these places of the array, named by the jobs that hold them."""
        rest = None if self._array is None else state.jobs.get(self._array)
        if rest is None or not rest.is_folded_array or self._ran[0] != rest.id or self._ran[1] > SHORT_S:
            return ()
        depth = _depth(self._ran[1], count_tasks(rest.pending_tasks), places=max(1, len(state.index.active)))
        tasks, made = iter_tasks(rest.pending_tasks), []
        left = min(count_tasks(rest.pending_tasks) - 1, MOST_HANDED - len(state.index.follower))
        for holder in holders:
            last, waiting = _line(state, holder)
            count = min(depth - waiting, left)
            if count > 0:
                chosen = tuple(next(tasks) for _ in range(count))
                made.append(Ahead(job_id=rest.id, behind=last, tasks=chosen))
                left -= count
        return tuple(made)


def _depth(ran_s: float, waiting: int, *, places: int) -> int:
    """How many tasks a place has ahead of it: half of its part of those that wait, all of it where that is a moment's work."""
    ran_s = max(ran_s, SHORTEST_S)
    most = max(1, int(min(MOST_AHEAD, AHEAD_RUN_S / ran_s)))
    return min(most, max(waiting // (2 * places), min(waiting // places, int(TURN_S / ran_s))))


def _line(state: State, holder: JobId) -> tuple[JobId, int]:
    """The last in the place of that job, and how many are behind it."""
    waiting = 0
    while (following := state.index.follower.get(holder)) is not None:
        holder, waiting = following, waiting + 1
    return holder, waiting


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
        if job is None or job.request is not rest.request or job.allocation is None or job.drawn_into:
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
