"""Reads the parameters and metrics of runs, a few at a time, from the end and some samples of their logs."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from warpdeck.base.errors import UserError
from warpdeck.client.asyncio_client import AsyncioClient
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck.protocol.requests import JobInfo

from .log_parts import log_parts
from .parameters import parameters
from .printed_metrics import Part, Readings, readings
from .run import RunData

AT_ONCE = 4
"""Largest number of runs that are read at the same time."""
TAIL_BYTES, SAMPLES = 64 * 1024, 12
"""Bytes at the end of a log that are read completely, and the number of samples of the part before."""


class RunSource(Protocol):
    """The requests with which runs are read. Each raises UserError."""

    async def job(self, job: str) -> JobDetail: ...
    async def log_parts(
        self, job: str, *, channel: str, whole_bytes: int, most_samples: int
    ) -> tuple[int, list[tuple[int, bytes]]]: ...


class ClientRuns:
    """The requests over a connection of their own."""

    def __init__(self, client: AsyncioClient) -> None:
        self._client = client

    async def job(self, job: str) -> JobDetail:
        return await self._client.ask(JobInfo(job=job))

    async def log_parts(
        self, job: str, *, channel: str, whole_bytes: int, most_samples: int
    ) -> tuple[int, list[tuple[int, bytes]]]:
        return await log_parts(
            self._client, job, channel=channel, whole_bytes=whole_bytes, most_samples=most_samples
        )


async def read_run(source: RunSource, row: JobRow, turn: asyncio.Semaphore) -> RunData:
    """Return a job with its parameters and metrics. Without a readable log it has no metrics."""
    async with turn:
        try:
            detail = await source.job(str(row.id))
        except UserError:
            return RunData(row, is_read=True)
        found: Readings = {}
        if row.start is not None:
            channels = ["out", "err"] if detail.stderr not in ("", detail.stdout) else ["out"]
            for channel in channels:
                found = await _metrics(source, row, channel) | found
        return RunData(row, parameters(detail), found, is_read=True)


async def _metrics(source: RunSource, row: JobRow, channel: str) -> Readings:
    try:
        size_bytes, pieces = await source.log_parts(
            str(row.id), channel=channel, whole_bytes=TAIL_BYTES, most_samples=SAMPLES
        )
    except UserError:
        return {}
    parts = [Part(at_bytes, data) for at_bytes, data in pieces]
    end = row.end or time.time()
    return await asyncio.to_thread(
        readings, parts, size_bytes=size_bytes, begin=row.start or end, end=end, least_points=1
    )
