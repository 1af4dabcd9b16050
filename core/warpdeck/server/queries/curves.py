"""Resource usage over time.

Agents measure running jobs and nodes; the store keeps the measurements of finished jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.controller.presenters import usage_rows
from warpdeck.controller.presenters.step_rows import BATCH
from warpdeck.controller.state.measurements import summed, to_curve, to_usage
from warpdeck.model import Job, NodeName, UsageCurve
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import CurveRow, UsageRow
from warpdeck.server.connection import Connection
from warpdeck_agent.wire import messages as wire

from .job_lookup import find_job

if TYPE_CHECKING:
    from warpdeck.controller.loop.controller import Controller


async def answer(connection: Connection, message: ask.Curves) -> dict[str, Any]:
    """Return the curves of a node, a job or a step. Raises UserError."""
    controller = connection.server.controller
    if bool(message.job) == bool(message.node):
        raise UserError("metrics need either a job or a node", "give one of them")
    if message.node:
        return await of_node(controller, message.node, step_s=message.step_s)
    job_word, dot, number = message.job.partition(".")
    if dot and not number.isdecimal() and number != BATCH:
        raise UserError(f"{message.job!r} is not a step", "use JOB.STEP, such as 12.0")
    job = await find_job(connection, job_word)
    if number == BATCH:
        return await of_batch(controller, job)
    if dot:
        return await of_step(controller, job, int(number))
    return await of_job(controller, job)


async def of_node(controller: Controller, name: str, *, step_s: float) -> dict[str, Any]:
    """Return the node's curve and one curve for each of its GPUs. Raises UserError."""
    node = controller.state.nodes.get(NodeName(name))
    if node is None:
        raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
    try:
        told = await controller.fleet.curves(node.name, wire.AskCurves(ask=0, step_s=step_s))
    except RemoteError as error:
        raise UserError(f"{name} does not answer: {error.cause}", "try again when it is back") from error
    indices = {str(gpu.uuid): gpu.index for gpu in node.gpus}
    rows = [_row(name, to_curve(each), uuid=each.uuid, gpu=indices.get(each.uuid)) for each in told.curves]
    return {"curves": rows, "used": None, "parts": [], "errors": []}


async def of_job(controller: Controller, job: Job) -> dict[str, Any]:
    """Return the job's curves by node and its usage so far. Nodes that do not answer are listed as errors."""
    if not job.holds_resources:
        used = usage_rows.usage_row(job) if job.shares else None
        return await _kept(controller, job, used)
    return await _asked(controller, job, [share.node for share in job.shares])


async def of_batch(controller: Controller, job: Job) -> dict[str, Any]:
    """Return the usage of the job's script without its steps.

    It has no curve of its own. Raises UserError.
    """
    if not job.shares or not job.request.script:
        raise UserError(
            f"job {job.label()} has no batch step", f"see warpdeck show {job.label()}", code="not_found"
        )
    if not job.holds_resources:
        return {
            "curves": [],
            "used": usage_rows.use_of([job.shares[0].without_steps()]),
            "parts": [],
            "errors": [],
        }
    return await _asked(controller, job, [job.shares[0].node], own=True)


async def of_step(controller: Controller, job: Job, number: int) -> dict[str, Any]:
    """Return the curves and usage of one step of the job.

    Raises UserError if it has no step with that number.
    """
    steps = [each for each in await controller.store.steps(job.id) if each.number == number]
    step = controller.state.steps.get(job.id, {}).get(number) or (steps[-1] if steps else None)
    if step is None:
        raise UserError(
            f"job {job.label()} has no step {number}", f"see warpdeck show {job.label()}", code="not_found"
        )
    if step.is_finished:
        return await _kept(controller, job, usage_rows.use_of(step.parts), step=number)
    return await _asked(controller, job, [share.node for share in step.shares], step=number)


async def _kept(
    controller: Controller, job: Job, used: UsageRow | None, *, step: int | None = None
) -> dict[str, Any]:
    """Return the stored curves of a finished job or step."""
    kept = await controller.store.curves(job.id, step=step)
    rows = [_row(each.node, each.curve) for each in kept]
    return {"curves": rows, "used": used, "parts": [], "errors": []}


async def _asked(
    controller: Controller,
    job: Job,
    nodes: Sequence[NodeName],
    *,
    step: int | None = None,
    own: bool = False,
) -> dict[str, Any]:
    """Return the curves of a running job or step, as reported by its nodes."""
    asked = wire.AskCurves(ask=0, job_id=job.id, restarts=job.restarts, step=step, own=own)
    answers = await asyncio.gather(*(_ask(controller, node, asked) for node in nodes))
    curves = [
        _row(node, to_curve(each))
        for node, answer in zip(nodes, answers, strict=True)
        if isinstance(answer, wire.Curves)
        for each in answer.curves
    ]
    errors = [answer for answer in answers if isinstance(answer, str)]
    told = [answer for answer in answers if isinstance(answer, wire.Curves)]
    parts = [
        {"node": node, "cpu_seconds": answer.cpu_seconds, "peak_mem_bytes": answer.peak_mem_bytes}
        for node, answer in zip(nodes, answers, strict=True)
        if isinstance(answer, wire.Curves)
    ]
    return {"curves": curves, "used": _used(told), "parts": parts, "errors": errors}


async def _ask(controller: Controller, node: NodeName, asked: wire.AskCurves) -> wire.Curves | str:
    try:
        return await controller.fleet.curves(node, asked)
    except RemoteError as error:
        return f"{node} does not answer: {error.cause}"


def _used(told: Sequence[wire.Curves]) -> UsageRow:
    return usage_rows.shown_usage(
        summed(to_usage(answer.gpu) for answer in told),
        cpu_seconds=sum(answer.cpu_seconds for answer in told),
        peak_mem_bytes=max((answer.peak_mem_bytes for answer in told), default=0),
    )


def _row(node: str, curve: UsageCurve, *, uuid: str = "", gpu: int | None = None) -> CurveRow:
    return CurveRow(
        node=node, begin=curve.begin_unix, step_s=curve.step_s, columns=curve.columns, gpu=gpu, uuid=uuid
    )
