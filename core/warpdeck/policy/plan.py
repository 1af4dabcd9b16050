"""The one decision function. Pure: everything it may look at is in its arguments.

Algorithm (EASY backfill; Lifka 1995, Mu'alem and Feitelson 2001): waiting jobs in queue order. As long as they fit they
start. The first that does not is the head: it gets a reservation at the earliest time that the limits of the running jobs
allow. A job behind it starts now only if it cannot delay that: it ends by then, or it leaves on every reserved node what
the head will need. Equal requests share one answer: within a pass free resources only shrink, so what failed once fails.

Limits: at most settings.max_starts starts and settings.max_backfill_tests tries a pass; `more` then asks for another.
"""

from __future__ import annotations

import msgspec

from warpdeck.model import Allocation, JobId, NodeName, Resources, Why, iter_tasks

from .forecast import MAX_FORECAST, Forecast
from .order import queue_order
from .placement import Room, Rooms, candidates, free_rooms, place, take, whole_rooms
from .answer import Plan, Reserve, Start
from .settings import Settings
from .view import PendingJob, RunningJob, View
from .why import before_its_time, describe_need, duration, lacks, throttled


def plan(view: View, now: float, settings: Settings) -> Plan:
    """Which jobs start now and where, and for every other waiting job why not and when."""
    return _Pass(view, now, settings).run()


def feasible(resources: Resources, view: View) -> str:
    """ "" if the request fits the cluster when it is empty and healthy; else a sentence that says what is too much."""
    rooms = whole_rooms(view)
    if place(candidates(rooms, resources, None), resources) is not None:
        return ""
    unknown = [name for name in resources.nodelist if name not in rooms]
    if unknown:
        return f"there is no node {', '.join(unknown)}"
    if resources.nodes_min > len(rooms):
        return f"it asks for {resources.nodes_min} nodes, and there are {len(rooms)}"
    return f"it asks for {describe_need(resources)}, and {_largest(list(rooms.values()), resources)}"


def _largest(rooms: list[Room], asked: Resources) -> str:
    kind = asked.gpus.type.lower()
    gpus = max((len(room.matching(kind)) for room in rooms), default=0)
    cpus = max((room.cpus for room in rooms), default=0)
    mem = max((room.mem_bytes for room in rooms), default=0)
    typed = f" of type {kind}" if kind else ""
    return f"the largest node has {gpus} GPUs{typed}, {cpus} CPUs and {mem / 2**30:.0f} GiB"


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """The job with the reservation: when, and what each of its nodes will have to spare beside it."""

    job: PendingJob
    at_unix: float
    known: bool
    allocation: Allocation
    spare: Rooms


class _Pass:
    """The state of one pass."""

    def __init__(self, view: View, now: float, settings: Settings) -> None:
        self._view = view
        self._now = now
        self._settings = settings
        self._rooms = free_rooms(view)
        self._partitions = {part.name: part for part in view.partitions}
        self._starts: list[Start] = []
        self._started: list[RunningJob] = []
        self._whys: dict[JobId, Why] = {}
        self._head: _Head | None = None
        self._blocked: list[PendingJob] = []
        self._refused: dict[tuple[object, ...], None] = {}
        self._shortages: dict[tuple[Resources, str], tuple[str, str]] = {}
        self._tests = 0
        self._running_tasks: dict[JobId, int] = {}
        for job in view.running:
            self._running_tasks[job.array_job_id] = self._running_tasks.get(job.array_job_id, 0) + 1

    def run(self) -> Plan:
        for job in sorted(self._view.pending, key=queue_order):
            reason = before_its_time(job, self._now)
            if reason is not None:
                self._whys[job.id] = reason
            else:
                self._try(job)
        self._explain_blocked()
        reserves = () if self._head is None else (self._reserve(self._head),)
        return Plan(
            starts=tuple(self._starts),
            reserves=reserves,
            whys=self._whys,
            more=len(self._starts) >= self._settings.max_starts,
        )

    def _try(self, job: PendingJob) -> None:
        tasks = list(iter_tasks(job.tasks)) if job.tasks else [None]
        if len(tasks) > self._settings.max_starts:
            del tasks[self._settings.max_starts :]
        for position, task in enumerate(tasks):
            if self._is_throttled(job):
                self._whys[job.id] = throttled(job)
                return
            if not self._start(job, task):
                self._blocked.append(job)
                if self._head is None:
                    self._head = self._make_head(job)
                return
            if position + 1 == len(tasks) and job.tasks:
                self._whys[job.id] = Why(code="None", sentence="starting")

    def _is_throttled(self, job: PendingJob) -> bool:
        return bool(job.throttle) and self._running_tasks.get(job.array_job_id, 0) >= job.throttle

    def _start(self, job: PendingJob, task: int | None) -> bool:
        if len(self._starts) >= self._settings.max_starts:
            return False
        allocation = self._find(job)
        if allocation is None:
            return False
        take(self._rooms, allocation)
        self._starts.append(Start(job_id=job.id, task=task, allocation=allocation))
        limit = self._limit(job)
        ends = None if limit is None else self._now + limit
        self._started.append(
            RunningJob(id=job.id, allocation=allocation, ends_by_unix=ends, array_job_id=job.array_job_id)
        )
        if job.tasks:
            self._running_tasks[job.array_job_id] = self._running_tasks.get(job.array_job_id, 0) + 1
        if self._head is not None and self._outlasts(job, self._head):
            take(self._head.spare, allocation)
        return True

    def _find(self, job: PendingJob) -> Allocation | None:
        """A place for the job now that delays nobody with a reservation."""
        head = self._head
        careful = head is not None and self._outlasts(job, head)
        key = (job.resources, job.partition, careful)
        if key in self._refused or self._tests >= self._settings.max_backfill_tests:
            return None
        if head is not None:
            self._tests += 1
        found = self._place(job, self._rooms if not careful else self._narrowed())
        if found is None:
            self._refused[key] = None
        return found

    def _narrowed(self) -> Rooms:
        """What is free now and may stay taken beyond the head's start."""
        assert self._head is not None
        spare = self._head.spare
        rooms: Rooms = {}
        for name, room in self._rooms.items():
            rooms[name] = _smaller(room, spare[name]) if name in spare else room
        return rooms

    def _place(self, job: PendingJob, rooms: Rooms) -> Allocation | None:
        return place(
            candidates(rooms, job.resources, self._nodes_of(job)),
            job.resources,
            default_mem_per_cpu_bytes=self._settings.default_mem_per_cpu_bytes,
        )

    def _nodes_of(self, job: PendingJob) -> frozenset[NodeName] | None:
        partition = self._partitions.get(job.partition)
        return None if partition is None else partition.nodes

    def _limit(self, job: PendingJob) -> int | None:
        return job.time_limit_s if job.time_limit_s is not None else self._settings.default_time_s

    def _outlasts(self, job: PendingJob, head: _Head) -> bool:
        limit = self._limit(job)
        return limit is None or self._now + limit > head.at_unix

    def _forecast(self) -> Forecast:
        return Forecast(self._view, self._rooms, self._started, now=self._now)

    def _make_head(self, job: PendingJob) -> _Head | None:
        forecast = self._forecast()
        start = forecast.start_of(job, nodes=self._nodes_of(job), settings=self._settings)
        if start is None:
            return None
        at_unix, allocation = start
        reserved = {share.node for share in allocation.shares}
        spare = {name: room for name, room in forecast.rooms.items() if name in reserved}
        return _Head(
            job=job,
            at_unix=at_unix,
            known=forecast.is_known(at_unix),
            allocation=allocation,
            spare=spare,
        )

    def _reserve(self, head: _Head) -> Reserve:
        return Reserve(job_id=head.job.id, at_unix=head.at_unix, nodes=head.allocation.node_names())

    def _explain_blocked(self) -> None:
        """A Why for each job that could not start, with an expected start for those near the front."""
        forecast = self._forecast()
        ahead: PendingJob | None = None
        for place_in_queue, job in enumerate(self._blocked):
            at_unix: float | None = None
            if place_in_queue < MAX_FORECAST:
                start = forecast.start_of(job, nodes=self._nodes_of(job), settings=self._settings)
                if start is not None and forecast.is_known(start[0]):
                    at_unix = start[0]
            self._whys[job.id] = self._blocked_why(job, ahead, at_unix)
            ahead = ahead or job

    def _blocked_why(self, job: PendingJob, ahead: PendingJob | None, at_unix: float | None) -> Why:
        when = "" if at_unix is None else f"; expected in {duration(at_unix - self._now)}"
        code, sentence = self._shortage(job)
        if ahead is not None and code == "Priority":
            first = f"job {ahead.label or ahead.id} of {ahead.user}"
            sentence = f"would fit now, but would delay {first}, which is ahead"
        return Why(code=code, sentence=sentence + when, expected_start_unix=at_unix)

    def _shortage(self, job: PendingJob) -> tuple[str, str]:
        """(reason code, what is missing) for this shape of request; equal shapes share the answer."""
        key = (job.resources, job.partition)
        known = self._shortages.get(key)
        if known is None:
            rooms = candidates(self._rooms, job.resources, self._nodes_of(job))
            missing = f"waits for {describe_need(job.resources)}: {lacks(job.resources, rooms, self._view)}"
            if not rooms:
                known = ("ReqNodeNotAvail", missing)
            else:
                known = ("Resources" if self._place(job, self._rooms) is None else "Priority", missing)
            self._shortages[key] = known
        return known


def _smaller(room: Room, spare: Room) -> Room:
    """What both have."""
    least = room.copy()
    least.cpus = min(room.cpus, spare.cpus)
    least.mem_bytes = min(room.mem_bytes, spare.mem_bytes)
    least.gpus = {index: gpu for index, gpu in room.gpus.items() if index in spare.gpus}
    least.used = max(room.used, spare.used)
    return least
