"""The socket over which the processes of jobs reach the controller.

All users may open the socket, and each launch has a token for it. A process first sends the key of its launch
and the token of that launch, and the kernel reports the user of the process. After that, the agent only
relays bytes. The process talks to the controller as the job's user, in the frames of the controller's own
socket. A connection ends with the launch, with the link to the controller, or when either side closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
from typing import Any, Awaitable, Callable, Counter, Dict, Iterator, Optional, Protocol, Tuple, TypeVar

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.streams.terminal_relay import UCRED
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, WireError, json_frame, parse_json, read_frame
from warpdeck_agent.wire.messages import Key, StreamAck
from warpdeck_agent.wire.steps import FIRST_CALL, MAX_ACCESS_BYTES, CallOpened

_Key = TypeVar("_Key")
AUTHENTICATE_S = 10.0
"""How long a process may take to authenticate, in seconds."""
LINGER_S = 0.5
"""Signals to a job skip a process for this many seconds after the process has received its last answer. So a
scontrol that has requeued its own job can exit with 0 before a signal ends it.
"""
CLOSE_S = 2.0
"""How long a connection stays open after its end, in seconds, so that the process can read remaining data."""
MAX_CALLS = 512
"""The most connections of all jobs of this node at once: half of the usual limit of open files."""
MAX_CALLS_OF_USER = 256
"""The most connections of one user: as many as the controller serves."""
MAX_CALLS_OF_JOB = 160
"""The most connections of one launch, so that other jobs of its user still get through."""
MAX_UNPROVEN_OF_USER = 128
"""The most unauthenticated connections of one user. If there are more, the oldest is closed, because a proper
client authenticates at once.
"""
BACKLOG = 32
"""The most connections that are accepted in one iteration of the event loop, before earlier ones are handled.
It is a quarter of the allowed unauthenticated ones.
"""
MAX_DIGITS = 18
"""The most digits of a job id."""


class JobCall:
    """A connection of a job's process, relayed over a stream of the controller's link."""

    def __init__(self, out: OutStream, writer: asyncio.StreamWriter, tell: Callable[[Any], None]) -> None:
        self.out = out
        self._writer = writer
        self._tell = tell
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()  # bounded by CALL_WINDOW_BYTES

    def feed(self, data: bytes) -> None:
        """Queue bytes from the controller."""
        self._waiting.put_nowait(data)

    async def write_queued(self) -> None:
        """Write the queued bytes to the process, and acknowledge them when the process has read them.

        Runs until canceled.
        """
        while True:
            data = await self._waiting.get()
            self._writer.write(data)
            await self._writer.drain()
            self._tell(StreamAck(stream=self.out.stream, size=len(data)))

    def close(self) -> None:
        """Close the connection, because the controller ended it or is gone."""
        self._writer.close()


class CallLink(Protocol):
    """The methods of the link to the controller that calls need."""

    def open_call(self, stream: int, writer: asyncio.StreamWriter) -> JobCall: ...
    def end_call(self, stream: int) -> None: ...
    def tell(self, message: Any) -> None: ...


class JobAccess:
    """The Unix socket over which the processes of jobs reach the controller.

    `find` returns a launch by its job id and restarts. `link` returns the link to the controller, or None while
    there is none.
    """

    def __init__(
        self,
        spool: Spool,
        find: Callable[[int, int], Awaitable[Optional[LocalLaunch]]],
        link: Callable[[], Optional[CallLink]],
    ) -> None:
        self._spool = spool
        self._find = find
        self._link = link
        self._next = FIRST_CALL
        self._calls_of_user: Counter[int] = Counter()
        """Number of authenticated connections of each user."""
        self._calls_of_launch: Counter[Key] = Counter()
        """Number of authenticated connections of each launch."""
        self._unproven: Dict[asyncio.StreamWriter, int] = {}
        """The unauthenticated connections, oldest first, each with the uid of its process."""
        self._server: Optional[asyncio.AbstractServer] = None

    async def start(self) -> None:
        """Start to listen."""
        folder = os.open(self._spool.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        address = f"/proc/self/fd/{folder}/access.sock"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address)
        self._server = await asyncio.start_unix_server(self._serve, address, backlog=BACKLOG)
        os.chmod(address, 0o666 if os.geteuid() == 0 else 0o600)
        os.close(folder)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, uid = _peer(writer)
        try:
            launch = await self._authenticate(reader, writer, uid)
            if launch is not None and self._may_call(launch, writer):
                await self._call(launch, pid, reader, writer)
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError, WireError):
            return
        finally:
            writer.close()

    async def _authenticate(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int
    ) -> Optional[LocalLaunch]:
        """Return the launch of the process at the other end, or None if the process was refused."""
        if sum(self._calls_of_user.values()) + len(self._unproven) >= MAX_CALLS:
            _refuse(
                writer,
                "too many programs of jobs on this node are connected to the controller; try again later",
                "busy",
            )
            return None
        others = [other for other, of_uid in self._unproven.items() if of_uid == uid]
        if len(others) >= MAX_UNPROVEN_OF_USER:
            del self._unproven[others[0]]
            others[0].transport.abort()
        self._unproven[writer] = uid
        try:
            launch = await self._identify(reader, uid)
        finally:
            self._unproven.pop(writer, None)
        if launch is None:
            _refuse(writer, "this process does not belong to a job that runs on this node", "no_job")
        return launch

    def _may_call(self, launch: LocalLaunch, writer: asyncio.StreamWriter) -> bool:
        """Return whether one more connection of the launch is allowed. If not, send the reason."""
        if self._calls_of_launch[launch.key] >= MAX_CALLS_OF_JOB:
            _refuse(
                writer,
                f"{MAX_CALLS_OF_JOB} programs of this job are connected to the controller; try again later",
                "busy",
            )
        elif self._calls_of_user[launch.meta.uid] >= MAX_CALLS_OF_USER:
            message = f"{MAX_CALLS_OF_USER} programs of this user's jobs are connected to the controller; try again later"
            _refuse(writer, message, "busy")
        else:
            return True
        return False

    async def _call(
        self, launch: LocalLaunch, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Relay the connection until it ends, and give the process time to read the remaining data."""
        link = self._link()
        if link is None:
            _refuse(writer, "the controller is not connected to this node", "away")
            return
        launch.processes.call_begins(pid)
        with _counted(self._calls_of_user, launch.meta.uid), _counted(self._calls_of_launch, launch.key):
            try:
                await self._join(launch, link, reader, writer)
            finally:
                asyncio.get_running_loop().call_later(LINGER_S, launch.processes.call_ends, pid)
                await _closed(writer)

    async def _identify(self, reader: asyncio.StreamReader, uid: int) -> Optional[LocalLaunch]:
        """Return the launch of the process, if the process proves that it belongs to it, else None."""
        _, payload = await asyncio.wait_for(read_frame(reader, MAX_ACCESS_BYTES), AUTHENTICATE_S)
        message = parse_json(payload)
        name, _, _ = str(message.get("job", "")).partition("@")
        number, _, restarts = name.partition(".")
        if message["t"] != "access" or not (_is_number(number) and _is_number(restarts)):
            return None
        launch = await self._find(int(number), int(restarts))
        if launch is None or launch.phase != "running" or not launch.meta.token:
            return None
        if not hmac.compare_digest(
            launch.meta.token.encode(), str(message.get("token", "")).encode("utf-8", "replace")
        ):
            return None
        return launch if uid in (launch.meta.uid, 0) else None

    async def _join(
        self, launch: LocalLaunch, link: CallLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        stream, self._next = self._next, FIRST_CALL | (self._next + 1) & (FIRST_CALL - 1)
        call = link.open_call(stream, writer)
        link.tell(CallOpened(stream=stream, job_id=launch.meta.job_id, restarts=launch.meta.restarts))
        writer.write(json_frame({"t": "joined"}))
        loop = asyncio.get_running_loop()
        parts = [
            loop.create_task(_copy(reader, call.out)),
            loop.create_task(call.write_queued()),
            loop.create_task(launch.end.reported.wait()),
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            link.end_call(stream)
            call.out.end()


async def _copy(reader: asyncio.StreamReader, out: OutStream) -> None:
    while True:
        data = await reader.read(DATA_CHUNK_BYTES)
        if not data:
            return
        await out.send(data)


@contextlib.contextmanager
def _counted(counter: Counter[_Key], key: _Key) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close a connection. Data that the process does not read in time is dropped, to free the descriptor."""
    writer.close()
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), CLOSE_S)
    writer.transport.abort()


def _is_number(digits: str) -> bool:
    return digits.isdecimal() and len(digits) <= MAX_DIGITS


def _peer(writer: asyncio.StreamWriter) -> Tuple[int, int]:
    """Return (pid, uid) of the process at the other end, as reported by the kernel."""
    found = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
    pid, uid, _ = UCRED.unpack(found)
    return int(pid), int(uid)


def _refuse(writer: asyncio.StreamWriter, message: str, code: str) -> None:
    writer.write(json_frame({"t": "error", "id": 0, "message": message, "code": code}))
