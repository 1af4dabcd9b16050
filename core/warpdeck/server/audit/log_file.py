"""The files of the audit log: JSON lines, appended and never changed, of bounded size.

There are two sequences of files. `audit.jsonl` holds the changes of the site, and all changes that administrators made.
`audit-jobs.jsonl` holds the entries of ordinary users, and the refused requests. So a user with many requests cannot
displace the entries of administrators. A full file is renamed to NAME.1, that one to NAME.2 and so on, and the oldest one is deleted.

A line is one write to a file that was opened with O_APPEND. If the disk is full, the entry is lost, the log says so, and the
next entry that can be written follows on a line of its own. The numbers of lost entries are missing.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from math import inf

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.protocol.site_rows import AuditEntry

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Size at which a file is renamed. It holds about 60,000 entries."""
MAX_OLD_FILES = 9
"""Number of renamed files that are kept of each sequence."""
MAX_LINE_BYTES = 64 * 1024
"""Maximum size of a line; a longer one was not written by us."""
BLOCK_BYTES = 256 * 1024
MODE = 0o600

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AuditEntry)


class AuditFile:
    """One sequence of files. It appends lines and reads them, the newest first."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._is_cut = False
        """Whether the file may end within a line, because a write failed."""

    def append(self, line: bytes) -> None:
        """Write a line. Raises OSError."""
        descriptor = self._opened()
        status = os.fstat(descriptor)
        if not status.st_nlink or status.st_size + len(line) > MAX_FILE_BYTES:
            self.close()
            if status.st_nlink:
                self._rename()
            descriptor = self._opened()
        data = b"\n" + line if self._is_cut else line
        self._is_cut = True
        written = os.write(descriptor, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._is_cut = False

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def names(self) -> list[str]:
        """Return the paths of the files, the newest first."""
        return [self.path, *(f"{self.path}.{number}" for number in range(1, MAX_OLD_FILES + 1))]

    def entries(self) -> Iterator[AuditEntry]:
        """Yield the entries, the newest first. Lines that cannot be read are skipped. Raises OSError."""
        last = inf
        for name in self.names():
            with contextlib.suppress(FileNotFoundError), open(name, "rb") as file:
                for line in _lines_backwards(file.fileno()):
                    entry = _decoded(line)
                    if (
                        entry is not None and entry.number < last
                    ):  # A file may be renamed meanwhile and read again.
                        last = entry.number
                        yield entry

    def _opened(self) -> int:
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, MODE)
            size = os.fstat(self._descriptor).st_size
            self._is_cut = bool(size) and _last_byte(self.path, size) != b"\n"
        return self._descriptor

    def _rename(self) -> None:
        names = self.names()
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            with contextlib.suppress(FileNotFoundError):
                os.rename(newer, older)


def _decoded(line: bytes) -> AuditEntry | None:
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _last_byte(path: str, size: int) -> bytes:
    with open(path, "rb") as file:
        return os.pread(file.fileno(), 1, size - 1)


def _lines_backwards(descriptor: int) -> Iterator[bytes]:
    """Yield the lines of a file, the last one first. An unfinished last line is skipped, and so are lines that are too long."""
    at = os.fstat(descriptor).st_size
    rest = b""
    is_last = True
    while at:
        size = min(BLOCK_BYTES, at)
        at -= size
        first, *lines = (os.pread(descriptor, size, at) + rest).split(b"\n")
        for line in reversed(lines):
            if line and not is_last:
                yield line
            is_last = False
        rest = first if len(first) <= MAX_LINE_BYTES else b""
    if rest and not is_last:
        yield rest


class AuditLog:
    """Both sequences, with the numbers of the entries."""

    def __init__(self, home: str) -> None:
        self._of_site = AuditFile(os.path.join(home, "audit.jsonl"))
        self._of_jobs = AuditFile(os.path.join(home, "audit-jobs.jsonl"))
        self._next = 0
        self.lost = 0
        """Number of entries that could not be written since the last one that could."""
        self.problem = ""
        """The error of the last write, or "" if it succeeded."""

    def append(self, entry: AuditEntry, *, of_site: bool) -> None:
        """Write an entry with the next number. A failure is kept as the problem of the log, and the caller goes on."""
        file = self._of_site if of_site else self._of_jobs
        if not self._next:
            self._next = 1 + max(self._last_number(self._of_site), self._last_number(self._of_jobs))
        numbered = msgspec.structs.replace(entry, number=self._next)
        self._next += 1
        try:
            file.append(_ENCODER.encode(numbered) + b"\n")
        except OSError as error:
            self.lost += 1
            self.problem = f"cannot write {file.path}: {os.strerror(error.errno or 0)}"
        else:
            self.lost, self.problem = 0, ""

    def newest(self) -> Iterator[AuditEntry]:
        """Yield all entries, the newest first. Raises UserError."""
        try:
            yield from _merged([self._of_site.entries(), self._of_jobs.entries()])
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise UserError(f"cannot read {error.filename}: {reason}", "see the disk of the home") from error

    def close(self) -> None:
        self._of_site.close()
        self._of_jobs.close()

    @staticmethod
    def _last_number(file: AuditFile) -> int:
        try:
            return next((entry.number for entry in file.entries()), 0)
        except OSError:
            return 0


def _merged(sources: Sequence[Iterator[AuditEntry]]) -> Iterator[AuditEntry]:
    """Yield the entries of all sources in descending order of their numbers."""
    heads = [next(source, None) for source in sources]
    while any(head is not None for head in heads):
        at = max(range(len(heads)), key=lambda index: -1 if (head := heads[index]) is None else head.number)
        head = heads[at]
        assert head is not None
        yield head
        heads[at] = next(sources[at], None)
