"""The nodes as they were at a moment: which jobs held them, from the records, and what was measured, from the nodes' agents.

An agent keeps a day: by the second for ten minutes, by ten seconds for two hours, then by the minute. All nodes are asked at once,
each with one small message; one that does not answer in time, or was not there, is shown with its jobs alone and says so.
What was drained then, which processes ran, and nodes that are gone: nobody remembers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from warpdeck.controller.present import use_state
from warpdeck.errors import RemoteError, UserError
from warpdeck.model import Gpu, Job, Node, NodeName, Share
from warpdeck_agent.wire import messages as wire

from . import history, nodes
from . import protocol as ask
from .rows import GpuRow, PastNodeRow

if TYPE_CHECKING:
    from warpdeck.controller.app import Controller

    from .server import ApiServer

NOT_MEASURED = "nothing was measured then"
Held = list[tuple[Job, Share]]
"""What a node's jobs had of it."""


async def rows(server: ApiServer, message: ask.NodesAt, *, uid: int) -> list[PastNodeRow]:
    """By name, when it is the user's turn. Raises UserError."""
    controller = server.controller
    found = nodes.named(controller, message.name)
    if message.at > controller.clock():
        raise UserError("that moment is still to come", "name one in the past, such as 03:12 or now-2hours")
    turn = await server.looks_back.take(uid)
    try:
        held = await _held(controller, message.at)
        told = await asyncio.gather(*(_asked(controller, node.name, message.at) for node in found))
    finally:
        turn.leave()
    return [_row(node, held.get(node.name, []), said) for node, said in zip(found, told, strict=True)]


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


def _row(node: Node, held: Held, told: wire.Moment | RemoteError) -> PastNodeRow:
    moment = told if isinstance(told, wire.Moment) else wire.Moment(ask=0)
    measured = {gpu.index: gpu for gpu in moment.gpus}
    gpus = [_gpu(gpu, held, measured.get(gpu.index) or wire.GpuSample(gpu.index)) for gpu in node.gpus]
    unknown = f"{node.name} does not answer: {told.cause}" if isinstance(told, RemoteError) else ""
    cpus_used = sum(share.cpus for _, share in held)
    return PastNodeRow(
        name=node.name,
        target=node.target or "local",
        state=use_state(node, cpus_used=cpus_used, busy=bool(held)),
        hostname=node.hostname,
        cpus=node.cpus,
        cpus_used=cpus_used,
        cpu_pct=moment.cpu_pct,
        mem_bytes=node.mem_bytes,
        mem_alloc_bytes=sum(share.mem_bytes for _, share in held),
        mem_used_bytes=moment.mem_used_bytes,
        gpus=gpus,
        driver=node.driver,
        address=node.address,
        gpu_error=node.gpu_error,
        jobs=[job.label() for job, _ in held],
        begin=moment.begin_unix if moment.step_s else None,
        step_s=moment.step_s or None,
        since=moment.since_unix or None,
        unknown=unknown or ("" if moment.step_s else NOT_MEASURED),
    )


def _gpu(gpu: Gpu, held: Held, measured: wire.GpuSample) -> GpuRow:
    holder = next((job for job, share in held if gpu.index in share.gpus), None)
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
    )
