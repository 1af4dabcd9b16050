"""Parts of the output of a job: all of its end, and samples of what comes before."""

from __future__ import annotations

import contextlib

from warpdeck.client.asyncio_client import AsyncioClient

WHOLE_LOG_BYTES = 1024 * 1024
"""Bytes at the end of a log that are searched completely for metrics. Of the part before, only samples are read:"""
LOG_SAMPLES, LOG_SAMPLE_BYTES = 48, 16 * 1024


async def read_log(
    client: AsyncioClient, job: str, *, channel: str, at_bytes: int, size_bytes: int, node: str = ""
) -> bytes:
    """Return a part of a job's output. It is shorter than `size_bytes` if the output ends before. Raises UserError."""
    found: list[bytes] = []
    missing = size_bytes
    async with (
        client.log(job, channel=channel, offset=at_bytes, node=node) as log,
        contextlib.aclosing(aiter(log)) as chunks,
    ):
        async for chunk in chunks:
            found.append(chunk[:missing])
            missing -= len(found[-1])
            if not missing:
                break
    return b"".join(found)


async def log_parts(
    client: AsyncioClient,
    job: str,
    *,
    channel: str,
    whole_bytes: int = WHOLE_LOG_BYTES,
    most_samples: int = LOG_SAMPLES,
) -> tuple[int, list[tuple[int, bytes]]]:
    """Return the length of a job's output in bytes, and parts of it with their offsets. Raises UserError.

    The parts are samples of the beginning, then all of the last `whole_bytes` bytes.
    """
    async with (
        client.log(job, channel=channel, offset=-whole_bytes) as log,
        contextlib.aclosing(aiter(log)) as chunks,
    ):
        last = b"".join([chunk async for chunk in chunks])
        begin = log.opened.offset
    samples = min(most_samples, -(-begin // LOG_SAMPLE_BYTES))
    places = [begin * number // samples for number in range(samples)]
    parts = []
    for at_bytes in places:
        size_bytes = min(LOG_SAMPLE_BYTES, begin - at_bytes)
        data = await read_log(client, job, channel=channel, at_bytes=at_bytes, size_bytes=size_bytes)
        parts.append((at_bytes, data))
    return begin + len(last), [*parts, (begin, last)]
