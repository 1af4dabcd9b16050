"""Packed snapshots that users uploaded, in trees/<uid>/<tree>.tar.gz: one user's upload never reaches another's job."""

from __future__ import annotations

import hashlib
import os
import re

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Snapshot
from warpdeck.ports.ports import PackedTree

MAX_TREE_BYTES = 1024 * 1024 * 1024
"""The largest packed snapshot taken."""
_TREE = re.compile(r"[0-9a-f]{40,64}")


class TreeFiles:
    """controller.ports.TreeCache on disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def path(self, uid: int, tree: str) -> str:
        """Where it lies. Raises UserError for what is no tree id."""
        if not _TREE.fullmatch(tree):
            raise UserError("a snapshot with a strange id", "take it anew")
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
        """The snapshot with the digest of this user's own upload, whatever the user says of it. Raises UserError."""
        found = self.find(uid, snapshot.tree)
        if found is None:
            raise UserError("the code snapshot was not uploaded", "submit again", code="need_tree")
        return msgspec.structs.replace(snapshot, sha256=found.sha256, size_bytes=found.size_bytes)

    def receive(self, uid: int, tree: str, *, sha256: str, size_bytes: int) -> Receiving:
        """Begins an upload. Raises UserError."""
        if not 0 < size_bytes <= MAX_TREE_BYTES:
            raise UserError(
                f"a snapshot of {size_bytes:,} bytes", f"the limit is {MAX_TREE_BYTES:,}; ignore large files"
            )
        path = self.path(uid, tree)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return Receiving(path, sha256=sha256, size_bytes=size_bytes)


class Receiving:
    """An upload on its way in."""

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
        """The next bytes. Raises UserError."""
        self._received += len(data)
        if self._received > self._size_bytes:
            raise UserError("a snapshot longer than announced", "take it anew")
        self._digest.update(data)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise UserError(
                f"cannot keep the snapshot: {os.strerror(error.errno or 0)}", "free some space"
            ) from error

    def finish(self) -> None:
        """Verifies and keeps it. Raises UserError."""
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
        """Leaves nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            os.unlink(self._temporary)
