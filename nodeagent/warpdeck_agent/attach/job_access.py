"""How a job's own processes reach the controller: a socket that all users may open, and a token that dies with the job.

Whoever connects says first which launch it belongs to and that launch's token; the kernel says whose process it is. After
that the agent only passes bytes on: the conversation is with the controller, in the frames of its own socket, as the job's user.
A connection ends with the launch, with the link to the controller, or when either side closes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
from typing import Any, Awaitable, Callable, Counter, Dict, Iterator, Optional, Protocol, Tuple, TypeVar

from warpdeck_agent.launch.launch import Job
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.streams.streams import OutStream
from warpdeck_agent.streams.terminal_relay import UCRED
from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, WireError, json_frame, parse_json, read_frame
from warpdeck_agent.wire.messages import Key, StreamAck
from warpdeck_agent.wire.steps import FIRST_CALL, MAX_ACCESS_BYTES, CallOpened

_Key = TypeVar("_Key")
PROVE_S = 10.0
"""How long a process may take to say whose it is."""
LINGER_S = 0.5
"""How long who had its answer is still a caller: scontrol that had its own job requeued ends with 0, not of the signal."""
LEAVE_S = 2.0
"""How long who has ended its side, and does not read what is left for it, keeps its connection."""
MAX_CALLS = 512
"""Connections of all jobs of this node at once: half of the usual limit of open files."""
MAX_CALLS_OF_USER = 256
"""Those of one user among them: as many as the controller serves."""
MAX_CALLS_OF_JOB = 160
"""Those of one launch: other jobs of its user still get through."""
MAX_UNPROVEN_OF_USER = 128
"""Those that have not said yet whose they are. If there are more, the oldest goes: an honest one says it at once."""
BACKLOG = 32
"""Connections that are accepted before those that came earlier are looked at: a quarter of the unproven ones."""
MAX_DIGITS = 18
"""Of a job's number."""


class Call:
    """A connection of a job's process, joined to a stream of the controller's link."""

    def __init__(self, out: OutStream, writer: asyncio.StreamWriter, tell: Callable[[Any], None]) -> None:
        self.out = out
        self._writer = writer
        self._tell = tell
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()  # bounded by CALL_WINDOW_BYTES

    def take(self, data: bytes) -> None:
        """Bytes from the controller."""
        self._waiting.put_nowait(data)

    async def write_for_ever(self) -> None:
        """Passes on what comes; acknowledges what the process has taken."""
        while True:
            data = await self._waiting.get()
            self._writer.write(data)
            await self._writer.drain()
            self._tell(StreamAck(stream=self.out.stream, size=len(data)))

    def close(self) -> None:
        """The controller wants no more, or is away."""
        self._writer.close()


class CallLink(Protocol):
    """The link to the controller, as far as calls need it."""

    def open_call(self, stream: int, writer: asyncio.StreamWriter) -> Call: ...
    def end_call(self, stream: int) -> None: ...
    def tell(self, message: Any) -> None: ...


class Access:
    """The socket. `link` gives the controller's link, None while there is none."""

    def __init__(
        self,
        spool: Spool,
        find: Callable[[int, int], Awaitable[Optional[Job]]],
        link: Callable[[], Optional[CallLink]],
    ) -> None:
        self._spool = spool
        self._find = find
        self._link = link
        self._next = FIRST_CALL
        self._of_users: Counter[int] = Counter()
        """Connections of each user that have proved whose they are."""
        self._of_jobs: Counter[Key] = Counter()
        """The same of each launch."""
        self._unproven: Dict[asyncio.StreamWriter, int] = {}
        """The other connections, oldest first, each with its process's uid."""
        self._server: Optional[asyncio.AbstractServer] = None

    async def start(self) -> None:
        """Listens."""
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
            job = await self._proven(reader, writer, uid)
            if job is not None and self._may_call(job, writer):
                await self._call(job, pid, reader, writer)
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, ConnectionError, WireError):
            return
        finally:
            writer.close()

    async def _proven(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int
    ) -> Optional[Job]:
        """The launch of the process at the other end. None if that was refused."""
        if sum(self._of_users.values()) + len(self._unproven) >= MAX_CALLS:
            _refuse(writer, "too many programs of this node's jobs talk to the controller", "busy")
            return None
        others = [other for other, of_uid in self._unproven.items() if of_uid == uid]
        if len(others) >= MAX_UNPROVEN_OF_USER:
            del self._unproven[others[0]]
            others[0].transport.abort()
        self._unproven[writer] = uid
        try:
            job = await self._identify(reader, uid)
        finally:
            self._unproven.pop(writer, None)
        if job is None:
            _refuse(writer, "this is no process of a job that runs on this node", "no_job")
        return job

    def _may_call(self, job: Job, writer: asyncio.StreamWriter) -> bool:
        """Whether one more of the launch may; else it is told why not."""
        if self._of_jobs[job.key] >= MAX_CALLS_OF_JOB:
            _refuse(writer, f"{MAX_CALLS_OF_JOB} programs of this job talk to the controller already", "busy")
        elif self._of_users[job.meta.uid] >= MAX_CALLS_OF_USER:
            said = f"{MAX_CALLS_OF_USER} programs of this user's jobs talk to the controller already"
            _refuse(writer, said, "busy")
        else:
            return True
        return False

    async def _call(
        self, job: Job, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Until it is over, and the process has taken what is left for it or has had the time to."""
        link = self._link()
        if link is None:
            _refuse(writer, "the controller has no link to this node now", "away")
            return
        job.call_begins(pid)
        with _counted(self._of_users, job.meta.uid), _counted(self._of_jobs, job.key):
            try:
                await self._join(job, link, reader, writer)
            finally:
                asyncio.get_running_loop().call_later(LINGER_S, job.call_ends, pid)
                await _closed(writer)

    async def _identify(self, reader: asyncio.StreamReader, uid: int) -> Optional[Job]:
        """The launch that a process of this user belongs to, if it proves it."""
        _, payload = await asyncio.wait_for(read_frame(reader, MAX_ACCESS_BYTES), PROVE_S)
        said = parse_json(payload)
        launch, _, _ = str(said.get("job", "")).partition("@")
        number, _, restarts = launch.partition(".")
        if said["t"] != "access" or not (_is_number(number) and _is_number(restarts)):
            return None
        job = await self._find(int(number), int(restarts))
        if job is None or job.phase != "running" or not job.meta.token:
            return None
        if not hmac.compare_digest(
            job.meta.token.encode(), str(said.get("token", "")).encode("utf-8", "replace")
        ):
            return None
        return job if uid in (job.meta.uid, 0) else None

    async def _join(
        self, job: Job, link: CallLink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        stream, self._next = self._next, FIRST_CALL | (self._next + 1) & (FIRST_CALL - 1)
        call = link.open_call(stream, writer)
        link.tell(CallOpened(stream=stream, job_id=job.meta.job_id, restarts=job.meta.restarts))
        writer.write(json_frame({"t": "joined"}))
        loop = asyncio.get_running_loop()
        parts = [
            loop.create_task(_pass_on(reader, call.out)),
            loop.create_task(call.write_for_ever()),
            loop.create_task(job.done.wait()),
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            link.end_call(stream)
            call.out.end()


async def _pass_on(reader: asyncio.StreamReader, out: OutStream) -> None:
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
    """Closes it. What the process does not read is dropped: it would keep the descriptor."""
    writer.close()
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), LEAVE_S)
    writer.transport.abort()


def _is_number(words: str) -> bool:
    return words.isdecimal() and len(words) <= MAX_DIGITS


def _peer(writer: asyncio.StreamWriter) -> Tuple[int, int]:
    """(pid, uid) of the process at the other end, as the kernel says."""
    found = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
    pid, uid, _ = UCRED.unpack(found)
    return int(pid), int(uid)


def _refuse(writer: asyncio.StreamWriter, message: str, code: str) -> None:
    writer.write(json_frame({"t": "error", "id": 0, "message": message, "code": code}))
