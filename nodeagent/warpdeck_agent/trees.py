"""Packed snapshots: received, verified against their digest, and checked out into work folders."""

from __future__ import annotations

import hashlib
import os
import tarfile
from typing import BinaryIO, List, Optional

MAX_TREE_BYTES = 2 * 1024 * 1024 * 1024
"""The largest packed snapshot accepted."""


class TreeError(Exception):
    """A snapshot that cannot be used, in one sentence."""


class TreeStore:
    """D/trees and D/work."""

    def __init__(self, agent_dir: str) -> None:
        self._trees = os.path.join(agent_dir, "trees")
        self._work = os.path.join(agent_dir, "work")

    def path(self, sha256: str) -> str:
        """Where a packed tree lies."""
        if not sha256.isalnum():
            raise TreeError("a snapshot digest with strange characters")
        return os.path.join(self._trees, sha256 + ".tar.gz")

    def has(self, sha256: str) -> bool:
        return os.path.exists(self.path(sha256))

    def work_dir(self, workspace: str) -> str:
        """The folder of a workspace."""
        if not workspace or not workspace.replace("-", "").isalnum():
            raise TreeError("a workspace name with strange characters")
        return os.path.join(self._work, workspace)

    def check_out(self, sha256: str, workspace: str, *, uid: int, gid: int) -> str:
        """Extracts the tree over the workspace; what jobs wrote there besides stays. Returns the folder."""
        target = self.work_dir(workspace)
        os.makedirs(target, mode=0o700, exist_ok=True)
        _own(target, uid, gid)
        with tarfile.open(self.path(sha256), "r:gz") as archive:
            for member in archive:
                _extract(archive, member, target, uid=uid, gid=gid)
        return target

    def empty(self, workspace: str, *, uid: int, gid: int) -> str:
        """An empty work folder, for a job whose submit folder is not on this node."""
        target = self.work_dir(workspace)
        os.makedirs(target, mode=0o700, exist_ok=True)
        _own(target, uid, gid)
        return target


def link_ignored(root: str, target: str, names: List[str]) -> None:
    """Links entries that git ignores (data, environments) from the submit folder's root into the checkout."""
    for name in names:
        source, link = os.path.join(root, name), os.path.join(target, name)
        if os.path.basename(name) == name and os.path.lexists(source) and not os.path.lexists(link):
            os.symlink(source, link)


class Upload:
    """A packed tree on its way in."""

    def __init__(self, store: TreeStore, sha256: str, size_bytes: int) -> None:
        if size_bytes > MAX_TREE_BYTES:
            raise TreeError(f"a snapshot of {size_bytes} bytes is over the limit of {MAX_TREE_BYTES}")
        self._final = store.path(sha256)
        self._sha256 = sha256
        self._size_bytes = size_bytes
        self._digest = hashlib.sha256()
        self._received = 0
        self._file: Optional[BinaryIO] = open(self._final + ".part", "wb")

    def write(self, data: bytes) -> None:
        """The next bytes. Raises TreeError over the announced size, OSError where the disk is full."""
        self._received += len(data)
        if self._file is None or self._received > self._size_bytes:
            raise TreeError("a snapshot longer than announced")
        self._digest.update(data)
        self._file.write(data)

    def finish(self) -> None:
        """Verifies and keeps it. Raises TreeError."""
        self.close()
        if self._received != self._size_bytes or self._digest.hexdigest() != self._sha256:
            os.unlink(self._final + ".part")
            raise TreeError("the snapshot arrived damaged")
        os.replace(self._final + ".part", self._final)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str, *, uid: int, gid: int) -> None:
    """One member: folders, plain files and links only, never outside the target."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if member.name.startswith("/") or ".." in parts:
        raise TreeError(f"the snapshot holds a path that leads outside: {member.name}")
    if not parts:
        return
    path = os.path.join(target, *parts)
    parent = os.path.dirname(path)
    if os.path.realpath(parent) != os.path.join(os.path.realpath(target), *parts[:-1]):
        raise TreeError(f"the snapshot leads through a link: {member.name}")
    if member.isdir():
        os.makedirs(path, exist_ok=True)
    elif member.issym():
        _unlink(path)
        os.symlink(member.linkname, path)
    elif member.isfile():
        _unlink(path)
        source = archive.extractfile(member)
        assert source is not None
        mode = 0o755 if member.mode & 0o100 else 0o644
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with source, os.fdopen(descriptor, "wb") as file:
            while True:
                chunk = source.read(1 << 20)
                if not chunk:
                    break
                file.write(chunk)
    else:
        return
    _own(path, uid, gid)


def _unlink(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


def _own(path: str, uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.chown(path, uid, gid, follow_symlinks=False)
