"""Packed code snapshots uploaded by users, in trees/<uid>/<tree>.tar.gz.

Each user has a separate folder, so one user's upload never reaches another user's job.
"""

from __future__ import annotations

import hashlib
import os
import re

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Snapshot
from warpdeck.ports.ports import PackedTree

MAX_TREE_BYTES = 1024 * 1024 * 1024
"""Maximum size of a packed snapshot."""
_TREE = re.compile(r"[0-9a-f]{40,64}")


class TreeFiles:
    """The `TreeCache` of ports.ports, in files on disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

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

    def uploaded(self, uid: int, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the digest and size of this user's own upload.

        A digest or size given by the user is ignored. Raises UserError if it was not uploaded.
        """
        found = self.find(uid, snapshot.tree)
        if found is None:
            raise UserError("the code snapshot was not uploaded", "submit again", code="need_tree")
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
        return Receiving(path, sha256=sha256, size_bytes=size_bytes)


class Receiving:
    """An upload in progress."""

    def __init__(self, path: str, *, sha256: str, size_bytes: int) -> None:
        self._path = path
        self._sha256 = sha256
        self._size_bytes = size_bytes
        self._digest = hashlib.sha256()
        self._received = 0
        self._temporary = f"{path}.{os.urandom(4).hex()}.part"
        self._descriptor = os.open(
            self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )

    def write(self, data: bytes) -> None:
        """Append the next bytes. Raises UserError if the upload gets too long or cannot be stored."""
        self._received += len(data)
        if self._received > self._size_bytes:
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
        if self._received != self._size_bytes or self._digest.hexdigest() != self._sha256:
            os.unlink(self._temporary)
            raise UserError("the snapshot arrived damaged", "submit again")
        os.replace(self._temporary, self._path)
        with open(self._temporary, "w", encoding="ascii") as file:
            file.write(self._sha256)
        os.replace(self._temporary, self._path + ".sha256")

    def abandon(self) -> None:
        """Discard an unfinished upload with its temporary file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            os.unlink(self._temporary)
