"""Handlers of the requests that open a stream: uploads, logs, terminals and subscriptions."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpdeck.base.chunking import in_slices
from warpdeck.base.errors import RemoteError, UserError
from warpdeck.controller.loop.change_listeners import ChangeListener
from warpdeck.controller.presenters.job_columns import job_detail, job_row
from warpdeck.controller.presenters.node_rows import node_row
from warpdeck.model import Job, JobId, JobState, Link, NodeName, ShareStatus
from warpdeck.ports.engine import TreeUpload
from warpdeck.ports.ports import LINK_BROKE, NodeStream
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES
from warpdeck_agent.wire.opening import FELL_BEHIND

from .connection import ClientStream, Connection
from .end_subscriptions import LINK_S, settle_outputs, wait_for

if TYPE_CHECKING:
    from warpdeck.controller.loop.controller import Controller

DELTA_INTERVAL_S = 0.1
"""Minimum seconds between two deltas to one subscriber."""
DELTA_ROWS = 500
"""Number of rows in one delta: a page of a large queue, well below the frame limit."""


class TreeStream(ClientStream):
    """An upload of a packed tree."""

    def __init__(self, connection: Connection, number: int, receiving: TreeUpload) -> None:
        super().__init__(connection, number)
        self._receiving = receiving
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def incoming(self, data: bytes) -> None:
        try:
            self._receiving.write(data)
        except UserError as error:
            self._fail(error)
            return
        self.connection.send({"t": "ack", "stream": self.number, "size": len(data)})

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self.done.done():
            return
        try:
            if not finished:
                raise UserError("the upload was interrupted", "submit again")
            self._receiving.finish()
            self.done.set_result(None)
        except UserError as error:
            self._fail(error)

    def _fail(self, error: UserError) -> None:
        self._receiving.abandon()
        if not self.done.done():
            self.done.set_exception(error)


async def receive_tree(connection: Connection, message: ask.PutTree) -> None:
    """Receive an upload and answer when the tree is stored."""
    receiving = await connection.server.engine.submissions.receive_tree(connection.client, message)
    stream = TreeStream(connection, message.id, receiving)
    connection.send({"t": "ack", "stream": message.id, "size": STREAM_WINDOW_BYTES})
    await stream.done
    connection.send({"t": "ok", "id": message.id, "result": {}})


class NodeBytes(ClientStream):
    """A stream from a node to the client: a StreamSink for the fleet."""

    def __init__(self, connection: Connection, number: int, job: Job, *, follow: bool) -> None:
        super().__init__(connection, number)
        self._job = job
        self._follow = follow
        self._node = job.shares[0].node if job.shares else ""
        self.node_stream: NodeStream | None = None
        self._waiting: asyncio.Task[None] | None = None

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        result = {"offset": offset, "size_bytes": size_bytes, "path": path, "node": self._node}
        self.connection.send({"t": "ok", "id": self.number, "result": result})

    async def data(self, chunk: bytes) -> None:
        await self.send(chunk)

    async def ended(self, error: str, code: str = "") -> None:
        """Report the end of the node's stream, unless the client has disconnected.

        If the stream follows the job, the report waits for the job's end, which comes a moment later.
        """
        if not self.is_open:
            return
        if self._follow and not error:
            self._waiting = asyncio.get_running_loop().create_task(self._end_with_exit())
        else:
            lost = error == LINK_BROKE or code == FELL_BEHIND
            self.say_end(error, exit_of(self.connection, self._job), code=ask.LOST if lost else "")

    async def _end_with_exit(self) -> None:
        job = await wait_for(
            self.connection, self._job, lambda now: now.is_finished or now.state is JobState.PENDING
        )
        self.say_end("", exit_of(self.connection, job))

    async def incoming(self, data: bytes) -> None:
        if self.node_stream is not None:
            await self.node_stream.write(data)

    async def resize(self, rows: int, cols: int) -> None:
        if self.node_stream is not None:
            await self.node_stream.resize(rows, cols)

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self._waiting is not None:
            self._waiting.cancel()
        if self.node_stream is not None:
            stream = self.node_stream
            self.closing = asyncio.get_running_loop().create_task(stream.close())


def exit_of(connection: Connection, job: Job) -> dict[str, int] | None:
    """Return the job's current exit status, or None if it has none."""
    now = connection.server.controller.state.jobs.get(job.id, job)
    return None if now.exit is None else {"code": now.exit.code, "signal": now.exit.signal}


async def settle_link(connection: Connection, name: NodeName) -> None:
    """Wait a moment for the link to a node.

    A controller that has just started is still connecting to its nodes.
    """
    controller = connection.server.controller
    listener = controller.hub.listen()
    try:
        async with asyncio.timeout(LINK_S):
            while controller.state.node_status.links.get(name) is Link.CONNECTING:
                await listener.changed.wait()
                listener.take()
    except TimeoutError:
        return
    finally:
        controller.hub.leave(listener)


def has_begun(job: Job) -> bool:
    """Return whether any part of the job runs or has run."""
    return job.is_finished or any(share.phase != "launching" for share in job.shares)


async def send_log(connection: Connection, message: ask.Log, job: Job) -> None:
    """Open the log of one node's part of a job. With `follow` it first waits for the job's start."""
    if job.is_folded_array:
        raise UserError(
            f"job {job.label()} is an array", f"name a task: {job.array_job_id}_{job.pending_tasks[0][0]}"
        )
    if message.follow:
        job = await wait_for(connection, job, has_begun, tell=message.id)
    if not job.shares and job.is_finished:
        raise UserError(
            f"job {job.label()} has no log: it never started ({job.state})",
            f"see the reason with `warpdeck show {job.label()}`",
        )
    if not job.shares:
        raise UserError(
            f"job {job.label()} has not started ({job.state}): it has no log yet",
            f"to wait for it, run `warpdeck logs -f {job.label()}`",
        )
    share = share_on(job, message.node)
    await settle_link(connection, share.node)
    stream = NodeBytes(connection, message.id, job, follow=message.follow)
    path = share.stdout_path if message.channel == "out" else share.stderr_path or share.stdout_path
    asked = wire.OpenLog(
        stream=0,
        job_id=job.id,
        restarts=job.restarts,
        channel=message.channel,
        offset=message.offset,
        follow=message.follow,
        path=path,
        uid=job.uid,
    )
    try:
        if job.is_finished and not share.visible and job.request.script:
            await settle_outputs(connection, [(job, share.node)])
            raise RemoteError(share.node, "its output is on this machine")
        stream.node_stream = await connection.server.controller.fleet.open_stream(share.node, asked, stream)
    except RemoteError as error:
        await _send_local(stream, job, message, error)


def share_on(job: Job, node: str) -> ShareStatus:
    """Return the job's part on that node, or its first part if no node is named. Raises UserError."""
    for share in job.shares:
        if not node or share.node == node:
            return share
    raise UserError(f"job {job.label()} does not run on {node}", "see `warpdeck show`")


async def _send_local(stream: NodeBytes, job: Job, message: ask.Log, cause: RemoteError) -> None:
    """Send the log file of the submit host if the node cannot be reached."""
    row = job_detail(stream.connection.server.controller.state, job, [])
    path = row.stdout if message.channel == "out" else row.stderr or row.stdout
    try:
        file = await stream.connection.server.controller.outputs.read(path, uid=job.uid)
    except OSError as error:
        stream.end()
        reason = f"{path}: {error.strerror}" if error.errno != errno.ENOENT else str(cause)
        raise UserError(
            f"cannot read the log of job {job.label()}: {reason}", "check that its node is up"
        ) from error
    try:
        at = max(0, file.length + message.offset) if message.offset < 0 else message.offset
        await stream.opened(at, file.length, path)
        while stream.is_open and (chunk := await file.piece(at)):
            at += len(chunk)
            await stream.send(chunk)
    except OSError as error:
        stream.say_end(f"{path} can no longer be read: {error.strerror}", exit_of(stream.connection, job))
        return
    finally:
        await file.close()
    stream.say_end("", exit_of(stream.connection, job))


async def attach(connection: Connection, message: ask.Attach, job: Job) -> None:
    """Connect the client to the terminal of an interactive job."""
    if job.request.pty is None:
        raise UserError(f"job {job.label()} has no terminal", f"see its log: warpdeck logs -f {job.label()}")
    job = await wait_for(connection, job, has_begun, tell=message.id)
    if job.is_finished:
        raise UserError(
            f"job {job.label()} has ended ({job.state})",
            f"see its output: warpdeck logs {job.label()}",
            code=ask.ENDED,
        )
    share = job.shares[0]
    await settle_link(connection, share.node)
    stream = NodeBytes(connection, message.id, job, follow=True)
    asked = wire.OpenPty(
        stream=0,
        job_id=job.id,
        restarts=job.restarts,
        rows=message.rows,
        cols=message.cols,
        offset=message.offset,
        watch=message.watch,
        watcher=connection.who.user if connection.who.uid != job.uid else "",
    )
    try:
        stream.node_stream = await connection.server.controller.fleet.open_stream(share.node, asked, stream)
    except RemoteError as error:
        stream.end()
        raise UserError(str(error), "try again when the node is back", code=ask.LOST) from error


class SubscriptionStream(ClientStream):
    """A subscription's entry among the open streams, so that the client's Close can end it."""

    is_subscription = True

    def __init__(self, connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self.task = asyncio.current_task()

    def end(self, *, finished: bool = False) -> None:
        super().end()
        if self.task is not None:
            self.task.cancel()


async def subscribe(connection: Connection, message: ask.Subscribe) -> None:
    """Send all rows, then changes, for as long as the client stays connected."""
    controller = connection.server.controller
    state = controller.state
    listener = controller.hub.listen()
    SubscriptionStream(connection, message.id)
    connection.send({"t": "ok", "id": message.id, "result": {}})
    listener.jobs.update(dict.fromkeys(sorted(state.jobs)))
    listener.nodes.update(dict.fromkeys(sorted(state.nodes)))
    try:
        with controller.nodes.watched():
            await _tell_changes(connection, message, listener)
    finally:
        controller.hub.leave(listener)


async def _tell_changes(connection: Connection, message: ask.Subscribe, listener: ChangeListener) -> None:
    """Send changes forever, one page at a time."""
    controller, ready = connection.server.controller, False
    while True:
        jobs, nodes = listener.take()
        while jobs or nodes or not ready:
            page, jobs = jobs[:DELTA_ROWS], jobs[DELTA_ROWS:]
            node_page, nodes = nodes[: ask.NODE_PAGE_ROWS], nodes[ask.NODE_PAGE_ROWS :]
            last = not jobs and not nodes
            async with connection.page():
                delta = await _delta(controller, message, page, node_page, ready=last and not ready)
            connection.send({"t": "delta", **delta})
            await asyncio.sleep(0)
            ready = ready or last
        await listener.changed.wait()
        await asyncio.sleep(DELTA_INTERVAL_S)


async def _delta(
    controller: Controller,
    message: ask.Subscribe,
    jobs: Sequence[JobId],
    nodes: Sequence[NodeName],
    *,
    ready: bool,
) -> dict[str, Any]:
    """Return one page of changes.

    A row that changes while the page is built is sent again with the next one.
    """
    state = controller.state
    since = controller.clock() - message.finished_s
    gone_jobs: list[JobId] = []
    gone_nodes: list[NodeName] = []

    def job_rows(some: Sequence[JobId]) -> list[JobRow]:
        rows = []
        for job_id in some:
            job = state.jobs.get(job_id)
            if job is None or (job.is_finished and (job.end_at_unix or 0.0) < since):
                gone_jobs.append(job_id)
            elif message.user in (None, job.user):
                rows.append(job_row(state, job))
        return rows

    def node_rows(some: Sequence[NodeName]) -> list[NodeRow]:
        gone_nodes.extend(name for name in some if name not in state.nodes)
        return [node_row(state, state.nodes[name]) for name in some if name in state.nodes]

    return {
        "id": message.id,
        "jobs": await in_slices(jobs, job_rows) if "jobs" in message.topics else [],
        "gone_jobs": gone_jobs,
        "nodes": await in_slices(nodes, node_rows) if "nodes" in message.topics else [],
        "gone_nodes": gone_nodes,
        "ready": ready,
    }
