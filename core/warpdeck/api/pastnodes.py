"""The nodes as they were at a moment: which jobs held them, from the records; what kept jobs off them, from their conditions;
and what was measured, from the nodes' agents.

An agent keeps a day: by the second for ten minutes, by ten seconds for two hours, then by the minute; who was on a GPU without
being a job by the minute. All nodes are asked at once, each with one small message; one that does not answer in time, or was
not there, is shown without readings and says so. What nobody wrote down then is told as unknown, never as none. Nobody
remembers nodes that are gone, and nobody notices what becomes of a link while no controller runs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from warpdeck.controller.present import state_in_words
from warpdeck.controller.state import amend
from warpdeck.controller.view import blocked_gpus
from warpdeck.errors import RemoteError, UserError
from warpdeck.model import (
    Condition,
    Gpu,
    GpuProcess,
    GpuReading,
    Job,
    JobId,
    Link,
    Node,
    NodeName,
    Reading,
    Share,
)
from warpdeck_agent.wire import messages as wire

from . import history, nodes
from . import protocol as ask
from .rows import GpuRow, PastNodeRow, ProcessRow, SharerRow

if TYPE_CHECKING:
    from warpdeck.controller.app import Controller

    from .server import ApiServer

ABSENT = "absent"
NOT_MEASURED = "nothing was measured then"
NOT_ADDED = "it was no node of this cluster yet"
NO_CONDITION = "whether it was drained or down"
NO_STRANGERS = "who was on its GPUs beside the jobs"
Held = list[tuple[Job, Share]]
"""What a node's jobs had of it."""


class Then(NamedTuple):
    """All that is known of one node at the moment."""

    node: Node
    """As it was, as far as its drains go."""
    link: Link
    added: bool
    condition: Condition | None
    held: Held
    moment: wire.Moment
    unknown: str
    """Why nothing was measured; "" where it was."""


async def rows(server: ApiServer, message: ask.NodesAt, *, uid: int) -> list[PastNodeRow]:
    """By name, when it is the user's turn. Raises UserError."""
    controller = server.controller
    found = nodes.named(controller, message.name)
    if message.at > controller.clock():
        raise UserError("that moment is still to come", "name one in the past, such as 03:12 or now-2hours")
    turn = await server.looks_back.take(uid)
    try:
        held = await _held(controller, message.at)
        conditions = {each.node: each for each in await controller.store.conditions(message.at)}
        told = await asyncio.gather(*(_asked(controller, node.name, message.at) for node in found))
    finally:
        turn.leave()
    return [
        _row(_then(node, message.at, conditions.get(node.name), held.get(node.name, []), said))
        for node, said in zip(found, told, strict=True)
    ]


async def _held(controller: Controller, at_unix: float) -> dict[NodeName, Held]:
    """Who ran where; an earlier start of a requeued job, too."""
    ran = ask.Records(states=("RUNNING",), since=at_unix, until=at_unix, ended=True, runs=True)
    found: dict[NodeName, Held] = {}
    async for jobs in history.jobs_of(controller, ran):
        for job in jobs:
            for share in job.allocation.shares if job.allocation else ():
                found.setdefault(share.node, []).append((job, share))
    return found


async def _asked(controller: Controller, name: NodeName, at_unix: float) -> wire.Moment | RemoteError:
    try:
        return await controller.fleet.moment(name, at_unix=at_unix)
    except RemoteError as error:
        return error


def _then(
    node: Node, at_unix: float, condition: Condition | None, held: Held, told: wire.Moment | RemoteError
) -> Then:
    added = node.added_at_unix <= at_unix
    condition = condition if added else None  # of another node that had its name
    if isinstance(told, RemoteError):
        unknown = f"{node.name} does not answer: {told.cause}"
    else:
        unknown = "" if told.step_s else NOT_MEASURED if added else NOT_ADDED
    was = condition or Condition(node=node.name, at_unix=at_unix)
    return Then(
        node=amend(node, drained=was.drained, reason=was.reason, gpu_drains=was.gpu_drains),
        link=Link.LOST if was.down else Link.UP,
        added=added,
        condition=condition,
        held=held,
        moment=told if isinstance(told, wire.Moment) else wire.Moment(ask=0),
        unknown=unknown,
    )


def _row(then: Then) -> PastNodeRow:
    node, held, moment = then.node, then.held, then.moment
    reading = _reading(moment)
    measured = {gpu.index: gpu for gpu in reading.gpus}
    blocked = blocked_gpus(node, reading, _gpu_users(held))
    cpus_used = sum(share.cpus for _, share in held)
    down = then.condition.down_reason if then.condition else ""
    return PastNodeRow(
        name=node.name,
        target=node.target or "local",
        state=state_in_words(node, then.link, cpus_used=cpus_used, busy=bool(held)) if then.added else ABSENT,
        reason=node.reason if node.drained else down,
        hostname=node.hostname,
        cpus=node.cpus,
        cpus_used=cpus_used,
        cpu_pct=moment.cpu_pct,
        mem_bytes=node.mem_bytes,
        mem_alloc_bytes=sum(share.mem_bytes for _, share in held),
        mem_used_bytes=moment.mem_used_bytes,
        gpus=[
            _gpu(gpu, held, measured.get(gpu.index) or GpuReading(index=gpu.index), blocked)
            for gpu in node.gpus
        ],
        driver=node.driver,
        address=node.address,
        gpu_error=node.gpu_error,
        jobs=[job.label() for job, _ in held],
        begin=moment.begin_unix if moment.step_s else None,
        step_s=moment.step_s or None,
        since=moment.since_unix or None,
        unknown=then.unknown,
        untold=_untold(then),
    )


def _untold(then: Then) -> list[str]:
    seen = {each.index for each in then.moment.strangers}
    missing = bool(then.moment.step_s) and any(gpu.index not in seen for gpu in then.node.gpus)
    return [NO_CONDITION] * (then.added and then.condition is None) + [NO_STRANGERS] * missing


def _reading(moment: wire.Moment) -> Reading:
    """In the controller's own types; what no job had is there as one process for each user."""
    strangers = {each.index: each for each in moment.strangers}
    measured = {gpu.index: gpu for gpu in moment.gpus}
    gpus = []
    for index in sorted({*strangers, *measured}):
        seen = strangers.get(index, wire.Strangers(index))
        gpu = measured.get(index, wire.GpuSample(index))
        gpus.append(
            GpuReading(
                index=index,
                util_pct=gpu.util_pct,
                mem_used_bytes=gpu.mem_used_bytes,
                power_w=gpu.power_w,
                temp_c=gpu.temp_c,
                processes=tuple(
                    GpuProcess(pid=0, user=user, mem_bytes=mem_bytes)
                    for user, mem_bytes in seen.mem_bytes.items()
                ),
                unexplained_bytes=seen.unexplained_bytes,
            )
        )
    return Reading(at_unix=moment.begin_unix, cpu_pct=0.0, mem_used_bytes=0, gpus=tuple(gpus))


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
