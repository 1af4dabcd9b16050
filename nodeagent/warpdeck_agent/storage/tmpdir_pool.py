"""TMPDIRs that their launch has not touched, for the next launch of the same user: to make and remove one is a tenth of a short job.

Only while launches follow each other closely, and for about a second: whoever looks after that finds none. A folder has the
name of its launch as long as that lives, and another before the next begins.
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
"""Launches that follow each other more closely than this are short ones, such as an array's."""
MOST = 64
"""Folders that are kept for one user: a node of many CPUs runs so many short jobs at once."""
MOST_KNOWN = 1024
"""Folders of which it is known how they were made; of launches that ended in another way nobody asks any more."""
RANDOM_BYTES = 8
MODE = 0o700
"""Of a launch's folder."""
Owner = Tuple[str, int, int]
"""(folder above it, uid, gid): whom a folder is as good as a new one for."""


class SpareDirs:
    """`prefix`: what their names begin with. `keep` and `drop` may run in any thread."""

    def __init__(self, prefix: str, *, close_s: float = CLOSE_S) -> None:
        self._prefix = prefix
        self._close_s = close_s
        self._taken_at = -close_s
        self._are_close = False
        self._made: Dict[str, Tuple[Owner, int]] = {}
        """By path: whose, and when it was changed last."""
        self._kept: Dict[Owner, List[str]] = {}
        self._lock = threading.Lock()

    def take(self, path: str, owner: Owner) -> bool:
        """Gives a kept folder that path; False if there is none."""
        now = time.monotonic()
        self._are_close, self._taken_at = now - self._taken_at < self._close_s, now
        with self._lock:
            kept = self._kept.get(owner)
            spare = kept.pop() if kept else ""
        return bool(spare) and renamed(spare, path)

    def made(self, path: str, owner: Owner) -> None:
        """A folder that is empty and begins its life for a launch."""
        if self._are_close:
            if len(self._made) >= MOST_KNOWN:
                self._made.clear()
            self._made[path] = owner, os.lstat(path).st_ctime_ns

    def keep(self, path: str) -> bool:
        """Takes back an ended launch's folder, if that has not touched it; then its path is gone.

        No file that came or went leaves a folder's ctime as it was, but within a tick of the clock: so it is looked at, too.
        """
        owner, changed_ns = self._made.pop(path, (None, 0))
        if owner is None or not self._are_close or not _is_untouched(path, changed_ns):
            return False
        spare = f"{owner[0]}/{self._prefix}spare-{secrets.token_hex(RANDOM_BYTES)}"
        with self._lock:
            kept = self._kept.setdefault(owner, [])
            if len(kept) >= MOST or not renamed(path, spare):
                return False
            kept.append(spare)
            return True

    def drop(self) -> List[str]:
        """Keeps none any more; those that were kept."""
        with self._lock:
            dropped, self._kept = self._kept, {}
        return [path for kept in dropped.values() for path in kept]


def _is_untouched(path: str, changed_ns: int) -> bool:
    """A file system that somebody has mounted over it is not asked."""
    try:
        with opened(os.path.dirname(path)) as above:
            folder = os.open(os.path.basename(path), FOLDER, dir_fd=above)
            try:
                if mount_of(folder) != mount_of(above):
                    return False
                found = os.fstat(folder)
                same = found.st_mode == stat.S_IFDIR | MODE and found.st_ctime_ns == changed_ns
                return same and not os.listdir(f"/proc/self/fd/{folder}")
            finally:
                os.close(folder)
    except OSError:
        return False
