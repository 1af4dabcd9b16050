"""The state of the nodes at a past time.

The jobs on a node come from the job records. Drains and downs come from the node's recorded conditions.
Measurements come from the engine (`PastMeasurements`).

A node that has no measurements, or did not exist yet, is shown without readings and with the reason. Facts that were
not recorded are reported as unknown, never as absent. Removed nodes are not remembered, and changes of links are not
recorded while no controller or gateway runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from warpdeck.base.chunking import LazyRows, Rows
from warpdeck.base.errors import UserError
from warpdeck.controller.presenters.node_now import state_name
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.view import blocked_gpus
from warpdeck.model import (
    UNKNOWN_GPU,
    Condition,
    Gpu,
    GpuReading,
    Job,
    JobId,
    Link,
    Node,
    NodeName,
    NodeReading,
    Share,
)
from warpdeck.ports.store import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.node_rows import GpuRow, PastNodeRow, ProcessRow, SharerRow

from .job_records import RecordSearch

ABSENT = "absent"
NOT_MEASURED = "there are no measurements"
NOT_ADDED = "it was not yet a node of this cluster"
NO_CONDITION = "its state (drained or down)"
NO_STRANGERS = "other processes on its GPUs"
NO_INDEXES = "the GPUs that each job had"
Held = list[tuple[Job, Share]]
"""Jobs on a node, each with the share that it had."""


class PastAnswer(NamedTuple):
    """The measurements of one node, in our own types.

    They need a tenth as many objects as an agent's answer, which matters with a thousand nodes.
    """

    reading: NodeReading
    """Readings. Processes that belong to no job are merged into one process for each user."""
    seen: frozenset[int] = frozenset()
    """The GPUs for which it is known whether processes of no job used them."""
    begin_unix: float = 0.0
    step_s: float = 0.0
    since_unix: float = 0.0
    cpu_pct: float | None = None
    mem_used_bytes: int | None = None
    unknown: str = ""
    """Reason why there are no measurements, if it is special."""


NOTHING = PastAnswer(NodeReading(at_unix=0.0, cpu_pct=0.0, mem_used_bytes=0))


class Then(NamedTuple):
    """All that is known about one node at that time."""

    node: Node
    """The node with its drains at that time; its other fields are current."""
    link: Link
    added: bool
    condition: Condition | None
    held: Held
    told: PastAnswer
    unknown: str
    """Reason why there are no measurements, or "" if there are some."""


class PastMeasurements(Protocol):
    """The measurements of past times that an engine has."""

    async def read(self, nodes: Sequence[Node], at_unix: float) -> list[PastAnswer]:
        """Return the measurements of these nodes, in the same order."""


@dataclass(frozen=True, kw_only=True)
class PastNodes:
    """Finds the state of nodes at past times."""

    store: Store
    measurements: PastMeasurements
    records: RecordSearch
    clock: Callable[[], float]

    async def rows(self, nodes: Sequence[Node], at_unix: float) -> Rows[PastNodeRow]:
        """Return the rows of these nodes at a past time, in the same order. Raises UserError."""
        if at_unix > self.clock():
            raise UserError(
                "this time is in the future", "use a time in the past, such as 03:12 or now-2hours"
            )
        held = await self._held(at_unix)
        conditions = {each.node: each for each in await self.store.conditions(at_unix)}
        told = await self.measurements.read(nodes, at_unix)
        found = [
            _then(node, at_unix, conditions.get(node.name), held.get(node.name, []), said)
            for node, said in zip(nodes, told, strict=True)
        ]
        return LazyRows(found, lambda some: [_row(then) for then in some])

    async def _held(self, at_unix: float) -> dict[NodeName, Held]:
        """Return the jobs that ran on each node, including earlier starts of requeued jobs."""
        ran = ask.Records(states=("RUNNING",), since=at_unix, until=at_unix, ended=True, runs=True)
        found: dict[NodeName, Held] = {}
        async for jobs, _ in self.records.jobs(ran):
            for job in jobs:
                for share in job.allocation.shares if job.allocation else ():
                    found.setdefault(share.node, []).append((job, share))
        return found


def _then(node: Node, at_unix: float, condition: Condition | None, held: Held, told: PastAnswer) -> Then:
    added = node.added_at_unix <= at_unix
    condition = condition if added else None  # Otherwise it belongs to an earlier node of the same name.
    was = condition or Condition(node=node.name, at_unix=at_unix)
    return Then(
        node=replace(node, drained=was.drained, reason=was.reason, gpu_drains=was.gpu_drains),
        link=Link.LOST if was.down else Link.UP,
        added=added,
        condition=condition,
        held=held,
        told=told,
        unknown="" if told.step_s else told.unknown or (NOT_MEASURED if added else NOT_ADDED),
    )


def _row(then: Then) -> PastNodeRow:
    node, held, told = then.node, then.held, then.told
    measured = {gpu.index: gpu for gpu in told.reading.gpus}
    blocked = blocked_gpus(node, told.reading, _gpu_users(held))
    cpus_used = sum(share.cpus for _, share in held)
    down = then.condition.down_reason if then.condition else ""
    return PastNodeRow(
        name=node.name,
        target=node.target or "local",
        state=state_name(node, then.link, cpus_used=cpus_used, busy=bool(held)) if then.added else ABSENT,
        reason=node.reason if node.drained else down,
        hostname=node.hostname,
        cpus=node.cpus,
        cpus_used=cpus_used,
        cpu_pct=told.cpu_pct,
        mem_bytes=node.mem_bytes,
        mem_alloc_bytes=sum(share.mem_bytes for _, share in held),
        mem_used_bytes=told.mem_used_bytes,
        gpus=[
            _gpu(gpu, held, measured.get(gpu.index) or GpuReading(index=gpu.index), blocked)
            for gpu in node.gpus
        ],
        driver=node.driver,
        address=node.address,
        gpu_error=node.gpu_error,
        jobs=[job.label() for job, _ in held],
        begin=told.begin_unix if told.step_s else None,
        step_s=told.step_s or None,
        since=told.since_unix or None,
        unknown=then.unknown,
        untold=_untold(then),
    )


def _untold(then: Then) -> list[str]:
    told = then.told
    missing = bool(told.step_s) and any(gpu.index not in told.seen for gpu in then.node.gpus)
    facts = (
        (then.added and then.condition is None, NO_CONDITION),
        (missing, NO_STRANGERS),
        (any(UNKNOWN_GPU in share.gpus for _, share in then.held), NO_INDEXES),
    )
    return [fact for is_unknown, fact in facts if is_unknown]


def _gpu_users(held: Held) -> dict[int, set[JobId]]:
    users: dict[int, set[JobId]] = {}
    for job, share in held:
        for index in share.gpus:
            users.setdefault(index, set()).add(job.id)
    return users


def _gpu(gpu: Gpu, held: Held, measured: GpuReading, blocked: dict[int, str]) -> GpuRow:
    here = [(job, share) for job, share in held if gpu.index in share.gpus]
    holder = here[0][0] if here else None
    return GpuRow(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        type=gpu.type,
        mem_bytes=gpu.mem_bytes,
        util_pct=measured.util_pct,
        mem_used_bytes=measured.mem_used_bytes,
        power_w=measured.power_w,
        temp_c=measured.temp_c,
        job=holder.label() if holder is not None else "",
        job_user=holder.user if holder is not None else "",
        sharers=[
            SharerRow(job=job.label(), user=job.user, share_pct=share.gpu_share_pct)
            for job, share in here
            if share.gpu_share_pct < 100
        ],
        isolation=gpu.isolation,
        blocked=blocked.get(gpu.index, ""),
        processes=[
            ProcessRow(pid=each.pid, user=each.user, command=each.command, mem_bytes=each.mem_bytes)
            for each in measured.processes
        ],
    )
