"""Write and read the archive of a backup. See the docstring of the package for its layout."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.store.database_copy import Show

from .manifest import FORMAT, MANIFEST, PART, Manifest, Part

CHUNK_BYTES = 1024 * 1024
GZIP_LEVEL = 1
"""The fastest level. It makes a database about five times smaller."""
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
"""Largest manifest. A part takes about 150 bytes, so this suffices for 400,000 snapshots of code."""


class ArchiveWriter:
    """An archive that is being written. `Manifest.parts` must be the `parts` of this object."""

    def __init__(self, tar: tarfile.TarFile, show: Show) -> None:
        self._tar = tar
        self._show = show
        self.parts: list[Part] = []

    def add(self, name: str, path: str) -> None:
        """Add a plain file. A file that does not exist and a file of another kind are left out. Raises OSError."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return
        with open(descriptor, "rb") as file:
            info = self._tar.gettarinfo(arcname=name, fileobj=file)
            info.mode, info.uid, info.gid, info.uname, info.gname = 0o600, 0, 0, "", ""
            counted = _Digest(file, self._show, f"packing {name}", info.size)
            self._tar.addfile(info, counted)
        self.parts.append(Part(name=name, size_bytes=info.size, sha256=counted.sha256.hexdigest()))

    def finish(self, manifest: Manifest) -> None:
        """Add the manifest, which makes the archive complete. Raises OSError."""
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode, info.mtime = len(text), 0o600, int(manifest.at_unix)
        self._tar.addfile(info, io.BytesIO(text))


@contextmanager
def written_archive(path: str, *, show: Show) -> Iterator[ArchiveWriter]:
    """Write the archive to the new file `path`. It is on disk at the end of the context. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        with tarfile.open(
            mode="w:gz", fileobj=file, compresslevel=GZIP_LEVEL, format=tarfile.GNU_FORMAT
        ) as tar:
            yield ArchiveWriter(tar, show)
        file.flush()
        os.fsync(file.fileno())


def extract(archive: str, folder: str, *, show: Show) -> Manifest:
    """Write all parts of the archive into the empty folder, check them, and return the manifest.

    Raises UserError if the archive is incomplete or damaged, or OSError.
    """
    try:
        with gzip.open(archive) as file:
            with tarfile.open(fileobj=file, mode="r|") as tar:
                found, manifest = _extract_members(tar, folder, show)
            while file.read(CHUNK_BYTES):  # the end of the file has a checksum
                pass
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{archive} is not a complete backup: {error}", "use another backup") from error
    if manifest is None:
        raise UserError(f"{archive} is incomplete: its manifest is missing", "use another backup")
    for part in manifest.parts:
        if found.pop(part.name, None) != part:
            raise UserError(
                f"{archive} is damaged: {part.name} differs from the manifest", "use another backup"
            )
    if found:
        raise UserError(f"{archive} has the unexpected part {min(found)}", "use another backup")
    return manifest


def _extract_members(
    tar: tarfile.TarFile, folder: str, show: Show
) -> tuple[dict[str, Part], Manifest | None]:
    found: dict[str, Part] = {}
    for member in tar:
        file = tar.extractfile(member) if member.isreg() else None
        if file is not None and member.name == MANIFEST and member.size <= MAX_MANIFEST_BYTES:
            return found, _read_manifest(file.read(), tar)
        if file is None or not PART.fullmatch(member.name) or member.name in found:
            raise tarfile.TarError(f"it has the unexpected member {member.name[:100]!r}")
        counted = _Digest(file, show, f"unpacking {member.name}", member.size)
        _write(os.path.join(folder, member.name), counted)
        found[member.name] = Part(name=member.name, size_bytes=member.size, sha256=counted.sha256.hexdigest())
    return found, None


def _read_manifest(text: bytes, tar: tarfile.TarFile) -> Manifest:
    if tar.next() is not None:
        raise tarfile.TarError("a member follows the manifest")
    try:
        known = msgspec.json.decode(text, type=_Format)
        if known.format > FORMAT:
            raise tarfile.TarError(
                f"its format {known.format} is of a newer warpdeck; install the newer version"
            )
        return msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise tarfile.TarError(f"its manifest cannot be read: {error}") from error


def _write(path: str, source: _Digest) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        while chunk := source.read(CHUNK_BYTES):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())


class _Format(msgspec.Struct, frozen=True):
    format: int


class _Digest:
    """Reads a file, and computes the SHA-256 of all that was read."""

    def __init__(self, file: IO[bytes], show: Show, line: str, size_bytes: int) -> None:
        self._file = file
        self._show = show
        self._line = line
        self._size_bytes = size_bytes
        self._done = 0
        self.sha256 = hashlib.sha256()

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        self._done += len(data)
        self._show(f"{self._line} {100 * self._done // max(1, self._size_bytes)} %")
        return data
