"""Packed snapshots, and the work folders for unpacking them (see `checkouts`).

Snapshots are received from the controller and verified against their digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from typing import Collection

from warpdeck_agent.storage.spool import write_all

MAX_TREE_BYTES = 2 * 1024 * 1024 * 1024
"""The largest packed snapshot accepted."""

KEPT_S = 86_400.0
"""How long a packed tree is kept after a launch last needed it, in seconds. Tasks of an array come one after another."""


class TreeError(Exception):
    """A snapshot that cannot be used, described in one sentence."""


class TreeStore:
    """The folders D/trees and D/work."""

    def __init__(self, agent_dir: str) -> None:
        self._trees = os.path.join(agent_dir, "trees")
        self._work = os.path.join(agent_dir, "work")

    def path(self, sha256: str) -> str:
        """Return the path of a packed tree. Raises TreeError for an invalid digest."""
        if not sha256.isalnum():
            raise TreeError("the snapshot's digest has invalid characters")
        return os.path.join(self._trees, sha256 + ".tar.gz")

    def has(self, sha256: str) -> bool:
        """Return whether the tree is here, and note its use."""
        try:
            os.utime(self.path(sha256))
        except FileNotFoundError:
            return False
        return True

    def clean(self, in_use: Collection[str], *, now_unix: float) -> None:
        """Remove packed trees and unfinished uploads that were not used for KEPT_S.

        `in_use` are the digests of trees that launches still have to unpack. A later launch asks the controller again.
        """
        for entry in os.scandir(self._trees):
            if entry.name.partition(".")[0] in in_use:
                continue
            with contextlib.suppress(FileNotFoundError):
                if now_unix - entry.stat(follow_symlinks=False).st_mtime > KEPT_S:
                    os.unlink(entry.path)

    def work_dir(self, workspace: str) -> str:
        """Return the folder of a workspace. Raises TreeError for an invalid name."""
        if not workspace or not workspace.replace("-", "").isalnum():
            raise TreeError("the name of the workspace has invalid characters")
        return os.path.join(self._work, workspace)

    def empty(self, workspace: str, *, uid: int, gid: int) -> str:
        """Return the workspace's folder, created if necessary.

        A job runs in it if it has no tree, and its submit folder does not exist on this node.
        """
        target = self.work_dir(workspace)
        os.makedirs(target, mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(target, uid, gid, follow_symlinks=False)
        return target


class Upload:
    """A packed tree that is being uploaded."""

    def __init__(self, store: TreeStore, sha256: str, size_bytes: int) -> None:
        if size_bytes > MAX_TREE_BYTES:
            raise TreeError(f"the snapshot has {size_bytes} bytes; the limit is {MAX_TREE_BYTES}")
        self._final = store.path(sha256)
        self._sha256 = sha256
        self._size_bytes = size_bytes
        self._digest = hashlib.sha256()
        self._received = 0
        self._descriptor, self._part = tempfile.mkstemp(suffix=".part", dir=os.path.dirname(self._final))

    def write(self, data: bytes) -> None:
        """Add the next bytes.

        Raises TreeError if the tree exceeds the announced size, OSError if the disk is full.
        """
        self._received += len(data)
        if self._received > self._size_bytes:
            raise TreeError("the snapshot is longer than announced")
        self._digest.update(data)
        write_all(self._descriptor, data)

    def finish(self) -> None:
        """Verify and keep the tree. Raises TreeError if it is damaged."""
        if self._received != self._size_bytes or self._digest.hexdigest() != self._sha256:
            self.abandon()
            raise TreeError("the snapshot was damaged on its way to the node")
        os.close(self._descriptor)
        os.replace(self._part, self._final)

    def abandon(self) -> None:
        """Abort the upload and remove the partial file."""
        os.close(self._descriptor)
        os.unlink(self._part)
