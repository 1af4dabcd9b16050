"""Send long answers in pages."""

from __future__ import annotations

import asyncio
from typing import Any

from warpdeck.base.chunking import Rows, in_slices

from .connection import Connection

JOB_PAGE_ROWS = 1000
"""Number of jobs in one frame."""
AUDIT_PAGE_ROWS = 200
"""Number of entries of the audit log in one frame. An entry has at most some 20 KiB."""


async def paged(
    connection: Connection, number: int, key: str, rows: Rows[Any], *, page_rows: int
) -> dict[str, Any]:
    """Send all pages but the last and return the last one as the answer.

    Other clients are served between two pages, and this client can decode a page meanwhile. A connection
    builds one page at a time, after the client has read the earlier ones. Otherwise its answers would
    fill memory.
    """
    first = 0
    while True:
        async with connection.page():
            page = await in_slices(rows, list, first=first, last=first + page_rows)
            first += page_rows
            if first >= len(rows):
                return {key: page}
            connection.send({"t": "rows", "id": number, "part": {key: page}})
        await asyncio.sleep(0)
