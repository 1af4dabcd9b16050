"""A pool of unused TMPDIRs for the next launch of the same user.

Creating and removing one takes a tenth of a short job's time. Folders are only kept while launches follow
each other closely, and for about a second. A folder has the name of its launch while that runs, and a new
name before the next launch begins.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
import time
from typing import Dict, List, Tuple

from warpdeck_agent.isolation.cgroup_pool import renamed
from warpdeck_agent.linux.mounts import mount_of
from warpdeck_agent.linux.safe_paths import FOLDER, opened

CLOSE_S = 0.02
"""If launches follow each other more closely than this, in seconds, they are short ones, for example of an
array.
"""
MOST = 64
"""The most folders that are kept for one user: a node with many CPUs runs about as many short jobs at
once.
"""
MOST_KNOWN = 1024
"""The most folders that are remembered as created. Entries of folders that are not given back are never looked
up.
"""
RANDOM_BYTES = 8
MODE = 0o700
"""Mode of a launch's folder."""
Owner = Tuple[str, int, int]
"""(parent folder, uid, gid). A spare folder fits launches with the same values."""


class TmpdirPool:
    """The pool. `prefix` begins the names of its folders. `keep` and `drop` may run in any thread."""

    def __init__(self, prefix: str, *, close_s: float = CLOSE_S) -> None:
        self._prefix = prefix
        self._close_s = close_s
        self._taken_at = -close_s
        self._are_close = False
        self._made: Dict[str, Tuple[Owner, int]] = {}
        """By path: the owner, and the time of the last change."""
        self._kept: Dict[Owner, List[str]] = {}
        self._lock = threading.Lock()

    def take(self, path: str, owner: Owner) -> bool:
        """Rename a kept folder to `path`. Returns False if there is none."""
        now = time.monotonic()
        self._are_close, self._taken_at = now - self._taken_at < self._close_s, now
        with self._lock:
            kept = self._kept.get(owner)
            pooled_path = kept.pop() if kept else ""
        return bool(pooled_path) and renamed(pooled_path, path)

    def register(self, path: str, owner: Owner) -> None:
        """Record an empty folder that a launch will use."""
        if self._are_close:
            if len(self._made) >= MOST_KNOWN:
                self._made.clear()
            self._made[path] = owner, os.lstat(path).st_ctime_ns

    def keep(self, path: str) -> bool:
        """Take back an ended launch's folder if it is untouched.

        Returns whether it was taken; its path is gone then. Every added or removed file changes a folder's
        ctime, except within one tick of the clock. So the folder's content is checked too.
        """
        owner, changed_ns = self._made.pop(path, (None, 0))
        if owner is None or not self._are_close or not _is_untouched(path, changed_ns):
            return False
        pooled_path = f"{owner[0]}/{self._prefix}spare-{secrets.token_hex(RANDOM_BYTES)}"
        with self._lock:
            kept = self._kept.setdefault(owner, [])
            if len(kept) >= MOST or not renamed(path, pooled_path):
                return False
            kept.append(pooled_path)
            return True

    def drop(self) -> List[str]:
        """Empty the pool and return the kept folders."""
        with self._lock:
            dropped, self._kept = self._kept, {}
        return [path for kept in dropped.values() for path in kept]


def _is_untouched(path: str, changed_ns: int) -> bool:
    """Return whether the folder is empty and unchanged.

    A file system that is mounted over it is not accessed.
    """
    try:
        with opened(os.path.dirname(path)) as parent:
            folder = os.open(os.path.basename(path), FOLDER, dir_fd=parent)
            try:
                if mount_of(folder) != mount_of(parent):
                    return False
                found = os.fstat(folder)
                same = found.st_mode == stat.S_IFDIR | MODE and found.st_ctime_ns == changed_ns
                return same and not os.listdir(f"/proc/self/fd/{folder}")
            finally:
                os.close(folder)
    except OSError:
        return False
