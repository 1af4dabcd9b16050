"""Copy output from nodes to the submit host while it grows, because users look for it there.

One task copies each channel of each launch. It continues after lost links, killed controllers and full disks,
and copies each byte once (see copy_record). Output that cannot be written is reported in the job's history. A
node deletes its record of a launch only after all output was copied, or if copying can never succeed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
import weakref
from collections.abc import Callable

import msgspec

from warpdeck.base.errors import RemoteError
from warpdeck.model import JobId, NodeName
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.opening import NOT_KEPT

from .copy_record import CopyRecord
from .fleet import AgentFleet
from .userfiles import UserFile

log = logging.getLogger("warpdeck.outputs")
RETRY_S = 2.0
"""Seconds between two attempts after any failure. A request to the node costs little."""
KEEP_RECORD_S = 30 * 86400.0
"""Seconds after which a record is deleted. An agent that was not connected for this long no longer has the
output.
"""
NOWHERE = "/dev/null"
_PERMANENT = (
    {errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS}
    | {errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO}
)  # fmt: skip
"""Errors that waiting does not fix. A full disk is not one of them."""

ReportNote = Callable[[JobId, str], None]
_Key = tuple[JobId, int, NodeName]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One channel of one launch, and the file to which it is copied."""

    job_id: JobId
    restarts: int
    node: NodeName
    channel: str
    path: str
    append: bool
    uid: int
    umask: int

    def record_name(self) -> str:
        return f"{self.job_id}.{self.restarts}.{self.channel}.{self.node}"


class Outputs:
    """Implements ports.ports.OutputCollector over the fleet's log streams.

    `folder` contains the records of the copied output.
    """

    def __init__(self, fleet: AgentFleet, folder: str) -> None:
        self._fleet = fleet
        self.files = fleet.files
        self._folder = folder
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._note: ReportNote = lambda job_id, text: None

    def start(self, on_note: ReportNote) -> None:
        """Start collecting. From now on, messages for users are passed to `on_note`."""
        self._note = on_note
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._delete_old_records()

    def begin(
        self,
        job_id: JobId,
        restarts: int,
        node: NodeName,
        *,
        files: dict[str, str],
        append: bool,
        uid: int,
        umask: int,
    ) -> None:
        key = (job_id, restarts, node)
        if key in self._tasks:
            return
        sources = [
            Source(
                job_id=job_id,
                restarts=restarts,
                node=node,
                channel=channel,
                path=path,
                append=append or path in list(files.values())[:position],
                uid=uid,
                umask=umask,
            )
            for position, (channel, path) in enumerate(files.items())
            if path != NOWHERE
        ]
        self._tasks[key] = asyncio.get_running_loop().create_task(self._collect(sources))

    async def finished(self, job_id: JobId, restarts: int, node: NodeName) -> None:
        task = self._tasks.get((job_id, restarts, node))
        if task is not None:
            await asyncio.wait([task])
            self._tasks.pop((job_id, restarts, node), None)

    async def read(self, path: str, *, uid: int) -> UserFile:
        """Return a file that is read with that user's rights. Raises OSError."""
        return await self.files.read(path, uid=uid)

    async def _collect(self, sources: list[Source]) -> None:
        async with asyncio.TaskGroup() as group:
            for source in sources:
                group.create_task(self._copy(source))

    async def _copy(self, source: Source) -> None:
        """Copy until all output was copied, or until a permanent error occurs."""
        reported = ""
        while self._fleet.has(source.node):
            try:
                if await self._copy_once(source):
                    return
            except OSError as error:
                is_permanent = error.errno in _PERMANENT
                reason = error.strerror or str(error)
                text = f"cannot write its output to {source.path}: {reason}; " + (
                    f"kept on {source.node} for one hour" if is_permanent else "retrying"
                )
                if text != reported:
                    log.warning("job %s: %s", source.job_id, text)
                    self._note(source.job_id, text)
                reported = text
                if is_permanent:
                    return
            await asyncio.sleep(RETRY_S)

    async def _copy_once(self, source: Source) -> bool:
        """Copy one stream, beginning where the previous stream stopped. Raises OSError of the submit host.

        Returns whether all output was copied.
        """
        lock = self._locks.setdefault(source.path, asyncio.Lock())
        record = CopyRecord(os.path.join(self._folder, source.record_name()))
        try:
            if record.is_done:
                return True
            async with lock:
                file = await self._open(source, record)
            try:
                error = await self._copy_stream(source, FileSink(file, record, lock))
            finally:
                await file.close()
            if error:
                log.info("output of job %s: %s", source.job_id, error)
                return False
            record.finish()
            return True
        finally:
            record.close()

    async def _open(self, source: Source, record: CopyRecord) -> UserFile:
        """Open the output file. As in Slurm, the first of a launch's nodes truncates it."""
        prefix = f"{source.job_id}.{source.restarts}.{source.channel}."
        first = record.is_new and sum(name.startswith(prefix) for name in os.listdir(self._folder)) == 1
        file = await self.files.append(
            source.path, uid=source.uid, truncate=first and not source.append, umask=source.umask
        )
        record.advance(file.length)
        record.begin_piece(0, length=file.length)
        return file

    async def _copy_stream(self, source: Source, sink: FileSink) -> str:
        """Copy a stream, and return the reason why it ended early, or "" if it is complete.

        Raises OSError of the submit host.
        """
        request = wire.OpenLog(
            stream=0,
            job_id=source.job_id,
            restarts=source.restarts,
            channel=source.channel,
            offset=sink.record.offset,
            follow=True,
        )
        try:
            stream = await self._fleet.open_stream(source.node, request, sink)
        except RemoteError as error:
            return str(error)
        try:
            return await sink.end
        finally:
            await stream.close()

    def _delete_old_records(self) -> None:
        before = time.time() - KEEP_RECORD_S
        for entry in os.scandir(self._folder):
            if entry.stat().st_mtime < before:
                os.unlink(entry.path)


class FileSink:
    """A StreamSink that appends to a file. It records each piece before writing it."""

    def __init__(self, file: UserFile, record: CopyRecord, lock: asyncio.Lock) -> None:
        self._file = file
        self.record = record
        self._lock = lock
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def opened(self, offset: int, size_bytes: int, path: str) -> None:
        if offset != self.record.offset and not self.end.done():
            self.end.set_result(f"asked from {self.record.offset}, got it from {offset}")

    async def data(self, chunk: bytes) -> None:
        """Append a piece. An error ends the stream; the rest is requested again later.

        The record then shows how much of the piece was written.
        """
        async with self._lock:
            if self.end.done():
                return
            try:
                await self._append(chunk)
            except OSError as error:
                if not self.end.done():
                    self.end.set_exception(error)

    async def _append(self, chunk: bytes) -> None:
        while chunk:
            length = await self._file.length_now()
            self.record.begin_piece(len(chunk), length=length)
            try:
                written = await self._file.write(chunk)
            except TimeoutError:
                raise  # It may still be written. The file's length shows that when the file is opened next.
            except OSError:
                self.record.advance(length)
                self.record.begin_piece(0, length=length)
                raise
            self.record.advance(length + written)
            chunk = chunk[written:]

    async def ended(self, error: str, code: str = "") -> None:
        """End the copy. If the node has not kept the output, the copy is as complete as it can be."""
        if not self.end.done():
            self.end.set_result("" if code == NOT_KEPT else error)
