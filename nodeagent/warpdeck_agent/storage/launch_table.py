"""The launches of this node in one file of fixed-size records.

With this file, a restarted agent finds every job again. A record has these fields:

  key        "<job> <restarts>", written last for a new launch. Without it the record is free.
  process    "<pid> <grouped>" of the launch's first process, written before the process becomes the job.
             Without it nothing of the launch ever ran.
  status     "<code> <signal> end", written by the supervisor. Without "end" the end of the launch is not
             known.
  message    why the process could not become the job, in one sentence
  meta       JSON, up to a line feed

One file is used instead of one per launch for speed: ext4 takes a millisecond to create a handful of small
files in a folder and to delete them, and two simple programs can be started in that time. The agent writes
key and meta. The supervisor and its child write the other fields, each in one short write over blanks.
Overwriting needs no new disk space, so a full disk loses no exit status.
"""

from __future__ import annotations

import os
import re
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

Key = Tuple[int, int]
"""(job id, restarts), which identify one launch"""

RECORD_BYTES = 16 * 1024
"""Enough for three paths of the kernel's maximum length. Unwritten parts of a record take no space on the
disk.
"""
HEAD_BYTES = 1024
MAX_PID = 1 << 22
"""The kernel's own limit."""


class RecordField(NamedTuple):
    """A part of a record, in bytes."""

    offset: int
    size: int


KEY, PROCESS, STATUS, MESSAGE = (
    RecordField(0, 64),
    RecordField(64, 32),
    RecordField(96, 32),
    RecordField(128, 512),
)
META = RecordField(HEAD_BYTES, RECORD_BYTES - HEAD_BYTES)
_PROCESS = re.compile(r"(\d{1,9}) ([01])", re.ASCII)
_STATUS = re.compile(rb"(\d{1,3}) (\d{1,2}) end")


class LaunchTable:
    """The file of launches.

    Only the agent may call `take` and `release`. A lock ensures that a folder has only one agent.
    """

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._free: List[int] = []
        self._size = os.fstat(self._file).st_size // RECORD_BYTES
        self._used: Dict[int, None] = {}
        for number in range(self._size):
            if self.record(number).key() is None:
                self._free.append(number)
            else:
                self._used[number] = None

    def record(self, number: int) -> LaunchRecord:
        """Return the record of that number, whatever it holds."""
        return LaunchRecord(self._file, number)

    def records(self) -> Iterator[LaunchRecord]:
        """Yield all records that hold a launch."""
        for number in list(self._used):
            yield self.record(number)

    def take(self) -> LaunchRecord:
        """Return a record for a new launch. Raises OSError if the disk has no space for one."""
        if not self._free:
            self.record(self._size).clear()
            os.ftruncate(self._file, (self._size + 1) * RECORD_BYTES)
            self._free.append(self._size)
            self._size += 1
        number = self._free.pop()
        self._used[number] = None
        return self.record(number)

    def release(self, record: LaunchRecord) -> None:
        """Free the record of a launch."""
        record.put(KEY, "")
        if self._used.pop(record.number, True) is None:
            self._free.append(record.number)

    def sync(self) -> None:
        """Make all written fields durable against a power failure."""
        os.fdatasync(self._file)


class LaunchRecord:
    """One launch in the table."""

    def __init__(self, file: int, number: int) -> None:
        self._file = file
        self.number = number
        self._process = (0, False)

    def clear(self) -> None:
        """Fill the record with blanks, which frees it and gives it its full size."""
        self._write(0, b" " * HEAD_BYTES)

    def begin(self, key: Key, meta: str) -> None:
        """Store a new launch in the record.

        Raises ValueError if its paths are longer than any kernel accepts.
        """
        data = meta.encode("utf-8", "surrogateescape") + b"\n"
        if len(data) > META.size:
            raise ValueError("the paths of the job's files are too long")
        blanks = b" " * HEAD_BYTES  # later writes of agent, child and supervisor overwrite these blanks
        self._write(0, blanks + data)
        self.put(KEY, f"{key[0]} {key[1]}")

    def key(self) -> Optional[Key]:
        """Return the key of the launch, or None if the record is free."""
        found = re.fullmatch(r"(\d{1,18}) (\d{1,9})", self.get(KEY), re.ASCII)
        return (int(found.group(1)), int(found.group(2))) if found else None

    def meta(self) -> str:
        """Return the metadata that was stored when the launch began."""
        data = self._read(META.offset, META.size)
        return data.partition(b"\n")[0].decode("utf-8", "surrogateescape")

    def process(self) -> Tuple[int, bool]:
        """Return (pid of the launch's first process, whether it is in its cgroup).

        Returns (0, False) if there never was one.
        """
        if not self._process[0]:  # the field is written only once
            found = _PROCESS.fullmatch(self.get(PROCESS))
            pid = int(found.group(1)) if found else 0
            self._process = (
                (pid, found is not None and found.group(2) == "1") if pid <= MAX_PID else (0, False)
            )
        return self._process

    def end(self) -> Tuple[Optional[Tuple[int, int]], str]:
        """Return the end of the launch's first process as ((exit code, signal), reason).

        The first is None if it is not known. The reason says why the process could not become the job; it is
        "" if it did.
        """
        data = self._read(STATUS.offset, STATUS.size + MESSAGE.size)  # the two fields are adjacent
        found = _STATUS.fullmatch(data[: STATUS.size].strip())
        status = (int(found.group(1)), int(found.group(2))) if found else None
        return status, data[STATUS.size :].decode("utf-8", "replace").strip()

    def status(self) -> Optional[Tuple[int, int]]:
        """Return (exit code, signal), or None if it is not known."""
        return self.end()[0]

    def get(self, field: RecordField) -> str:
        """Return a field's text."""
        return self._read(field.offset, field.size).decode("utf-8", "replace").strip()

    def put(self, field: RecordField, text: str) -> None:
        """Write a field with one system call. Text that is too long for the field is cut."""
        data = text.encode("utf-8", "replace")[: field.size - 1].decode("utf-8", "ignore").encode()
        self._write(field.offset, data.ljust(field.size))

    def _read(self, offset: int, size: int) -> bytes:
        return os.pread(self._file, size, self.number * RECORD_BYTES + offset)

    def _write(self, offset: int, data: bytes) -> None:
        done = os.pwrite(self._file, data, self.number * RECORD_BYTES + offset)
        while done < len(data):  # a disk that is nearly full may write less at once
            done += os.pwrite(self._file, data[done:], self.number * RECORD_BYTES + offset + done)
