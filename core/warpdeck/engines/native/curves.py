"""Resource usage over time.

Agents measure running jobs and nodes; the store keeps the measurements of finished jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.controller.presenters import usage_rows
from warpdeck.controller.presenters.step_rows import BATCH
from warpdeck.controller.state.measurements import summed, to_curve, to_usage
from warpdeck.controller.state.state import State
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.model import Job, NodeName, UsageCurve
from warpdeck.ports.ports import Fleet
from warpdeck.ports.store import Store
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import CurveRow, NodeUsage, UsageCurves, UsageRow
from warpdeck_agent.wire import messages as wire


@dataclass(frozen=True, kw_only=True)
class CurveReader:
    """Reads the curves of nodes, jobs and steps."""

    state: State
    store: Store
    fleet: Fleet
    lookup: JobLookup

    async def curves(self, message: ask.Curves) -> UsageCurves:
        """Return the curves of a node, a job or a step. Raises UserError."""
        if message.node:
            return await self._of_node(message.node, step_s=message.step_s)
        job_word, dot, number = message.job.partition(".")
        if dot and not number.isdecimal() and number != BATCH:
            raise UserError(f"{message.job!r} is not a step", "use JOB.STEP, such as 12.0")
        job = await self.lookup.find(job_word)
        if number == BATCH:
            return await self._of_batch(job)
        if dot:
            return await self._of_step(job, int(number))
        return await self._of_job(job)

    async def _of_node(self, name: str, *, step_s: float) -> UsageCurves:
        """Return the node's curve and one curve for each of its GPUs. Raises UserError."""
        node = self.state.nodes.get(NodeName(name))
        if node is None:
            raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="not_found")
        try:
            told = await self.fleet.curves(node.name, wire.AskCurves(ask=0, step_s=step_s))
        except RemoteError as error:
            raise UserError(f"{name} does not answer: {error.cause}", "try again when it is back") from error
        indices = {str(gpu.uuid): gpu.index for gpu in node.gpus}
        return UsageCurves(
            curves=[
                _row(name, to_curve(each), uuid=each.uuid, gpu=indices.get(each.uuid)) for each in told.curves
            ]
        )

    async def _of_job(self, job: Job) -> UsageCurves:
        """Return the job's curves by node and its usage so far.

        Nodes that do not answer are listed as errors.
        """
        if not job.holds_resources:
            return await self._stored(job, usage_rows.usage_row(job) if job.shares else None)
        return await self._measured(job, [share.node for share in job.shares])

    async def _of_batch(self, job: Job) -> UsageCurves:
        """Return the usage of the job's script without its steps.

        It has no curve of its own. Raises UserError.
        """
        if not job.shares or not job.request.script:
            raise UserError(
                f"job {job.label()} has no batch step", f"see warpdeck show {job.label()}", code="not_found"
            )
        if not job.holds_resources:
            return UsageCurves(used=usage_rows.use_of([job.shares[0].without_steps()]))
        return await self._measured(job, [job.shares[0].node], own=True)

    async def _of_step(self, job: Job, number: int) -> UsageCurves:
        """Return the curves and usage of one step of the job.

        Raises UserError if it has no step with that number.
        """
        steps = [each for each in await self.store.steps(job.id) if each.number == number]
        step = self.state.steps.get(job.id, {}).get(number) or (steps[-1] if steps else None)
        if step is None:
            raise UserError(
                f"job {job.label()} has no step {number}",
                f"see warpdeck show {job.label()}",
                code="not_found",
            )
        if step.is_finished:
            return await self._stored(job, usage_rows.use_of(step.parts), step=number)
        return await self._measured(job, [share.node for share in step.shares], step=number)

    async def _stored(self, job: Job, used: UsageRow | None, *, step: int | None = None) -> UsageCurves:
        """Return the stored curves of a finished job or step."""
        stored = await self.store.curves(job.id, step=step)
        return UsageCurves(curves=[_row(each.node, each.curve) for each in stored], used=used)

    async def _measured(
        self, job: Job, nodes: Sequence[NodeName], *, step: int | None = None, own: bool = False
    ) -> UsageCurves:
        """Return the curves of a running job or step, as reported by its nodes."""
        asked = wire.AskCurves(ask=0, job_id=job.id, restarts=job.restarts, step=step, own=own)
        answers = await asyncio.gather(*(self._ask(node, asked) for node in nodes))
        told = [
            (node, answer)
            for node, answer in zip(nodes, answers, strict=True)
            if isinstance(answer, wire.Curves)
        ]
        return UsageCurves(
            curves=[_row(node, to_curve(each)) for node, answer in told for each in answer.curves],
            used=_used([answer for _, answer in told]),
            parts=[
                NodeUsage(node=node, cpu_seconds=answer.cpu_seconds, peak_mem_bytes=answer.peak_mem_bytes)
                for node, answer in told
            ],
            errors=[answer for answer in answers if isinstance(answer, str)],
        )

    async def _ask(self, node: NodeName, asked: wire.AskCurves) -> wire.Curves | str:
        try:
            return await self.fleet.curves(node, asked)
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
