"""Packed code snapshots uploaded by users, in trees/<uid>/<tree>.tar.gz.

Each user has a separate folder, so one user's upload never reaches another user's job.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Snapshot
from warpdeck.ports.ports import PackedTree

MAX_TREE_BYTES = 1024 * 1024 * 1024
"""Maximum size of a packed snapshot."""
_TREE = re.compile(r"[0-9a-f]{40,64}")


PART = ".part"
"""End of the name of an unfinished upload."""


class StoredTree(NamedTuple):
    """A stored snapshot of a user, and the time when it was uploaded or submitted last."""

    tree: str
    size_bytes: int
    used_unix: float


class TreeFiles:
    """The `TreeCache` of ports.ports, in files on disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._receiving: set[Receiving] = set()

    def path(self, uid: int, tree: str) -> str:
        """Return the path of a snapshot. Raises UserError for an invalid tree id."""
        if not _TREE.fullmatch(tree):
            raise UserError("the snapshot has an invalid id", "submit again")
        return os.path.join(self._folder, str(uid), tree + ".tar.gz")

    def find(self, uid: int, tree: str) -> PackedTree | None:
        path = self.path(uid, tree)
        try:
            with open(path + ".sha256", encoding="ascii") as file:
                digest = file.read().strip()
            return PackedTree(tree=tree, sha256=digest, size_bytes=os.path.getsize(path), path=path)
        except FileNotFoundError:
            return None

    def users(self) -> list[int]:
        """Return the users that have stored snapshots."""
        try:
            return sorted(int(name) for name in os.listdir(self._folder) if name.isdecimal())
        except FileNotFoundError:
            return []

    def stored(self, uid: int) -> list[StoredTree]:
        """Return all stored snapshots of a user."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(os.path.join(self._folder, str(uid))):
                tree, _, rest = entry.name.partition(".")
                if rest != "tar.gz" or not _TREE.fullmatch(tree):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    found.append(StoredTree(tree, status.st_size, status.st_mtime))
        return found

    def remove(self, uid: int, tree: str) -> None:
        """Remove a snapshot, if it is stored."""
        path = self.path(uid, tree)
        # The digest goes first, because `find` regards a tree without it as missing.
        for name in (path + ".sha256", path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)

    def remove_partial(self) -> None:
        """Remove uploads that a killed controller left unfinished. No upload may be in progress."""
        for uid in self.users():
            folder = os.path.join(self._folder, str(uid))
            for name in os.listdir(folder):
                if name.endswith(PART):
                    os.unlink(os.path.join(folder, name))

    def uploaded(self, uid: int, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the digest and size of this user's own upload.

        A digest or size given by the user is ignored. Raises UserError if it was not uploaded.
        """
        found = self.find(uid, snapshot.tree)
        if found is None:
            raise UserError("the code snapshot was not uploaded", "submit again", code="need_tree")
        os.utime(found.path)
        return msgspec.structs.replace(snapshot, sha256=found.sha256, size_bytes=found.size_bytes)

    def receive(self, uid: int, tree: str, *, sha256: str, size_bytes: int) -> Receiving:
        """Begin an upload. Raises UserError if the announced size is not allowed."""
        if not 0 < size_bytes <= MAX_TREE_BYTES:
            raise UserError(
                f"the snapshot has {size_bytes:,} bytes; the limit is {MAX_TREE_BYTES:,}",
                "add large files to .gitignore",
            )
        path = self.path(uid, tree)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        upload = Receiving(
            path, uid=uid, sha256=sha256, size_bytes=size_bytes, on_end=self._receiving.discard
        )
        self._receiving.add(upload)
        return upload

    def announced_sizes(self, uid: int) -> list[int]:
        """Return the sizes of the uploads of a user that are in progress."""
        return [each.size_bytes for each in self._receiving if each.uid == uid]


class Receiving:
    """An upload in progress."""

    def __init__(
        self, path: str, *, uid: int, sha256: str, size_bytes: int, on_end: Callable[[Receiving], None]
    ) -> None:
        self.uid = uid
        self.size_bytes = size_bytes
        self._path = path
        self._sha256 = sha256
        self._on_end = on_end
        self._digest = hashlib.sha256()
        self._received = 0
        self._temporary = f"{path}.{os.urandom(4).hex()}{PART}"
        self._descriptor = os.open(
            self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )

    def write(self, data: bytes) -> None:
        """Append the next bytes. Raises UserError if the upload gets too long or cannot be stored."""
        self._received += len(data)
        if self._received > self.size_bytes:
            raise UserError("the snapshot is larger than announced", "submit again")
        self._digest.update(data)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise UserError(
                f"cannot store the snapshot: {os.strerror(error.errno or 0)}", "free some space"
            ) from error

    def finish(self) -> None:
        """Verify the upload and store it. Raises UserError if it arrived damaged."""
        os.close(self._descriptor)
        self._descriptor = -1
        self._on_end(self)
        if self._received != self.size_bytes or self._digest.hexdigest() != self._sha256:
            os.unlink(self._temporary)
            raise UserError("the snapshot arrived damaged", "submit again")
        os.replace(self._temporary, self._path)
        with open(self._temporary, "w", encoding="ascii") as file:
            file.write(self._sha256)
        os.replace(self._temporary, self._path + ".sha256")

    def abandon(self) -> None:
        """Discard an unfinished upload with its temporary file."""
        self._on_end(self)
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            os.unlink(self._temporary)
