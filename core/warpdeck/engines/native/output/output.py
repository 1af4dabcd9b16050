"""Logs, terminals and tunnels of jobs."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.controller.launch.environment import job_environment
from warpdeck.controller.launch.node_aliases import address_variables
from warpdeck.controller.launch.whole_request import with_whole_request
from warpdeck.controller.presenters.job_columns import job_detail
from warpdeck.controller.state.state import State
from warpdeck.engines.shared.job_lookup import JobLookup
from warpdeck.engines.shared.job_waits import JobWaits, has_begun
from warpdeck.engines.shared.output_requests import (
    ended,
    no_log,
    not_on,
    one_task,
    pty_message,
    require_target,
    require_terminal,
    tunnel_message,
)
from warpdeck.model import Job, JobId, ShareStatus
from warpdeck.ports.caller import Caller
from warpdeck.ports.engine import ForwardedJob, Progress
from warpdeck.ports.engine_streams import ByteSink, ByteSource, ByteStream, StreamEnd
from warpdeck.ports.ports import OutputCollector
from warpdeck.protocol import requests as ask
from warpdeck.protocol import results
from warpdeck_agent.wire import messages as wire

from .node_streams import NodeStreams, OutputRelay


@dataclass(frozen=True, kw_only=True)
class NativeOutput:
    """The `EngineOutput` of the controller. `submit_host` is the host name of its machine."""

    state: State
    lookup: JobLookup
    waits: JobWaits
    streams: NodeStreams
    collector: OutputCollector
    submit_host: str

    async def log(self, caller: Caller, message: ask.Log, progress: Progress) -> ByteSource:
        job = one_task(await self.lookup.visible(caller.who, message.job))
        if message.follow:
            job = await self.waits.until(job, has_begun, progress)
        if not job.shares:
            raise no_log(job)
        share = share_on(job, message.node)
        await self.waits.link(share.node)
        return partial(self._open_log, message, job, share)

    async def terminal(self, caller: Caller, message: ask.Attach, progress: Progress) -> ByteSource:
        who, find = caller.who, self.lookup.watched if message.watch else self.lookup.visible
        job = await find(who, message.job)
        require_terminal(job)
        job = await self.waits.until(job, has_begun, progress)
        if job.is_finished:
            raise ended(job, code=ask.ENDED)
        share = job.shares[0]
        await self.waits.link(share.node)
        asked = pty_message(job, message, watcher=who.user if who.uid != job.uid else "")
        return partial(self._open_terminal, job, share, asked)

    async def tunnel(self, caller: Caller, message: ask.Tunnel, progress: Progress) -> ByteSource:
        job = await self.lookup.visible(caller.who, message.job)
        require_target(message)
        job, share = await self._running(job, message.node, progress)
        env = await self._environment(job, share) if message.argv else {}
        asked = tunnel_message(job, message, env)
        return partial(self.streams.open, job, share.node, asked)

    async def forward(self, caller: Caller, message: ask.Forward, progress: Progress) -> ForwardedJob:
        job = await self.lookup.visible(caller.who, message.job)
        job, share = await self._running(job, message.node, progress)
        return ForwardedJob(
            label=job.label(),
            user=job.user,
            node=share.node,
            ended=partial(self.waits.end_of_start, job),
        )

    async def settle(self, caller: Caller, message: ask.Settle) -> results.Result:
        jobs = self.state.named(JobId(message.job))
        await self.waits.outputs((job, share.node) for job in jobs for share in job.shares)
        return results.Result()

    async def _running(self, job: Job, node: str, progress: Progress) -> tuple[Job, ShareStatus]:
        """Wait until the job runs, and return it with its part on the node. Raises UserError."""
        job = await self.waits.until(one_task(job), has_begun, progress)
        if job.is_finished:
            raise ended(job)
        share = share_on(job, node)
        await self.waits.link(share.node)
        return job, share

    async def _environment(self, job: Job, share: ShareStatus) -> dict[str, str]:
        job = await with_whole_request(job, self.lookup.store)
        assert job.allocation is not None
        names = job.allocation.node_names()
        made = job_environment(job, names.index(share.node), submit_host=self.submit_host)
        return made | address_variables(names, self.state.nodes)

    async def _open_log(self, message: ask.Log, job: Job, share: ShareStatus, sink: ByteSink) -> ByteStream:
        """Open the log on its node, or the file on this machine if it is here or the node cannot be reached."""
        try:
            if job.is_finished and not share.visible and job.request.script:
                await self.waits.outputs([(job, share.node)])
                raise RemoteError(share.node, "its output is on this machine")
            asked = log_of(job, share, message.channel, offset=message.offset, follow=message.follow)
            return await self.streams.open(job, share.node, asked, sink, follow=message.follow)
        except RemoteError as error:
            return await self._send_local(message, job, share, sink, error)

    async def _send_local(
        self, message: ask.Log, job: Job, share: ShareStatus, sink: ByteSink, cause: RemoteError
    ) -> ByteStream:
        """Send the log file of the submit host."""
        row = job_detail(self.state, job, [])
        path = row.stdout if message.channel == "out" else row.stderr or row.stdout
        try:
            file = await self.collector.read(path, uid=job.uid)
        except OSError as error:
            reason = f"{path}: {error.strerror}" if error.errno != errno.ENOENT else str(cause)
            raise UserError(
                f"cannot read the log of job {job.label()}: {reason}", "check that its node is up"
            ) from error
        said = ""
        try:
            at = max(0, file.length + message.offset) if message.offset < 0 else message.offset
            await sink.opened(
                results.LogOpened(offset=at, size_bytes=file.length, path=path, node=share.node)
            )
            while sink.is_open and (chunk := await file.piece(at)):
                at += len(chunk)
                await sink.data(chunk)
        except OSError as error:
            said = f"{path} can no longer be read: {error.strerror}"
        finally:
            await file.close()
        sink.ended(StreamEnd(said, exit=self.streams.exit_of(job)))
        return OutputRelay(self.streams, job, sink, nodes=0)

    async def _open_terminal(
        self, job: Job, share: ShareStatus, asked: wire.OpenPty, sink: ByteSink
    ) -> ByteStream:
        try:
            return await self.streams.open(job, share.node, asked, sink, follow=True)
        except RemoteError as error:
            raise UserError(str(error), "try again when the node is back", code=ask.LOST) from error


def share_on(job: Job, node: str) -> ShareStatus:
    """Return the job's part on that node, or its first part if no node is named. Raises UserError."""
    for share in job.shares:
        if not node or share.node == node:
            return share
    raise not_on(job, node)


def log_of(job: Job, share: ShareStatus, channel: str, *, offset: int, follow: bool) -> wire.OpenLog:
    """Return the request for a log of the job's part on one node."""
    return wire.OpenLog(
        stream=0,
        job_id=job.id,
        restarts=job.restarts,
        channel=channel,
        offset=offset,
        follow=follow,
        path=share.stdout_path if channel == "out" else share.stderr_path or share.stdout_path,
        uid=job.uid,
    )
