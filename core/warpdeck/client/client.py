"""The asyncio client of the controller's socket, with typed answers. The app uses it; so may any program.

    async with await Client.connect(default_paths()) as client:
        for row in await client.jobs():
            print(row.label, row.state)

One connection carries everything: requests overlap, each stream (a log, the subscription) has an inbox of its own. One
reader task sorts frames into the inboxes. A log's inbox is bounded by the window of the protocol, the subscription's by
merging what was not taken yet, so a reader that is slow in one place holds up nothing else.

What creates something is asked over sync.SyncClient.create, which asks again where the answer was lost; nothing here does.

Every call raises UserError: with what the controller said, or with the code GONE when the connection is lost.
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
"""How long an answer may take before the controller is called stuck; adding a node over SSH is the slowest."""

T = TypeVar("T")
TOPICS = ("jobs", "nodes")
Progress = Callable[[str], None]


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the controller says of itself and of us."""

    controller: str = ""
    warpdeck: str = ""
    user: str = ""
    uid: int = -1
    admin: bool = False


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a cancel, hold, release, requeue or update: the labels it met, and what was refused, in words."""

    jobs: list[str] = []
    errors: list[str] = []


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How the controller is."""

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
    """Records that could not be read and were set aside: "job 12", "node gpu1"."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are new or changed, and what is gone. Up to the first with `ready` they carry everything there is."""

    jobs: list[JobRow] = []
    gone_jobs: list[int] = []
    nodes: list[NodeRow] = []
    gone_nodes: list[str] = []
    ready: bool = False


class LogOpened(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log's data begins (`offset`), the file's size then, its path and node."""

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
    """A connection. Made by `connect`; ends with `close` or its `async with`."""

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
        """Connects to the home's controller; starts one if none runs and `start`. Raises UserError."""
        from warpdeck.base.controller_daemon import ensure_running

        until = time.monotonic() + AGAIN_S
        while True:
            try:
                return await cls._connected(paths, name)
            except UserError as error:
                if error.code != GONE or not start or time.monotonic() > until:
                    raise
            if not await asyncio.to_thread(ensure_running, paths):
                await asyncio.sleep(
                    AGAIN_EVERY_S
                )  # it was killed while it greeted us, and has been started since

    @classmethod
    async def _connected(cls, paths: Paths, name: str) -> Client:
        """Raises UserError, with the code GONE where no controller answers."""
        from warpdeck.base.controller_daemon import connect_socket

        try:
            link = connect_socket(paths)
        except PermissionError as error:
            hint = "set WARPDECK_HOME to your own"
            raise UserError(f"the controller in {paths.home} is not yours", hint) from error
        except OSError as error:
            raise UserError("no controller runs", "start it: warpdeck up", code=GONE) from error
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
        """The connection has ended; every call fails from now on."""
        return self._gone is not None

    async def close(self) -> None:
        """Ends the connection; whoever still waits for an answer gets the error GONE."""
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
        """Unfinished jobs, oldest first; `finished` adds ended ones, at most `limit` rows."""
        users = () if user is None else (user,)
        wanted = ask.Jobs(users=users, states=tuple(states), ids=tuple(ids), finished=finished, limit=limit)
        return (await self.request(wanted, _Jobs)).jobs

    async def nodes_at(self, at: float) -> list[PastNodeRow]:
        """What the nodes were like at that moment, by unix time."""
        return (await self.request(ask.NodesAt(at=at), _PastNodes)).nodes

    async def past(self, query: PastQuery, *, counted: bool = False) -> PastJobs:
        """A page of the jobs that have ended."""
        return await self.request(ask.Past(query=query, counted=counted), PastJobs)

    async def past_costs(self, query: PastQuery) -> list[GroupCost]:
        """What the jobs that have ended have cost, in groups."""
        return (await self.request(ask.PastCosts(query=query), _Costs)).groups

    async def job(self, job: str) -> JobDetail:
        """All there is to say of a job of any age."""
        return await self.request(ask.JobInfo(job=job), JobDetail)

    async def curves(self, *, job: str = "", node: str = "", step_s: float = 1.0) -> Curves:
        """What a job used over its life, or a node lately in steps of 1, 10 or 60 s."""
        return await self.request(ask.Curves(job=job, node=node, step_s=step_s), Curves)

    async def forecast(self, job: str) -> ForecastRow:
        """When a job starts, who is ahead of it, and what would start it now."""
        return await self.request(ask.Forecast(job=job), ForecastRow)

    async def dry_run(self, request: Request, *components: Request) -> ForecastRow:
        """What would become of a submission now. Nothing is submitted."""
        return await self.request(ask.DryRun(request=request, components=components), ForecastRow)

    async def cancel(self, jobs: Sequence[str], *, signal: str = "", waiting_only: bool = False) -> Changed:
        """Ends jobs, or sends them a signal by name. `waiting_only` leaves alone those that have begun."""
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
        """Adds [USER@]HOST[:PORT]. The error "host_key" has the fingerprint in its details: ask, and send it again."""
        wanted = ask.NodeAdd(target=target, name=name, accept_host_key=accept_host_key)
        return await self.request(wanted, NodeRow, progress=progress)

    async def node_drain(self, name: str, *, reason: str) -> NodeRow:
        return await self.request(ask.NodeDrain(name=name, reason=reason), NodeRow)

    async def node_resume(self, name: str) -> NodeRow:
        return await self.request(ask.NodeResume(name=name), NodeRow)

    async def node_remove(self, name: str, *, force: bool = False) -> None:
        await self.request(ask.NodeRemove(name=name, force=force), dict[str, Any])

    async def forwards(self) -> list[ForwardRow]:
        """The ports that this user's clients forward now; an admin sees everybody's."""
        return (await self.request(ask.Forwards(), _Forwards)).forwards

    async def forward_page(self, number: int) -> str:
        """What of the URL of one's own forward follows the host, with its token. Raises UserError."""
        return (await self.request(ask.ForwardPage(number=number), dict[str, str]))["page"]

    async def forward_end(self, number: int) -> None:
        await self.request(ask.ForwardEnd(number=number), dict[str, Any])

    async def shutdown(self) -> None:
        """Ends the controller; agents and jobs go on."""
        await self.request(ask.Shutdown(), dict[str, Any])

    # ---- streams

    async def subscribe(
        self, *, finished_s: float = 3600.0, user: str | None = None, topics: Sequence[str] = TOPICS
    ) -> AsyncGenerator[Delta, None]:
        """Everything there is, then what changes, merged while nobody asks. Close the iterator to end it."""
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
        """A job's output as it grows: `async with client.log("12", follow=True) as log: async for chunk in log: ...`"""
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
                f"the controller said something strange: {error}", f"if it is of another version, {RESTART}"
            ) from error
        if message["t"] == "error":
            raise user_error(message)
        self.welcome = _convert(message, Welcome)
        self._pump = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        """Sorts frames into inboxes until the connection ends."""
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
                    f"the controller said something strange: {error}",
                    f"if it is of another version, {RESTART}",
                )
            )
        except UserError as error:
            self._fail(error)

    def _deliver(self, number: int, item: dict[str, Any] | bytes) -> None:
        inbox = self._inboxes.get(number)
        if inbox is not None:  # else it was given up, and what is still on its way is dropped
            inbox.put(item)

    def _fail(self, error: UserError) -> None:
        self._gone = self._gone or error
        for inbox in self._inboxes.values():
            inbox.fail(self._gone)

    async def request(self, message: Message, kind: type[T], *, progress: Progress | None = None) -> T:
        """Asks one thing and decodes the answer, pages joined. What the site is asked has its own module: site."""
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
            raise UserError("the controller gave no answer", hint, code=UNCERTAIN) from error
        finally:
            self._inboxes.pop(number, None)

    async def begin(self, message: Message, inbox: Inbox) -> tuple[int, Inbox]:
        """Sends a request whose answers go to that inbox, until `forget`. Raises UserError."""
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
        """Ends that request from here."""
        self._inboxes.pop(number, None)
        if self._gone is None:
            await self.send(ask.Close(stream=number))

    def _tell(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json_frame(message))

    async def send(self, message: Message) -> None:
        """A message by itself. Raises UserError."""
        try:
            self._writer.write(pack(JSON, msgspec.json.encode(message)))
            await self._writer.drain()
        except OSError as error:
            raise _gone() from error


class LogStream:
    """A log being read. Iterating acknowledges each chunk when the next is asked for: a slow reader slows only this log."""

    def __init__(self, client: Client, message: ask.Log, progress: Progress | None) -> None:
        self._client = client
        self._message = message
        self._progress = progress
        self._number = 0
        self._inbox = Inbox()
        self.opened = LogOpened()
        self.on_opened: Callable[[LogOpened], None] | None = None
        """Called as soon as it is known how long the log is: one that is empty gives no chunk."""
        self.exit: tuple[int, int] | None = None
        """(exit code, signal) of the job, once the stream ended with its end."""

    async def __aenter__(self) -> LogStream:
        self._number, self._inbox = await self._client.begin(self._message, self._inbox)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(UserError):
            await self._client.forget(self._number)

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """The chunks. Raises UserError where the log cannot be read (any more)."""
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
    return UserError("the controller went away", "try again; `warpdeck status` tells how it is", code=GONE)


async def _in_time(inbox: Inbox) -> dict[str, Any] | bytes:
    """What comes next. Raises TimeoutError. A timer that is not needed any more lies in the loop until its time: in a context of
    its own, or it would keep whatever the asker's holds, such as a screen that was closed since."""
    async with asyncio.timeout(None) as limit:
        contextvars.Context().run(limit.reschedule, asyncio.get_running_loop().time() + ANSWER_S)
        return await inbox.get()


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UserError(
            f"the controller's answer is not understood: {error}", f"if it is of another version, {RESTART}"
        ) from error
