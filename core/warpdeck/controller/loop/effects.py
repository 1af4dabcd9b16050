"""Execute effects after the commit of their transaction, in order for each node.

Every effect can be repeated without harm.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any, assert_never

from warpdeck.base.errors import RemoteError, StoreError, UserError
from warpdeck.controller.events.effects import (
    CollectOutput,
    DropNode,
    Effect,
    ForgetShare,
    KillShare,
    LaunchShare,
    LimitShare,
    RequestHealth,
    RevokeLaunches,
    SetSampling,
    ShowNotice,
)
from warpdeck.controller.events.events import BroadcastFence, ForgetStep, KillStep, LaunchStep
from warpdeck.controller.events.node_messages import decode_node_message
from warpdeck.controller.launch.launch_records import with_record
from warpdeck.controller.launch.launching import build_launch, output_paths
from warpdeck.controller.launch.step_launch import build_step_launch
from warpdeck.controller.launch.whole_request import with_whole_request
from warpdeck.controller.reducers.node_health import health_request
from warpdeck.controller.reducers.step_commands import find_step
from warpdeck.controller.state import bug_reports
from warpdeck.controller.state.state import State
from warpdeck.model import Job, JobId, NodeName
from warpdeck.notation.values.umask import umask_of
from warpdeck_agent.wire import WireError
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import steps as stepwire

from .adapters import Adapters
from .event_queue import EventQueue
from .site_rules import SiteRules

log = logging.getLogger("warpdeck.effects")


class EffectRunner:
    """Runs the effects, with one queue and one task for each node.

    A node that is slow to accept a launch therefore does not delay other nodes.
    """

    def __init__(self, state: State, adapters: Adapters, *, rules: SiteRules, queue: EventQueue) -> None:
        self._state = state
        self._adapters = adapters
        self._rules = rules
        self._queue = queue
        self._queues: dict[NodeName, asyncio.Queue[Effect | asyncio.Future[None]]] = {}
        self._group: asyncio.TaskGroup | None = None

    def add(self, effects: Sequence[Effect]) -> None:
        """Queue effects. The number of jobs that hold resources limits the length of the queues."""
        for effect in effects:
            queue = self._queues.get(effect.node)
            if queue is None:
                queue = self._queues[effect.node] = asyncio.Queue()
                if self._group is not None:
                    self._group.create_task(self._work(queue), name=f"effects of {effect.node}")
            queue.put_nowait(effect)

    async def flushed(self, node: NodeName) -> None:
        """Wait until the effects that are queued for this node now have been executed."""
        queue = self._queues.get(node)
        if queue is not None:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.put_nowait(reached)
            await reached

    async def run(self) -> None:
        """Execute effects until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for name, queue in self._queues.items():
                group.create_task(self._work(queue), name=f"effects of {name}")
            await asyncio.Event().wait()

    async def _work(self, queue: asyncio.Queue[Effect | asyncio.Future[None]]) -> None:
        while True:
            effect = await queue.get()
            if isinstance(effect, asyncio.Future):
                if not effect.done():
                    effect.set_result(None)
                continue
            try:
                await self._execute(effect)
            except RemoteError as error:
                log.warning("%s: %s", type(effect).__name__, error)
            except WireError as error:
                log.warning("%s: %s", type(effect).__name__, error)
                what = "step" if isinstance(effect, LaunchStep) else "job"
                self._fail_launch(effect, f"the {what} is too large to be sent to {effect.node}: {error}")
            except (StoreError, UserError) as error:
                log.warning("%s: %s", type(effect).__name__, error)
                self._fail_launch(effect, str(error))
            except Exception:
                bug_reports.report_bug(type(effect).__name__)
                self._fail_launch(effect, "an error inside the controller; see the controller's log")

    def _fail_launch(self, effect: Effect, reason: str) -> None:
        """Report that a launch failed because it could not be sent to its node.

        The report has the same form as a report from the node.
        """
        match effect:
            case LaunchShare(job_id=job_id):
                job = self._state.jobs.get(job_id)
                if job is not None:
                    failed = wire.LaunchFailed(job_id=job_id, restarts=job.restarts, message=reason)
                    self._report(effect.node, failed)
            case LaunchStep(job_id=job_id, number=number):
                step = find_step(self._state, job_id, number)
                if step is not None:
                    ended = stepwire.StepReport(
                        job_id=job_id, restarts=step.restarts, step=number, phase="exited", message=reason
                    )
                    self._report(effect.node, ended)

    def _report(self, node: NodeName, report: wire.LaunchFailed | stepwire.StepReport) -> None:
        self._queue.put(decode_node_message(node, report, received_unix=self._adapters.clock()))

    async def _execute(self, effect: Effect) -> None:
        match effect:
            case LaunchShare():
                await self._launch(effect)
            case LimitShare():
                await self._limit(effect)
            case ForgetShare():
                self._forget(effect)
            case CollectOutput():
                await self._collect(effect)
            case DropNode():
                await self._adapters.fleet.remove(effect.node)
            case LaunchStep():
                await self._launch_step(effect)
            case _:
                await self._adapters.fleet.send(effect.node, self._message(effect))

    def _message(
        self,
        effect: KillShare
        | RevokeLaunches
        | RequestHealth
        | SetSampling
        | ShowNotice
        | KillStep
        | ForgetStep
        | BroadcastFence,
    ) -> Any:
        """Return the message for an effect that consists of a single message to its node."""
        match effect:
            case KillShare():
                site_s = self._rules.config.grace_s
                grace_s = site_s if effect.grace_s is None else effect.grace_s
                return wire.Kill(
                    job_id=effect.job_id,
                    restarts=effect.restarts,
                    cause=effect.cause,
                    grace_s=0.0 if effect.at_once else grace_s,
                    signal=effect.signal,
                    whom=effect.target,
                    saves=effect.saves,
                )
            case RevokeLaunches():
                return wire.TakeBack(launches=[list(key) for key in effect.launches])
            case RequestHealth():
                return health_request(self._rules.config, now=self._adapters.clock())
            case SetSampling():
                return wire.SampleEvery(interval_s=effect.interval_s)
            case ShowNotice():
                return wire.Notice(job_id=effect.job_id, restarts=effect.restarts, text=effect.text)
            case KillStep():
                return self._step_kill(effect)
            case ForgetStep():
                return stepwire.ForgetStep(job_id=effect.job_id, restarts=effect.restarts, step=effect.number)
            case BroadcastFence():
                return effect.message
            case _:
                assert_never(effect)

    async def _launch(self, effect: LaunchShare) -> None:
        job = await self._job_to_launch(effect.job_id)
        if job is None or job.allocation is None:
            return
        rank = job.allocation.node_names().index(effect.node)
        config = self._rules.config
        share, node = job.allocation.shares[rank], self._state.nodes.get(effect.node)
        gpus = node.gpus if node is not None else ()
        launch = build_launch(
            job,
            rank,
            submit_host=self._adapters.submit_host,
            config=config,
            nodes=self._state.nodes,
            gpu_mem_bytes=next((gpu.mem_bytes for gpu in gpus if gpu.index in share.gpus), 0),
            after=None if job.prefetched_after is None else self._state.jobs.get(job.prefetched_after),
            components=self._state.array_members(job.id) if job.component else (),
        )
        tree = self._adapters.trees.find(job.uid, launch.tree.tree) if launch.tree is not None else None
        if launch.tree is not None and tree is not None:
            # Use the digest of the owner's upload as stored here. The digest in the job's request could belong
            # to another user's code.
            own = dataclasses.replace(launch.tree, sha256=tree.sha256, size_bytes=tree.size_bytes)
            launch = dataclasses.replace(launch, tree=own)
        launch = with_record(launch, job, effect.node, self._state.starts.seal)
        await self._adapters.fleet.launch(effect.node, launch, tree)

    async def _job_to_launch(self, job_id: JobId) -> Job | None:
        """Return the job with its whole request. If it changes during the read, it is read again."""
        while True:
            job = self._state.jobs.get(job_id)
            if job is None or job.request.parts is None:
                return job
            whole = await with_whole_request(job, self._adapters.store)
            if self._state.jobs.get(job_id) is job:
                return whole

    async def _limit(self, effect: LimitShare) -> None:
        job = self._state.jobs.get(effect.job_id)
        if job is not None and job.restarts == effect.restarts:
            message = wire.SetLimit(
                job_id=effect.job_id, restarts=effect.restarts, time_limit_s=job.time_limit_s
            )
            await self._adapters.fleet.send(effect.node, message)

    async def _launch_step(self, effect: LaunchStep) -> None:
        state = self._state
        job, step = state.jobs.get(effect.job_id), find_step(state, effect.job_id, effect.number)
        if job is None or step is None or job.allocation is None or step.is_finished:
            return
        launch = build_step_launch(
            job,
            step,
            effect.node,
            event=effect.request,
            nodes=state.nodes,
            submit_host=self._adapters.submit_host,
            hooks=self._rules.config.hooks,
            components=state.array_members(job.array_job_id) if job.component else (),
        )
        await self._adapters.fleet.send(effect.node, launch)

    def _step_kill(self, effect: KillStep) -> stepwire.StepKill:
        return stepwire.StepKill(
            job_id=effect.job_id,
            restarts=effect.restarts,
            step=effect.number,
            signal=effect.signal,
            grace_s=0.0 if effect.at_once else self._rules.config.grace_s,
        )

    async def _collect(self, effect: CollectOutput) -> None:
        job = self._state.jobs.get(effect.job_id)
        if job is None or (not job.request.script and not job.request.output):
            return
        if effect.restarts != job.restarts and not await self._ran_on_node(effect):
            log.warning(
                "%s reports output of start %d of job %s, which did not run there",
                effect.node,
                effect.restarts,
                job.label(),
            )
            return
        self._adapters.outputs.begin(
            job.id,
            effect.restarts,
            effect.node,
            files=_files(job),
            append=job.request.appends(effect.restarts) or _writes_with_others(job),
            uid=job.uid,
            umask=umask_of(job.request.env),
        )

    async def _ran_on_node(self, effect: CollectOutput) -> bool:
        """Return whether the start of the job that `effect` names ran on the node of `effect`.

        If the store cannot be read, the result is true, so that no output is lost.
        """
        try:
            runs = await self._adapters.store.runs_of([effect.job_id])
        except StoreError as error:
            log.warning("start %d of job %s: %s", effect.restarts, effect.job_id, error)
            return True
        return any(
            run.restarts == effect.restarts and effect.node in (share.node for share in run.shares)
            for run in runs
        )

    def _forget(self, effect: ForgetShare) -> None:
        assert self._group is not None
        self._group.create_task(self._forget_when_collected(effect))

    async def _forget_when_collected(self, effect: ForgetShare) -> None:
        try:
            await self._adapters.outputs.finished(effect.job_id, effect.restarts, effect.node)
        except Exception:
            bug_reports.report_bug("collecting output")
        await self._adapters.fleet.send(
            effect.node, wire.Forget(job_id=effect.job_id, restarts=effect.restarts)
        )


def _writes_with_others(job: Job) -> bool:
    """Return whether several nodes write the same file.

    Some nodes may write the file directly, so it must not be truncated here.
    """
    return not job.request.script and len(job.shares) > 1


def _files(job: Job) -> dict[str, str]:
    stdout, stderr = output_paths(job)
    return {channel: path for channel, path in (("out", stdout), ("err", stderr)) if path}
