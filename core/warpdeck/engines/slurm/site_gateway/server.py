"""The Unix socket of the site gateway. Every user of the machine may connect, so each user has limits.

A connection carries one question and its reply. A client that sends anything else, or too slowly, is disconnected.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from .answers import Kept, SiteAnswers
from .trust import peer_uid
from .wire import MAX_QUESTION_BYTES, Asked, Outcome, Reply

MAX_CONNECTIONS = 1000
MAX_CONNECTIONS_OF_USER = 8
"""Maximum number of connections at the same time. A gateway has two: one of its screens, one of a command."""
MAX_QUESTIONS = 60
"""Number of questions that a user may ask at once."""
QUESTIONS_A_SECOND = 5.0
"""Number of questions that a user may ask after that. A gateway asks one a second."""
MAX_USERS = 10_000
"""Number of users of which the questions are counted."""
QUESTION_S = 5.0
"""Maximum seconds that a client may take to send its question."""
SEND_S = 30.0
"""Maximum seconds that a client may take to read its reply. Until then, the answer stays in memory."""
BACKLOG = 512
PIECE_BYTES = 64 * 1024


class Budgets:
    """How many questions each user may ask now. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[float, float]] = {}
        """uid -> number of questions that were left, and when."""

    def take(self, uid: int, now: float) -> bool:
        """Return whether the user may ask one more question now."""
        left, at = self._left.pop(uid, (float(MAX_QUESTIONS), now))
        left = min(float(MAX_QUESTIONS), left + (now - at) * QUESTIONS_A_SECOND)
        allowed = left >= 1.0
        self._left[uid] = (left - 1.0 if allowed else left), now
        while len(self._left) > MAX_USERS:
            self._left.pop(next(iter(self._left)))
        return allowed


class SiteServer:
    """Answers questions on a socket. `monotonic` returns seconds of a clock that never jumps."""

    def __init__(self, answers: SiteAnswers, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._answers = answers
        self._monotonic = monotonic
        self._budgets = Budgets()
        self._connected: Counter[int] = Counter()
        """Number of connections by uid."""

    @asynccontextmanager
    async def listening(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve while the block runs."""
        server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=MAX_QUESTION_BYTES, backlog=BACKLOG
        )
        try:
            yield
        finally:
            server.close()
            await self._answers.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = peer_uid(writer)
        is_full = self._connected.total() >= MAX_CONNECTIONS
        if is_full or self._connected[uid] >= MAX_CONNECTIONS_OF_USER:
            writer.transport.abort()
            return
        self._connected[uid] += 1
        try:
            await self._answer(reader, writer, uid)
        except (OSError, TimeoutError, ValueError):  # ValueError: the line is too long, or it is no question
            pass
        finally:
            self._connected[uid] -= 1
            if not self._connected[uid]:
                del self._connected[uid]
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int) -> None:
        async with asyncio.timeout(QUESTION_S):
            line = await reader.readline()
        if not line.endswith(b"\n"):
            return
        asked = msgspec.json.decode(line, type=Asked)
        if self._budgets.take(uid, self._monotonic()):
            reply, kept = await self._answers.reply(asked)
        else:
            reply, kept = Reply(outcome=Outcome.BUSY), None
        async with asyncio.timeout(SEND_S):
            await _send(writer, reply, kept)


async def _send(writer: asyncio.StreamWriter, reply: Reply, kept: Kept | None) -> None:
    """Send a reply in small pieces, so that a client that reads slowly needs little memory."""
    writer.write(msgspec.json.encode(reply) + b"\n")
    for part in kept.parts if kept is not None else ():
        for start in range(0, len(part), PIECE_BYTES):
            writer.write(part[start : start + PIECE_BYTES])
            await writer.drain()
    await writer.drain()
    writer.close()
    await writer.wait_closed()


def bind(path: str) -> socket.socket:
    """Return a socket at the path that every user may connect to. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o666)
    listener.setblocking(False)
    return listener
