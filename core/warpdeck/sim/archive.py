"""Read ended jobs and nodes from the controller's database, also while the controller runs."""

from __future__ import annotations

import asyncio
import math
import os

from warpdeck.base.errors import StoreError, UserError
from warpdeck.model import Job, Node
from warpdeck.store import SqliteStore

MAX_JOBS = 1_000_000
"""Maximum number of ended jobs that are replayed. The latest jobs are taken. They use about 1 GiB of memory.
"""


def read_archive(path: str) -> tuple[list[Job], tuple[Node, ...]]:
    """Return the ended jobs, oldest end first, and the nodes. Raises UserError."""
    if not os.path.exists(path):
        raise UserError(
            f"there is no history: {path} does not exist", "run some jobs first, or set WARPDECK_HOME"
        )
    try:
        return asyncio.run(_read(path))
    except StoreError as error:
        raise UserError(str(error), "run this as the user of the controller") from error


async def _read(path: str) -> tuple[list[Job], tuple[Node, ...]]:
    store = await SqliteStore.open(path)
    try:
        loaded = await store.load(finished_since_unix=math.inf)
        return await store.finished_jobs(user=None, limit=MAX_JOBS), loaded.nodes
    finally:
        await store.close()
