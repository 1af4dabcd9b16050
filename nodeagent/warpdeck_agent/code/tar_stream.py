"""Reads a packed tree (tar.gz) as a stream, in bounded memory.

The archive is a user's upload, so nothing in it is trusted. The standard library's reader holds whole headers
and a list of all members in memory; this one holds one header of at most MAX_HEADER_BYTES. It supports the
formats that git and Python write: ustar, pax and GNU long names. It refuses sparse files.
"""

from __future__ import annotations

import gzip
from typing import IO, Dict, Iterator, NamedTuple, Optional

BLOCK_BYTES = 512
MAX_HEADER_BYTES = 1 << 20
"""The longest pax header or GNU long name."""
MAX_MEMBERS = 200_000
"""The most headers of all kinds in one archive."""
MAX_TOTAL_BYTES = 4 << 30
"""The largest archive after decompression, with contents, headers and padding."""
_TOO_MUCH = f"its content is larger than {MAX_TOTAL_BYTES >> 30} GiB"
_DATA_BYTES = 1 << 20
"""The most that one read of a file's content returns."""
_KINDS = {b"0": "file", b"\0": "file", b"7": "file", b"5": "folder", b"2": "link"}


class TarError(Exception):
    """An archive that cannot be used, in one sentence."""


class Member(NamedTuple):
    """One entry of the archive.

    `kind`: file, folder, link (symbolic), or other. `target`: the target of a link.
    """

    name: bytes
    kind: str
    size_bytes: int
    is_executable: bool
    target: bytes


class TarStream:
    """Iterate over `members`; call `content` for a file before the next member."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._stream = gzip.GzipFile(fileobj=packed, mode="rb")
        self._read_bytes = 0
        self._members = 0
        self._left_bytes = 0
        """Number of unread bytes of the current member, including padding."""
        self._padding_bytes = 0

    def members(self) -> Iterator[Member]:
        """Yield all entries in order. Raises TarError, and the errors of gzip for a damaged stream."""
        changes: Dict[str, bytes] = {}
        while True:
            self._skip()
            block = self._read(BLOCK_BYTES)
            if not block and not self._members:
                raise TarError("it is empty")
            if not block.strip(b"\0"):
                return
            self._members += 1
            if self._members > MAX_MEMBERS:
                raise TarError(f"it has more than {MAX_MEMBERS} members")
            size_bytes, kind = _checked_size(block), block[156:157]
            if kind in b"xgLK":
                text = self._header(size_bytes)
                if kind == b"x":
                    changes.update(_pax(text))
                elif kind == b"L":
                    changes["path"] = text.rstrip(b"\0")
                elif kind == b"K":
                    changes["linkpath"] = text.rstrip(b"\0")
                continue
            member = _member(block, size_bytes, changes)
            changes = {}
            self._expect(member.size_bytes)
            yield member

    def content(self) -> Iterator[bytes]:
        """Yield the content of the current file, in pieces."""
        while self._left_bytes > self._padding_bytes:
            data = self._exactly(min(_DATA_BYTES, self._left_bytes - self._padding_bytes))
            self._left_bytes -= len(data)
            yield data

    def _expect(self, size_bytes: int) -> None:
        if size_bytes > MAX_TOTAL_BYTES - self._read_bytes:
            raise TarError(_TOO_MUCH)
        self._padding_bytes = -size_bytes % BLOCK_BYTES
        self._left_bytes = size_bytes + self._padding_bytes

    def _header(self, size_bytes: int) -> bytes:
        if size_bytes > MAX_HEADER_BYTES:
            raise TarError(f"it has a header with {size_bytes} bytes; the limit is {MAX_HEADER_BYTES}")
        self._expect(size_bytes)
        return b"".join(self.content())

    def _skip(self) -> None:
        while self._left_bytes:
            self._left_bytes -= len(self._exactly(min(_DATA_BYTES, self._left_bytes)))

    def _exactly(self, size_bytes: int) -> bytes:
        data = self._read(size_bytes)
        if not data:
            raise TarError("it is incomplete")
        return data

    def _read(self, size_bytes: int) -> bytes:
        """Return `size_bytes` bytes, or fewer at the end of the stream."""
        data = self._stream.read(size_bytes)
        self._read_bytes += len(data)
        if self._read_bytes > MAX_TOTAL_BYTES:
            raise TarError(_TOO_MUCH)
        return data


def _checked_size(block: bytes) -> int:
    """Return the content's size from the plain header. Raises TarError if the block is not a header."""
    if len(block) < BLOCK_BYTES:
        raise TarError("it is incomplete")
    if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise TarError("it has a damaged header")
    return _number(block[124:136])


def _number(field: bytes) -> int:
    """Return the value of an octal number, or of a GNU number in base 256. Raises TarError."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    return _decimal(field.partition(b"\0")[0].strip(), base=8)


def _decimal(digits: bytes, *, base: int = 10) -> int:
    if len(digits) > 20 or (digits and not digits.isdigit()):
        raise TarError("it has a damaged header")
    try:
        return int(digits or b"0", base)
    except ValueError as error:
        raise TarError("it has a damaged header") from error


def _pax(text: bytes) -> Dict[str, bytes]:
    r"""Return the relevant records of a pax header, like "27 path=some/long/name\n"."""
    found: Dict[str, bytes] = {}
    at = 0
    while at < len(text) and text[at]:
        space = text.find(b" ", at, at + 10)
        length = _decimal(text[at:space]) if space > at else 0
        record = text[at : at + length]
        if length <= space - at + 1 or not record.endswith(b"\n") or len(record) != length:
            raise TarError("it has a damaged header")
        key, equals, value = record[space - at + 1 : -1].partition(b"=")
        if equals and key in (b"path", b"linkpath", b"size"):
            found[key.decode()] = value
        elif key.startswith(b"GNU.sparse."):
            found["sparse"] = value
        at += length
    return found


def _member(block: bytes, size_bytes: int, changes: Dict[str, bytes]) -> Member:
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0]
    if prefix and block[257:263] == b"ustar\0":
        name = prefix + b"/" + name
    name = changes.get("path", name)
    kind = "other" if "sparse" in changes else _KINDS.get(block[156:157], "other")
    if block[156:157] == b"\0" and name.endswith(b"/"):
        kind = "folder"
    declared: Optional[bytes] = changes.get("size")
    size_bytes = size_bytes if declared is None else _decimal(declared)
    return Member(
        name=name,
        kind=kind,
        size_bytes=size_bytes if kind in ("file", "other") else 0,
        is_executable=bool(_number(block[100:108]) & 0o100),
        target=changes.get("linkpath", block[157:257].partition(b"\0")[0]),
    )
