"""Reads the parameters and metrics of runs, a few at a time, from the end and some samples of their logs."""

from __future__ import annotations

import asyncio
import time

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.data.server_requests import Core
from warpdeck_tui.viewmodels.metrics.readings import Part, Readings, readings
from warpdeck_tui.viewmodels.runs.parameters import parameters
from warpdeck_tui.viewmodels.runs.table import RunData

AT_ONCE = 4
"""Largest number of runs that are read at the same time."""
TAIL_BYTES, SAMPLES = 64 * 1024, 12
"""Bytes at the end of a log that are read completely, and the number of samples of the part before."""


async def read_run(core: Core, row: JobRow, turn: asyncio.Semaphore) -> RunData:
    """Return a job with its parameters and metrics. Without a readable log it has no metrics."""
    async with turn:
        try:
            detail = await core.job(str(row.id))
        except UserError:
            return RunData(row, is_read=True)
        found: Readings = {}
        if row.start is not None:
            channels = ["out", "err"] if detail.stderr not in ("", detail.stdout) else ["out"]
            for channel in channels:
                found = await _metrics(core, row, channel) | found
        return RunData(row, parameters(detail), found, is_read=True)


async def _metrics(core: Core, row: JobRow, channel: str) -> Readings:
    try:
        size_bytes, pieces = await core.log_parts(
            str(row.id), channel=channel, whole_bytes=TAIL_BYTES, most_samples=SAMPLES
        )
    except UserError:
        return {}
    parts = [Part(at_bytes, data) for at_bytes, data in pieces]
    end = row.end or time.time()
    return await asyncio.to_thread(readings, parts, size_bytes=size_bytes, begin=row.start or end, end=end)
