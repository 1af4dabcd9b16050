"""The requests that a client keeps in memory."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from pathlib import Path

from tests.support.served import served

from warpdeck.protocol import requests


class Asker:
    """A requester like a screen of the app, which its tasks' contexts reference."""


_ASKER: contextvars.ContextVar[Asker] = contextvars.ContextVar("asker")


async def test_an_answered_request_is_not_kept_in_memory(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site, await site.client() as client:

        async def ask(asker: Asker) -> None:
            _ASKER.set(asker)
            await client.ask(requests.Jobs())

        asker = Asker()
        kept = weakref.ref(asker)
        await asyncio.create_task(ask(asker))
        del asker
        await asyncio.sleep(0)
        gc.collect()
        assert kept() is None
