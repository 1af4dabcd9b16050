"""Send long answers in pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .chunking import in_slices
from .connection import Connection

JOB_PAGE_ROWS = 1000
"""Number of jobs in one frame."""
T = TypeVar("T")


async def paged(
    connection: Connection,
    number: int,
    key: str,
    things: Sequence[T],
    *,
    show: Callable[[Sequence[T]], Sequence[Any]],
    page_rows: int,
) -> dict[str, Any]:
    """Send all pages but the last and return the last one as the answer.

    Other clients are served between two pages, and this client can decode a page meanwhile. A connection
    builds one page at a time, after the client has read the earlier ones. Otherwise its answers would
    fill memory.
    """
    while True:
        async with connection.page():
            page = await in_slices(things[:page_rows], show)
            things = things[page_rows:]
            if not things:
                return {key: page}
            connection.send({"t": "rows", "id": number, "part": {key: page}})
        await asyncio.sleep(0)
