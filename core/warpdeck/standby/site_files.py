"""The files beside the database that a controller needs: configuration, known hosts, packed trees and, by choice, keys.

`wanted_files` lists them on the controller's machine, `changed` is the one decision which of them to send, and `Folder`
writes them on the standby.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from warpdeck.base.errors import StoreError
from warpdeck.base.paths import Paths
from warpdeck.fleet.ssh.connect import USER_KNOWN_HOSTS, private_keys

from .messages import PIECE_BYTES, FileGone, FilePiece

_ALLOWED = re.compile(r"config\.toml|known_hosts|keys/[^/]+|trees/\d+/[0-9a-f]{40,64}\.tar\.gz(\.sha256)?")
KNOWN_HOSTS, KEYS, TREES = "known_hosts", "keys", "trees"


class SiteFile(NamedTuple):
    """A file to copy: its parts in their order, its size, and the time of its last change."""

    sources: tuple[str, ...]
    size_bytes: int
    mtime_ns: int


def wanted_files(paths: Paths, *, with_keys: bool) -> dict[str, SiteFile]:
    """Return the files that the standby should have, by their path in its home."""
    found = {}
    named = [("config.toml", (paths.config,)), (KNOWN_HOSTS, _known_hosts(paths))]
    if with_keys:
        named += [(f"{KEYS}/{os.path.basename(key)}", (key,)) for key in private_keys(paths)]
    named += [(name, (path,)) for name, path in _trees(paths)]
    for name, sources in named:
        with contextlib.suppress(FileNotFoundError):
            stats = [os.stat(source) for source in sources]
            if stats:
                size_bytes = sum(each.st_size for each in stats)
                found[name] = SiteFile(sources, size_bytes, max(each.st_mtime_ns for each in stats))
    return found


def _known_hosts(paths: Paths) -> tuple[str, ...]:
    return tuple(
        path for path in (os.path.expanduser(USER_KNOWN_HOSTS), paths.known_hosts) if os.path.exists(path)
    )


def _trees(paths: Paths) -> Iterator[tuple[str, str]]:
    """Yield the packed trees. The digest of a tree comes after the tree, because its presence makes the tree valid."""
    for folder, _, names in os.walk(paths.trees):
        for name in sorted(names):
            relative = os.path.relpath(os.path.join(folder, name), paths.home)
            if _ALLOWED.fullmatch(relative):
                yield relative, os.path.join(folder, name)


def changed(
    wanted: Mapping[str, SiteFile], present: Mapping[str, tuple[int, int]]
) -> tuple[list[str], list[str]]:
    """Return the files to send and the files to remove. `present` has size and time of the standby's files."""
    send = [name for name, file in wanted.items() if present.get(name) != (file.size_bytes, file.mtime_ns)]
    return send, [name for name in present if name not in wanted]


def pieces(name: str, file: SiteFile) -> Iterator[FilePiece]:
    """Yield a file in pieces. Raises OSError."""
    is_first = True
    for source in file.sources:
        with open(source, "rb") as opened:
            while data := opened.read(PIECE_BYTES):
                yield FilePiece(path=name, data=data, is_first=is_first, is_last=False, mtime_ns=0)
                is_first = False
    yield FilePiece(path=name, data=b"", is_first=is_first, is_last=True, mtime_ns=file.mtime_ns)


class Folder:
    """The files of a standby's home."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._descriptor = -1

    def present(self) -> dict[str, tuple[int, int]]:
        """Return size and time of each copied file."""
        found = {}
        for folder, _, names in os.walk(self._home):
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self._home)
                if _ALLOWED.fullmatch(relative):
                    about = os.stat(path)
                    found[relative] = (about.st_size, about.st_mtime_ns)
        return found

    def write(self, piece: FilePiece) -> None:
        """Write the next piece of a file. Raises StoreError."""
        path = self._path(piece.path)
        temporary = path + ".part"
        try:
            if piece.is_first:
                self.close()
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
                self._descriptor = os.open(temporary, flags, 0o600)
            view = memoryview(piece.data)
            while view:
                view = view[os.write(self._descriptor, view) :]
            if piece.is_last:
                os.fsync(self._descriptor)
                os.utime(self._descriptor, ns=(piece.mtime_ns, piece.mtime_ns))
                self.close()
                os.replace(temporary, path)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {os.strerror(error.errno or 0)}") from error

    def remove(self, name: str) -> None:
        """Remove a file. Raises StoreError."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _path(self, name: str) -> str:
        if not _ALLOWED.fullmatch(name):
            raise StoreError(f"{name!r} is no file of a standby")
        return os.path.join(self._home, name)


def gone(name: str) -> FileGone:
    """Return the message that a file is gone."""
    return FileGone(path=name)
