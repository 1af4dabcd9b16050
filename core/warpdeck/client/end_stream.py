"""The asyncio client's wait for the ends of submissions (AwaitEnds)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import Self

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.protocol import requests
from warpdeck.protocol.results import Ends

from .asyncio_client import AsyncioClient
from .inbox import Inbox


class EndWait:
    """A wait on one connection.

    Iterating it yields starts and ends of jobs, each once, and finished submissions.
    """

    def __init__(self, client: AsyncioClient, number: int, inbox: Inbox) -> None:
        self._client = client
        self._number = number
        self._inbox = inbox

    @classmethod
    async def begin(cls, client: AsyncioClient) -> Self:
        """Open a wait that has no submissions yet. Raises UserError."""
        number, inbox = await client.begin(requests.AwaitEnds(begun=True), Inbox())
        # Wait for the "ok". Before it the controller knows no stream to which submissions could be added.
        await inbox.get()
        return cls(client, number, inbox)

    async def add(self, jobs: Iterable[int]) -> None:
        """Wait for these submissions, too. They are named by their numbers. Raises UserError."""
        await self._client.send(requests.AwaitMore(stream=self._number, jobs=tuple(jobs)))

    async def __aiter__(self) -> AsyncGenerator[Ends, None]:
        """Yield messages forever. Raises UserError with the code GONE when the connection is lost.

        The caller then opens a new wait on another connection.
        """
        try:
            while True:
                word, value = await self._inbox.get()
                if word == "ends":
                    yield msgspec.convert(value, Ends)
        finally:
            with contextlib.suppress(UserError):
                await self._client.forget(self._number)
