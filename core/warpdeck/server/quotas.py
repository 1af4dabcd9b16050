"""Limits on one user's concurrent use of the controller, over all of the user's connections.

They prevent one user from blocking the others. Streams and subscriptions last long, so a further one is
refused. Requests and long messages end soon, so a further one waits in its socket. Unread answers are limited
for each connection (connection.OUTBOX_BYTES).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from warpdeck.base.errors import UserError

MAX_STREAMS_OF_USER = 2048
"""Maximum number of logs, terminals, tunnels, steps and waits: some for each of a thousand jobs."""
MAX_SUBSCRIPTIONS_OF_USER = 512
"""Maximum number of subscriptions: enough for apps on hundreds of terminals.

Each builds rows of all changes.
"""
MAX_REQUESTS_OF_USER = 512
"""Maximum number of requests in progress. Each holds some kilobytes and a task."""
LONG_MESSAGE_BYTES = 64 * 1024
"""Messages up to this size are read without reserving memory."""
MAX_INCOMING_BYTES_OF_USER = 32 * 1024 * 1024
"""Bytes of longer messages that may be read at the same time: eight of the longest."""


class StreamCounts(Protocol):
    """A connection, as far as its streams are counted."""

    @property
    def open_streams(self) -> int: ...
    @property
    def subscriptions(self) -> int: ...


class Budget:
    """A number of bytes that may be in use at the same time.

    Further callers wait in the order of their arrival.
    """

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def reserved(self, size_bytes: int) -> AsyncIterator[None]:
        """Reserve that many bytes as soon as they are free, for as long as the context lasts."""
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, asked))
        self._give()
        try:
            await asked
        except asyncio.CancelledError:
            if asked.done() and not asked.cancelled():
                self._give_back(size_bytes)
            raise
        try:
            yield
        finally:
            self._give_back(size_bytes)

    def _give_back(self, size_bytes: int) -> None:
        self._left += size_bytes
        self._give()

    def _give(self) -> None:
        while self._waiting:
            size_bytes, asked = self._waiting[0]
            if not asked.done():
                if size_bytes > self._left:
                    return
                self._left -= size_bytes
                asked.set_result(None)
            self._waiting.popleft()


class Quotas:
    """The quotas of all users."""

    def __init__(self) -> None:
        self._requests: defaultdict[int, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(MAX_REQUESTS_OF_USER)
        )
        self._incoming: defaultdict[int, Budget] = defaultdict(lambda: Budget(MAX_INCOMING_BYTES_OF_USER))

    def requests(self, uid: int) -> asyncio.Semaphore:
        """Return the user's semaphore. Each request in progress holds one slot of it."""
        return self._requests[uid]

    def incoming(self, uid: int, size_bytes: int) -> contextlib.AbstractAsyncContextManager[None]:
        """Return a context for reading a message of this size."""
        if size_bytes <= LONG_MESSAGE_BYTES:
            return contextlib.nullcontext()
        return self._incoming[uid].reserved(size_bytes)


def check_streams(connections: Iterable[StreamCounts], *, subscribes: bool) -> None:
    """Raise UserError if this user may open no further stream.

    `connections` are all connections of the user.
    """
    open_streams = subscriptions = 0
    for each in connections:
        open_streams += each.open_streams
        subscriptions += each.subscriptions
    if open_streams >= MAX_STREAMS_OF_USER:
        raise UserError(f"you already have {MAX_STREAMS_OF_USER:,} open streams", "close some of them")
    if subscribes and subscriptions >= MAX_SUBSCRIPTIONS_OF_USER:
        raise UserError(
            f"you already have {MAX_SUBSCRIPTIONS_OF_USER} open subscriptions", "close some of them"
        )
