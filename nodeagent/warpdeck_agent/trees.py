"""Packed snapshots: received, verified against their digest, and checked out into work folders."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tarfile
import tempfile
import zlib
from typing import List

from .spool import write_all

MAX_TREE_BYTES = 2 * 1024 * 1024 * 1024
"""The largest packed snapshot accepted."""


FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
COPY_BYTES = 1 << 20


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
        target = self.empty(workspace, uid=uid, gid=gid)
        try:
            with tarfile.open(self.path(sha256), "r:gz") as archive:
                Checkout(target, uid=uid, gid=gid).extract(archive)
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise TreeError(f"the snapshot cannot be unpacked: {error}") from error
        return target

    def empty(self, workspace: str, *, uid: int, gid: int) -> str:
        """The workspace's folder, made if need be: all there is for a job whose submit folder is not on this node."""
        target = self.work_dir(workspace)
        os.makedirs(target, mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(target, uid, gid, follow_symlinks=False)
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
        self._descriptor, self._part = tempfile.mkstemp(suffix=".part", dir=os.path.dirname(self._final))

    def write(self, data: bytes) -> None:
        """The next bytes. Raises TreeError over the announced size, OSError where the disk is full."""
        self._received += len(data)
        if self._received > self._size_bytes:
            raise TreeError("a snapshot longer than announced")
        self._digest.update(data)
        write_all(self._descriptor, data)

    def finish(self) -> None:
        """Verifies and keeps it. Raises TreeError."""
        if self._received != self._size_bytes or self._digest.hexdigest() != self._sha256:
            self.abandon()
            raise TreeError("the snapshot arrived damaged")
        os.close(self._descriptor)
        os.replace(self._part, self._final)

    def abandon(self) -> None:
        """Lets it go half-way."""
        os.close(self._descriptor)
        os.unlink(self._part)


class Checkout:
    """A tree on its way into a work folder, which is the user's and may change under our hands.

    Every step starts from an open folder and follows no link, so that a root agent can be led nowhere else.
    """

    def __init__(self, target: str, *, uid: int, gid: int) -> None:
        self._top = os.open(target, FOLDER_FLAGS)
        self._uid, self._gid = uid, gid

    def extract(self, archive: tarfile.TarFile) -> None:
        """Folders, plain files and links only, never outside the folder. Raises TreeError, OSError."""
        try:
            for member in archive:
                self._take(archive, member)
        finally:
            os.close(self._top)

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if member.name.startswith("/") or ".." in parts:
            raise TreeError(f"the snapshot holds a path that leads outside: {member.name}")
        if not parts:
            return
        folder = self._enter(parts[:-1], member.name)
        try:
            if member.isdir():
                self._make_folder(parts[-1], folder)
            elif member.issym():
                _unlink(parts[-1], folder)
                os.symlink(member.linkname, parts[-1], dir_fd=folder)
            elif member.isfile():
                self._write(archive, member, parts[-1], folder)
            else:
                raise TreeError(
                    f"the snapshot holds something that is no file, folder or link: {member.name}"
                )
        finally:
            os.close(folder)

    def _enter(self, parts: List[str], name: str) -> int:
        """The open folder below the top. Raises TreeError where a link is on the way."""
        folder = os.dup(self._top)
        for part in parts:
            try:
                below = os.open(part, FOLDER_FLAGS, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise TreeError(f"the snapshot leads through a link: {name}") from error
                raise
            finally:
                os.close(folder)
            folder = below
        return folder

    def _make_folder(self, name: str, folder: int) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
        made = os.open(name, FOLDER_FLAGS, dir_fd=folder)
        self._own(made)
        os.close(made)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, folder: int) -> None:
        _unlink(name, folder)
        mode = 0o755 if member.mode & 0o100 else 0o644
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
        source = archive.extractfile(member)
        assert source is not None
        with source, os.fdopen(descriptor, "wb") as file:
            self._own(descriptor)
            shutil.copyfileobj(source, file, COPY_BYTES)

    def _own(self, descriptor: int) -> None:
        if os.geteuid() == 0:
            os.fchown(descriptor, self._uid, self._gid)


def _unlink(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
