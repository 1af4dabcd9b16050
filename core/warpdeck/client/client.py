"""The asyncio client of the controller's socket, with typed answers. The app uses it, and any program may.

    async with await Client.connect(default_paths()) as client:
        for row in await client.jobs():
            print(row.label, row.state)

One connection carries everything. Requests may overlap, and each stream (a log, the subscription) has its own
inbox. One reader task sorts frames into the inboxes. A log's inbox is bounded by the protocol's window. The
subscription's inbox is bounded because deltas that were not taken yet are merged. So a slow reader of one
stream delays no other stream.

This client sends no request twice. Use sync.SyncClient.create for requests that create something: it repeats
the request if the answer was lost.

Every call raises UserError, either with the controller's message or with the code GONE if the connection is
lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from warpdeck.base.errors import RESTART, UNCERTAIN, UserError
from warpdeck.base.paths import Paths
from warpdeck.model import Request
from warpdeck.model.change import JobChange
from warpdeck.model.past import GroupCost, PastQuery
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import Curves, ForwardRow, JobDetail, JobRow, PastJobs
from warpdeck.protocol.node_rows import NodeRow, PastNodeRow
from warpdeck.protocol.request_base import Message
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck_agent.wire.frames import JSON, WireError, json_frame, pack, parse_json, read_frame, split_data

from .blocking_client import AGAIN_EVERY_S, AGAIN_S, join_rows, user_error
from .blocking_client import GONE as GONE
from .blocking_client import LOST as LOST
from .inbox import Inbox, Merged

ANSWER_S = 120.0
"""Seconds to wait for an answer before the controller counts as stuck.

The slowest request adds a node over SSH.
"""

T = TypeVar("T")
TOPICS = ("jobs", "nodes")
Progress = Callable[[str], None]


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's greeting: its identity, and the user that it sees at our end of the connection."""

    controller: str = ""
    warpdeck: str = ""
    user: str = ""
    uid: int = -1
    admin: bool = False


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a cancel, hold, release, requeue or update.

    `jobs` are the labels of the changed jobs, `errors` the reasons for the jobs that were refused.
    """

    jobs: list[str] = []
    errors: list[str] = []


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Status of the controller."""

    pid: int
    home: str
    version: str
    uptime_s: float
    user: str
    jobs: dict[str, int]
    nodes: int
    log: str
    clients: int = 0
    unreadable: list[str] = []
    """Records that could not be read and were set aside, such as "job 12" or "node gpu1"."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """New or changed rows, and the ids of removed ones.

    The deltas up to the first with `ready` carry all rows.
    """

    jobs: list[JobRow] = []
    gone_jobs: list[int] = []
    nodes: list[NodeRow] = []
    gone_nodes: list[str] = []
    ready: bool = False


class LogOpened(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a log at the time when it was opened.

    `offset` is the position at which its data begins, `size_bytes` the file's size. The others are its path
    and node.
    """

    offset: int = 0
    size_bytes: int = 0
    path: str = ""
    node: str = ""


class _PastNodes(msgspec.Struct, frozen=True):
    nodes: list[PastNodeRow]


class _Jobs(msgspec.Struct, frozen=True):
    jobs: list[JobRow]


class _Costs(msgspec.Struct, frozen=True):
    groups: list[GroupCost]


class _Nodes(msgspec.Struct, frozen=True):
    nodes: list[NodeRow]


class _Forwards(msgspec.Struct, frozen=True):
    forwards: list[ForwardRow]


class Client:
    """A connection to the controller.

    Create it with `connect`; end it with `close` or use it in `async with`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._inboxes: dict[int, Inbox] = {}
        self._gone: UserError | None = None
        self._pump: asyncio.Task[None] | None = None
        self.welcome = Welcome()

    @classmethod
    async def connect(cls, paths: Paths, *, start: bool = True, name: str = "client") -> Client:
        """Connect to the controller of this home directory. Raises UserError.

        If no controller runs and `start` is true, one is started.
        """
        from warpdeck.base.controller_daemon import ensure_running

        until = time.monotonic() + AGAIN_S
        while True:
            try:
                return await cls._connected(paths, name)
            except UserError as error:
                if error.code != GONE or not start or time.monotonic() > until:
                    raise
            if not await asyncio.to_thread(ensure_running, paths):
                await asyncio.sleep(AGAIN_EVERY_S)

    @classmethod
    async def _connected(cls, paths: Paths, name: str) -> Client:
        """Connect to a running controller. Raises UserError, with the code GONE if no controller answers."""
        from warpdeck.base.controller_daemon import connect_socket

        try:
            link = connect_socket(paths)
        except PermissionError as error:
            hint = "set WARPDECK_HOME to your own"
            raise UserError(f"the controller in {paths.home} is not yours", hint) from error
        except OSError as error:
            raise UserError("no controller is running", "start it with `warpdeck up`", code=GONE) from error
        client = cls(*await asyncio.open_unix_connection(sock=link))
        try:
            async with asyncio.timeout(ANSWER_S):
                await client._greet(name)
        except BaseException:
            await client.close()
            raise
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def lost(self) -> bool:
        """Whether the connection has ended. From then on every call fails."""
        return self._gone is not None

    async def close(self) -> None:
        """End the connection. Every call that still waits for an answer fails with the code GONE."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.wait([self._pump])
        self._fail(_gone())
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # ---- requests

    async def status(self) -> Status:
        return await self.request(ask.Status(), Status)

    async def jobs(
        self,
        *,
        user: str | None = None,
        states: Sequence[str] = (),
        ids: Sequence[str] = (),
        finished: bool = False,
        limit: int = 10_000,
    ) -> list[JobRow]:
        """Return unfinished jobs, oldest first.

        `finished` adds finished jobs; at most `limit` rows are returned.
        """
        users = () if user is None else (user,)
        wanted = ask.Jobs(users=users, states=tuple(states), ids=tuple(ids), finished=finished, limit=limit)
        return (await self.request(wanted, _Jobs)).jobs

    async def nodes_at(self, at: float) -> list[PastNodeRow]:
        """Return the state of the nodes at the time `at` (Unix seconds)."""
        return (await self.request(ask.NodesAt(at=at), _PastNodes)).nodes

    async def past(self, query: PastQuery, *, counted: bool = False) -> PastJobs:
        """Return a page of the finished jobs."""
        return await self.request(ask.Past(query=query, counted=counted), PastJobs)

    async def past_costs(self, query: PastQuery) -> list[GroupCost]:
        """Return the resource costs of the finished jobs, in groups."""
        return (await self.request(ask.PastCosts(query=query), _Costs)).groups

    async def job(self, job: str) -> JobDetail:
        """Return all details of a job, running or finished."""
        return await self.request(ask.JobInfo(job=job), JobDetail)

    async def curves(self, *, job: str = "", node: str = "", step_s: float = 1.0) -> Curves:
        """Return the resource usage of a job over its life, or the recent usage of a node.

        The curves of a node have steps of 1, 10 or 60 s.
        """
        return await self.request(ask.Curves(job=job, node=node, step_s=step_s), Curves)

    async def forecast(self, job: str) -> ForecastRow:
        """Return when a job is expected to start.

        The answer also has the jobs ahead of it, and changes that would start it now.
        """
        return await self.request(ask.Forecast(job=job), ForecastRow)

    async def dry_run(self, request: Request, *components: Request) -> ForecastRow:
        """Return the expected outcome of a submission made now. Nothing is submitted."""
        return await self.request(ask.DryRun(request=request, components=components), ForecastRow)

    async def cancel(self, jobs: Sequence[str], *, signal: str = "", waiting_only: bool = False) -> Changed:
        """Cancel jobs, or send them the named signal. `waiting_only` skips jobs that have started."""
        message = ask.Cancel(jobs=tuple(jobs), signal=signal, waiting_only=waiting_only)
        return await self.request(message, Changed)

    async def hold(self, jobs: Sequence[str]) -> Changed:
        return await self.request(ask.Hold(jobs=tuple(jobs)), Changed)

    async def release(self, jobs: Sequence[str]) -> Changed:
        return await self.request(ask.Release(jobs=tuple(jobs)), Changed)

    async def requeue(self, jobs: Sequence[str]) -> Changed:
        return await self.request(ask.Requeue(jobs=tuple(jobs)), Changed)

    async def update(self, jobs: Sequence[str], change: JobChange) -> Changed:
        return await self.request(ask.JobUpdate(jobs=tuple(jobs), change=change), Changed)

    async def nodes(self, *, name: str = "") -> list[NodeRow]:
        return (await self.request(ask.Nodes(name=name), _Nodes)).nodes

    async def node_add(
        self, target: str, *, name: str = "", accept_host_key: str = "", progress: Progress | None = None
    ) -> NodeRow:
        """Add the node [USER@]HOST[:PORT].

        An error with the code "host_key" has the host key's fingerprint in its details. Ask the user to
        confirm it, then send the request again with `accept_host_key`.
        """
        wanted = ask.NodeAdd(target=target, name=name, accept_host_key=accept_host_key)
        return await self.request(wanted, NodeRow, progress=progress)

    async def node_drain(self, name: str, *, reason: str) -> NodeRow:
        return await self.request(ask.NodeDrain(name=name, reason=reason), NodeRow)

    async def node_resume(self, name: str) -> NodeRow:
        return await self.request(ask.NodeResume(name=name), NodeRow)

    async def node_remove(self, name: str, *, force: bool = False) -> None:
        await self.request(ask.NodeRemove(name=name, force=force), dict[str, Any])

    async def forwards(self) -> list[ForwardRow]:
        """Return the ports that this user's clients forward now. An admin gets the forwards of all users."""
        return (await self.request(ask.Forwards(), _Forwards)).forwards

    async def forward_page(self, number: int) -> str:
        """Return the part of a forward's URL after the host, with its token.

        It must be the caller's own. Raises UserError.
        """
        return (await self.request(ask.ForwardPage(number=number), dict[str, str]))["page"]

    async def forward_end(self, number: int) -> None:
        await self.request(ask.ForwardEnd(number=number), dict[str, Any])

    async def shutdown(self) -> None:
        """Stop the controller. Agents and jobs keep running."""
        await self.request(ask.Shutdown(), dict[str, Any])

    # ---- streams

    async def subscribe(
        self, *, finished_s: float = 3600.0, user: str | None = None, topics: Sequence[str] = TOPICS
    ) -> AsyncGenerator[Delta, None]:
        """Yield all rows, then changes as they happen.

        Changes are merged until the caller asks for the next delta.

        Close the iterator to end the subscription.
        """
        wanted = ask.Subscribe(finished_s=finished_s, user=user, topics=tuple(topics))
        number, inbox = await self.begin(wanted, Merged())
        try:
            while True:
                item = await inbox.get()
                if isinstance(item, dict) and item["t"] == "delta":
                    yield _convert(item, Delta)
        finally:
            await self.forget(number)

    def log(
        self,
        job: str,
        *,
        channel: str = "out",
        offset: int = 0,
        follow: bool = False,
        node: str = "",
        progress: Progress | None = None,
    ) -> LogStream:
        """Return a job's output as a stream that can follow the file as it grows.

        Example: `async with client.log("12", follow=True) as log: async for chunk in log: ...`
        """
        wanted = ask.Log(job=job, channel=channel, offset=offset, follow=follow, node=node)
        return LogStream(self, wanted, progress)

    # ---- the connection

    async def _greet(self, name: str) -> None:
        await self.send(ask.Hello(version=ask.API_VERSION, client=name))
        try:
            kind, payload = await read_frame(self._reader)
            message = parse_json(payload) if kind == JSON else {"t": "data"}
        except (OSError, asyncio.IncompleteReadError) as error:
            raise _gone() from error
        except WireError as error:
            raise UserError(
                f"unexpected message from the controller: {error}", f"if its version differs, {RESTART}"
            ) from error
        if message["t"] == "error":
            raise user_error(message)
        self.welcome = _convert(message, Welcome)
        self._pump = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """Sort frames into inboxes until the connection ends."""
        try:
            while True:
                kind, payload = await read_frame(self._reader)
                if kind != JSON:
                    stream, data = split_data(payload)
                    self._deliver(stream, data)
                    continue
                message = parse_json(payload)
                number = message.get("id", message.get("stream", 0))
                if message["t"] == "error" and number == 0:
                    raise user_error(message)
                self._deliver(number, message)
        except (OSError, asyncio.IncompleteReadError):
            self._fail(_gone())
        except WireError as error:
            self._fail(
                UserError(
                    f"unexpected message from the controller: {error}",
                    f"if its version differs, {RESTART}",
                )
            )
        except UserError as error:
            self._fail(error)

    def _deliver(self, number: int, item: dict[str, Any] | bytes) -> None:
        inbox = self._inboxes.get(number)
        if inbox is not None:  # Otherwise the caller has abandoned the request, and late frames are dropped.
            inbox.put(item)

    def _fail(self, error: UserError) -> None:
        self._gone = self._gone or error
        for inbox in self._inboxes.values():
            inbox.fail(self._gone)

    async def request(self, message: Message, kind: type[T], *, progress: Progress | None = None) -> T:
        """Send one request and return its decoded answer with all pages joined.

        The requests about the site's configuration and policy are in the module `site`.
        """
        number, inbox = await self.begin(message, Inbox())
        parts: list[dict[str, Any]] = []
        try:
            while True:
                item = await _in_time(inbox)
                if isinstance(item, bytes):
                    continue
                if item["t"] == "ok":
                    return _convert(join_rows(parts, item["result"]), kind)
                if item["t"] == "rows":
                    parts.append(item["part"])
                elif item["t"] == "progress" and progress is not None:
                    progress(str(item["line"]))
        except TimeoutError as error:
            hint = "see its log: warpdeck status"
            raise UserError("no answer from the controller", hint, code=UNCERTAIN) from error
        finally:
            self._inboxes.pop(number, None)

    async def begin(self, message: Message, inbox: Inbox) -> tuple[int, Inbox]:
        """Send a request. Its answers go to `inbox` until `forget` is called. Raises UserError."""
        if self._gone is not None:
            raise self._gone
        number = next(self._ids)
        self._inboxes[number] = inbox
        try:
            await self.send(msgspec.structs.replace(message, id=number))
        except BaseException:
            del self._inboxes[number]
            raise
        return number, inbox

    async def forget(self, number: int) -> None:
        """End that request or stream from the client's side."""
        self._inboxes.pop(number, None)
        if self._gone is None:
            await self.send(ask.Close(stream=number))

    def _tell(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json_frame(message))

    async def send(self, message: Message) -> None:
        """Send a message without registering an inbox for an answer. Raises UserError."""
        try:
            self._writer.write(pack(JSON, msgspec.json.encode(message)))
            await self._writer.drain()
        except OSError as error:
            raise _gone() from error


class LogStream:
    """A log that is being read.

    The iterator acknowledges a chunk when the caller asks for the next one. So a slow reader slows only this
    log.
    """

    def __init__(self, client: Client, message: ask.Log, progress: Progress | None) -> None:
        self._client = client
        self._message = message
        self._progress = progress
        self._number = 0
        self._inbox = Inbox()
        self.opened = LogOpened()
        self.on_opened: Callable[[LogOpened], None] | None = None
        """Called as soon as the log's length is known.

        An empty log yields no chunk, so this is its only signal.
        """
        self.exit: tuple[int, int] | None = None
        """(exit code, signal) of the job, set when the stream ended together with the job."""

    async def __aenter__(self) -> LogStream:
        self._number, self._inbox = await self._client.begin(self._message, self._inbox)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(UserError):
            await self._client.forget(self._number)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the log. Raises UserError if the log cannot be read, or no longer."""
        while True:
            item = await self._inbox.get()
            if isinstance(item, bytes):
                yield item
                self._client._tell({"t": "ack", "stream": self._number, "size": len(item)})
            elif item["t"] == "ok":
                self.opened = _convert(item["result"], LogOpened)
                if self.on_opened is not None:
                    self.on_opened(self.opened)
            elif item["t"] == "progress" and self._progress is not None:
                self._progress(str(item["line"]))
            elif item["t"] == "end":
                self._end(item)
                return

    def _end(self, item: dict[str, Any]) -> None:
        if item.get("error"):
            raise UserError(str(item["error"]), "open the log again", code=str(item.get("code", "")))
        ended = item.get("exit")
        if ended:
            self.exit = (int(ended["code"]), int(ended["signal"]))


def _gone() -> UserError:
    return UserError(
        "connection to the controller lost", "try again, or check it with `warpdeck status`", code=GONE
    )


async def _in_time(inbox: Inbox) -> dict[str, Any] | bytes:
    """Return the next item of an inbox. Raises TimeoutError after ANSWER_S.

    A canceled timer stays in the event loop until its time. It is therefore made in an empty context.
    Otherwise it would keep alive all objects that the caller's context holds, such as a screen that was
    closed.
    """
    async with asyncio.timeout(None) as limit:
        contextvars.Context().run(limit.reschedule, asyncio.get_running_loop().time() + ANSWER_S)
        return await inbox.get()


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UserError(
            f"unexpected answer from the controller: {error}", f"if its version differs, {RESTART}"
        ) from error
