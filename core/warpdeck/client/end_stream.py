"""The asyncio client's wait for the ends of submissions (AwaitEnds)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import Self

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.protocol import requests as ask
from warpdeck.protocol.job_rows import JobRow

from .client import Client
from .inbox import Inbox


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that have begun, and that have ended; submissions with nothing left to wait for (`done`), and which of these nobody
    knows (any more)."""

    begun: list[JobRow] = []
    ended: list[JobRow] = []
    done: list[int] = []
    unknown: list[int] = []


class EndsStream:
    """One wait on one connection. Iterating it gives what has begun and ended, each once, and what is done."""

    def __init__(self, client: Client, number: int, inbox: Inbox) -> None:
        self._client = client
        self._number = number
        self._inbox = inbox

    @classmethod
    async def begin(cls, client: Client) -> Self:
        """Waits for nothing yet. Raises UserError."""
        number, inbox = await client.begin(ask.AwaitEnds(begun=True), Inbox())
        await inbox.get()  # its "ok": before that the controller knows no stream that could be told more
        return cls(client, number, inbox)

    async def add(self, jobs: Iterable[int]) -> None:
        """Waits for these submissions too, named by their numbers. Raises UserError."""
        await self._client.send(ask.AwaitMore(stream=self._number, jobs=tuple(jobs)))

    async def __aiter__(self) -> AsyncGenerator[Ends, None]:
        """For ever. Raises UserError when the connection is lost (GONE): then the question begins anew on another."""
        try:
            while True:
                item = await self._inbox.get()
                if isinstance(item, dict) and item["t"] == "ends":
                    yield msgspec.convert(item, Ends)
        finally:
            with contextlib.suppress(UserError):
                await self._client.forget(self._number)
