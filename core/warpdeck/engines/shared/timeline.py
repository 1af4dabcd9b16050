"""The events of nodes and the use of GPUs over a range of time, for the timeline below the map.

Drains and outages come from the recorded conditions of the nodes. The use of GPUs comes from the records of jobs: a job
counts with its GPUs for as long as it ran, and with its mean utilization. So no agent is asked, and the range may be
longer than the day for which agents keep measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.gpu_readings import mean_util_pct
from warpdeck.controller.presenters.job_values import node_list
from warpdeck.controller.presenters.usage_rows import usage_row
from warpdeck.controller.state.state import State
from warpdeck.model import Condition, Job, NodeName
from warpdeck.ports.store import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck.protocol.node_rows import NodeEventRow

from .job_records import RecordSearch

MAX_RANGE_S = 7 * 86_400.0
"""Longest range in seconds. All jobs that ran in it are read."""
MAX_EVENTS = 1_000
"""Largest number of events in an answer. The oldest are left out."""
MAX_JOBS = 50_000
"""Largest number of jobs that are counted. At a few thousand jobs a second, they keep one reader busy for some seconds."""
LARGE_SHARE, LEAST_LARGE, MAX_LARGE = 8, 2, 50
"""A job is large with an eighth of the cluster's GPUs, but at least two. At most the 50 largest are named."""


class GpuUse:
    """Sums up the GPU-seconds of jobs in equal parts of a range."""

    def __init__(self, since_unix: float, until_unix: float, *, steps: int) -> None:
        self._since = since_unix
        self._step_s = (until_unix - since_unix) / steps
        self._held = [0.0] * steps
        self._measured = [0.0] * steps
        self._busy = [0.0] * steps

    def add(self, start_unix: float, end_unix: float, *, gpus: int, util_pct: float | None) -> None:
        """Count a job that held this number of GPUs from start to end."""
        first = max(0, int((start_unix - self._since) // self._step_s))
        last = min(len(self._held) - 1, int((end_unix - self._since) // self._step_s))
        for step in range(first, last + 1):
            begin = self._since + step * self._step_s
            held = gpus * max(0.0, min(end_unix, begin + self._step_s) - max(start_unix, begin))
            self._held[step] += held
            if util_pct is not None:
                self._measured[step] += held
                self._busy[step] += held * util_pct

    @property
    def allocated(self) -> list[float]:
        """The mean number of allocated GPUs in each part."""
        return [round(held / self._step_s, 2) for held in self._held]

    @property
    def util_pct(self) -> list[float | None]:
        """The mean utilization of the measured GPUs in each part."""
        return [
            round(busy / measured, 1) if measured else None
            for busy, measured in zip(self._busy, self._measured, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Timelines:
    """Answers requests for a timeline."""

    state: State
    store: Store
    records: RecordSearch
    gpus: Callable[[], int]
    """Returns the number of GPUs of the cluster."""
    clock: Callable[[], float]

    async def timeline(self, message: ask.NodeTimeline) -> results.Timeline:
        """Return the events and the use of the GPUs in this range. Raises UserError."""
        now = self.clock()
        until = min(message.until, now)
        if not message.since < until:
            raise UserError("the range of time is empty", "give a begin before its end, in the past")
        if until - message.since > MAX_RANGE_S:
            raise UserError("the range of time is too long", f"give at most {MAX_RANGE_S / 86_400:.0f} days")
        use = GpuUse(message.since, until, steps=message.steps)
        gpus = self.gpus()
        started, is_partial = await self._count(use, message.since, until)
        conditions = await self.store.conditions_between(message.since, until)
        events = [*node_events(conditions, message.since), *large_starts(started, gpus)]
        events.sort(key=lambda event: event.at)
        return results.Timeline(
            since=message.since,
            until=until,
            gpus=gpus,
            events=events[-MAX_EVENTS:],
            events_left_out=max(0, len(events) - MAX_EVENTS),
            allocated=use.allocated,
            util_pct=use.util_pct,
            is_partial=is_partial,
        )

    async def _count(self, use: GpuUse, since: float, until: float) -> tuple[list[Job], bool]:
        """Count all jobs of the range. Return those that started in it, and whether some jobs were left out."""
        started: list[Job] = []
        counted = 0
        ran = ask.Records(states=("RUNNING",), since=since, until=until, ended=True, runs=True)
        async for jobs, _ in self.records.jobs(ran):
            for job in jobs:
                gpus, start = _gpus(job), job.start_at_unix
                if not gpus or start is None:
                    continue
                end = until if job.end_at_unix is None else job.end_at_unix
                util = usage_row(job).gpu_util_pct if job.end_at_unix else mean_util_pct(self.state, job)
                use.add(start, min(end, until), gpus=gpus, util_pct=util)
                if start >= since:
                    started.append(job)
            counted += len(jobs)
            if counted >= MAX_JOBS:
                return started, True
        return started, False


def _gpus(job: Job) -> int:
    return job.allocation.gpu_count() if job.allocation else 0


def large_starts(jobs: Iterable[Job], cluster_gpus: int) -> list[NodeEventRow]:
    """Return the starts of the largest jobs."""
    least = max(LEAST_LARGE, cluster_gpus // LARGE_SHARE)
    large = sorted((job for job in jobs if _gpus(job) >= least), key=_gpus, reverse=True)
    return [
        NodeEventRow(
            at=job.start_at_unix or 0.0,
            kind="job",
            node=node_list(job),
            text=job.request.name,
            job=job.label(),
            user=job.user,
            gpus=_gpus(job),
        )
        for job in large[:MAX_LARGE]
    ]


def node_events(conditions: Sequence[Condition], since_unix: float) -> list[NodeEventRow]:
    """Return the changes between the conditions of each node. The conditions are in order of time."""
    before: dict[NodeName, Condition] = {}
    events: list[NodeEventRow] = []
    for found in conditions:
        last = before.get(found.node, Condition(node=found.node, at_unix=found.at_unix))
        before[found.node] = found
        if found.at_unix > since_unix:
            events += _changes(last, found)
    return events


def _changes(last: Condition, found: Condition) -> list[NodeEventRow]:
    def event(kind: str, text: str = "", gpus: int = 0, user: str = "") -> NodeEventRow:
        return NodeEventRow(at=found.at_unix, kind=kind, node=found.node, text=text, gpus=gpus, user=user)

    events = []
    if found.down != last.down:
        events.append(event("down", found.down_reason) if found.down else event("up"))
    if found.drained != last.drained:
        events.append(
            event("drain", found.reason, user=found.drained_by) if found.drained else event("resume")
        )
    drained = {drain.uuid: drain.reason for drain in found.gpu_drains}
    known = {drain.uuid for drain in last.gpu_drains}
    new = [reason for uuid, reason in drained.items() if uuid not in known]
    if new:
        events.append(event("gpu_drain", new[0], len(new)))
    if gone := len(known - drained.keys()):
        events.append(event("gpu_resume", "", gone))
    return events
