"""`AsyncJob`: a job's id and the requests about it. The state stays in the controller; nothing is cached
here.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.client.asyncio_client import GONE, LOST, AsyncioClient
from warpdeck.model import Snapshot
from warpdeck.protocol import requests
from warpdeck.protocol.job_rows import JobDetail, JobRow, UsageCurves
from warpdeck.protocol.results import Changed
from warpdeck.protocol.site_rows import ForecastRow

from .outcome import Outcome

MAX_LINE_CHARS = 1024 * 1024
"""A longer line of a log is yielded in parts. A progress bar may write for hours without an end of line."""

REOPEN_S = 0.2
"""Pause before a log that broke off is opened again. The controller itself waits longer for the link to a
node.
"""


_T = TypeVar("_T")


class AnyJob(Protocol):
    """A `Job` or an `AsyncJob`."""

    @property
    def id(self) -> str: ...


class JobClient(Protocol):
    """The calls of AsyncClient that a job makes."""

    async def ask(self, question: Callable[[AsyncioClient], Awaitable[_T]]) -> _T: ...
    async def detail(self, job: str) -> JobDetail: ...
    async def wait(self, jobs: Sequence[str], *, timeout_s: float | None = None) -> list[Outcome]: ...
    async def cancel(self, *jobs: str, signal: str = "") -> Changed: ...
    async def metrics(self, job: str) -> UsageCurves: ...


class AsyncJob:
    """A job, an array, or a task of an array.

    `id` is the id as Slurm writes it, such as 12 or 12_3. `notes` are the messages from the submission.
    """

    def __init__(self, client: JobClient, job: str, *, notes: tuple[str, ...] = ()) -> None:
        self._client = client
        self.id = job
        self.notes = notes

    def __repr__(self) -> str:
        return f"<warpdeck job {self.id}>"

    def task(self, index: int) -> AsyncJob:
        """Return a task of this array."""
        return AsyncJob(self._client, f"{self.id}_{index}")

    async def detail(self) -> JobDetail:
        """Return all details of the job."""
        return await self._client.detail(self.id)

    async def row(self) -> JobRow:
        """Return the job's row of the queue."""
        return (await self.detail()).row

    async def state(self) -> str:
        """Return Slurm's name of the job's state."""
        return (await self.row()).state

    async def why(self) -> ForecastRow:
        """Return why the job waits, when it should start, and what would start it now."""
        return await self._client.ask(lambda link: link.ask(requests.Forecast(job=self.id)))

    async def wait(self, *, timeout_s: float | None = None) -> Outcome:
        """Wait until the job, or every task of the array, has ended. Raises TimeoutError; the job continues."""
        return (await self._client.wait([self.id], timeout_s=timeout_s))[0]

    async def cancel(self, *, signal: str = "") -> None:
        """Cancel the job, or send it a signal by name. Raises UserError if this is not possible."""
        changed = await self._client.cancel(self.id, signal=signal)
        if changed.errors:
            raise UserError(changed.errors[0], f"see `warpdeck show {self.id}`")

    async def metrics(self) -> UsageCurves:
        """Return the use of GPUs, CPUs and memory over the job's life, and the sums."""
        return await self._client.metrics(self.id)

    async def snapshot(self) -> Snapshot | None:
        """Return the snapshot of the code that the job runs, or None if it was submitted without one."""
        found = (await self.detail()).snapshot
        return None if not found else msgspec.convert(found, Snapshot)

    async def logs(
        self, *, follow: bool = True, stderr: bool = False, offset: int = 0
    ) -> AsyncGenerator[str]:
        """Yield the lines of the job's output until it ends. With follow=False, stop at the end of the
        present output.

        `offset` is the first byte; a negative one counts from the end. `stderr` reads the errors, if they
        have a file of their own.
        """
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        rest = ""
        async with contextlib.aclosing(self._chunks(follow=follow, stderr=stderr, offset=offset)) as chunks:
            async for chunk in chunks:
                *lines, rest = (rest + decode(chunk)).split("\n")
                for line in lines:
                    yield line
                if len(rest) > MAX_LINE_CHARS:
                    yield rest
                    rest = ""
        rest += decode(b"", True)
        if rest:
            yield rest

    async def output(self, *, follow: bool = False, stderr: bool = False) -> bytes:
        """Return the output that the job has written, as bytes."""
        async with contextlib.aclosing(self._chunks(follow=follow, stderr=stderr, offset=0)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def _chunks(self, *, follow: bool, stderr: bool, offset: int) -> AsyncGenerator[bytes]:
        """Yield each byte of the output once, over as many connections as necessary."""
        channel = "err" if stderr else "out"
        while True:
            link = await self._client.ask(_itself)
            try:
                async with (
                    link.log(self.id, channel=channel, offset=offset, follow=follow) as log,
                    contextlib.aclosing(aiter(log)) as chunks,
                ):
                    at_bytes: int | None = None
                    async for chunk in chunks:
                        at_bytes = log.opened.offset if at_bytes is None else at_bytes
                        yield chunk
                        at_bytes += len(chunk)
                        offset = at_bytes
                return
            except UserError as error:
                if error.code not in (GONE, LOST):
                    raise
            await asyncio.sleep(REOPEN_S)


async def _itself(link: AsyncioClient) -> AsyncioClient:
    return link
