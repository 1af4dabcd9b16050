"""Handles `warpdeck run`: makes a job of its command and streams the output of all nodes back.

The client sends its arguments unparsed. Parsing takes the client longer than a short job takes, and the
parser is already loaded here. Standard output is the request's own stream; the client names another stream
for standard error.
"""

from __future__ import annotations

import asyncio

import msgspec

from warpdeck.base.errors import RemoteError, UserError
from warpdeck.client.blocking_client import STEPS
from warpdeck.client.submission import draft_command, has_several_tasks
from warpdeck.engines.native.outcomes import known_job
from warpdeck.model import Job, JobId, JobState, Request, ShareStatus
from warpdeck.notation.options.getopt import split_command
from warpdeck.ports.ports import NodeStream
from warpdeck.protocol import requests as ask
from warpdeck.protocol.nonces import mark_of
from warpdeck.server.connection import ClientStream, Connection
from warpdeck.server.end_subscriptions import wait_for
from warpdeck.server.streams import exit_of, has_begun, settle_link
from warpdeck_agent.wire import messages as wire


class RunStream(ClientStream):
    """One output channel of a job: the bytes of all its nodes, followed by the exit status."""

    def __init__(self, connection: Connection, number: int, channel: str) -> None:
        super().__init__(connection, number)
        self._channel = channel
        self._nodes: list[NodeStream] = []
        self._left = 0
        self._task: asyncio.Task[None] | None = None

    async def follow(self, job: Job) -> None:
        """Open the output of every node. Raises RemoteError."""
        self._left = len(job.shares)
        for share in job.shares:
            await settle_link(self.connection, share.node)
            if not self.is_open:
                return
            asked, sink = _log_of(job, share, self._channel), _Part(self, job)
            self._nodes.append(
                await self.connection.server.controller.fleet.open_stream(share.node, asked, sink)
            )

    def part_ended(self, job: Job, error: str) -> None:
        """Handle the end of one node's output. After the last node's, wait a moment for the job's own end.

        The client may already have disconnected.
        """
        if not self.is_open:
            return
        self._left -= 1
        if error:
            self.say_end(error, exit_of(self.connection, job))
        elif not self._left:
            self._task = asyncio.get_running_loop().create_task(self._end(job))

    async def _end(self, job: Job) -> None:
        job = await wait_for(
            self.connection, job, lambda now: now.is_finished or now.state is JobState.PENDING
        )
        self.say_end("", exit_of(self.connection, job))

    def end(self, *, finished: bool = False) -> None:
        """Stop streaming because the client has disconnected. The job keeps running."""
        super().end()
        if self._task is not None:
            self._task.cancel()
        self.closing = [asyncio.get_running_loop().create_task(node.close()) for node in self._nodes]


class _Part:
    """One node's part of a channel: a StreamSink for the fleet."""

    def __init__(self, stream: RunStream, job: Job) -> None:
        self._stream = stream
        self._job = job

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        """Do nothing, because the client was already answered."""

    async def data(self, chunk: bytes) -> None:
        await self._stream.send(chunk)

    async def ended(self, error: str, code: str = "") -> None:
        self._stream.part_ended(self._job, error)


async def run(connection: Connection, message: ask.Run) -> None:
    """Submit a job and stream its output until it ends. Raises UserError."""
    if message.errors == message.id or message.errors in connection.streams:
        raise UserError(f"the stream {message.errors} is in use", "name another for standard error")
    request, notes = _request(connection, message)
    controller = connection.server.controller
    outcome = await controller.apply(
        await connection.server.submitter.event(connection.who, [request], mark_of(message))
    )
    assert outcome.created is not None
    notes += outcome.created.notes
    job = outcome.job or await controller.store.job(JobId(outcome.created.job_id)) or known_job(outcome)
    connection.send({"t": "ok", "id": message.id, "result": {"job_id": job.id, "notes": notes}})
    streams = [
        RunStream(connection, number, channel)
        for number, channel in ((message.id, "out"), (message.errors, "err"))
    ]
    try:
        job = await wait_for(connection, job, has_begun, tell=message.id)
        if not job.shares:
            raise UserError(f"job {job.label()} ended before it started ({job.state})", "see `warpdeck show`")
        for stream in streams:
            await stream.follow(job)
    except RemoteError as error:
        for stream in streams:
            stream.say_end(str(error), None)
    except BaseException:
        for stream in streams:
            stream.end()
        raise


def _request(connection: Connection, message: ask.Run) -> tuple[Request, list[str]]:
    """Return the request that the arguments describe, and notes for the user. Raises UserError."""
    options, command = split_command(list(message.words))
    if not command:
        raise UserError("no command given", "usage: warpdeck run [OPTIONS] COMMAND...")
    now = connection.server.controller.clock()
    draft = draft_command(command, options, cwd=message.cwd, environ=message.env, now=now)
    if has_several_tasks(draft.request):
        raise UserError("several tasks are a step", "write: warpdeck srun", code=STEPS)
    try:
        return msgspec.convert(draft.request, Request, strict=False), draft.notes
    except msgspec.ValidationError as error:
        raise UserError(f"invalid job: {error}", "see `warpdeck run --help`") from error


def _log_of(job: Job, share: ShareStatus, channel: str) -> wire.OpenLog:
    return wire.OpenLog(
        stream=0,
        job_id=job.id,
        restarts=job.restarts,
        channel=channel,
        offset=0,
        follow=True,
        path=share.stdout_path if channel == "out" else share.stderr_path or share.stdout_path,
        uid=job.uid,
    )
