"""A pool of cgroups of ended launches, for later launches with the same settings.

Creating and configuring one costs the kernel more than a fork. It works only in cgroup v1, where a cgroup can
be renamed and its counters can be reset. A cgroup is kept if it is as good as new: no process is in it or
below it, no memory is charged to it any more, and no process in it was killed for lack of memory. It keeps
the path of the ended launch until the next launch takes it. A process that knows this path sees an empty
cgroup, which then disappears.
"""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

from warpdeck_agent.linux.procfs import text, write

from .launch_cgroups import CgroupUsage, has

Settings = Tuple[object, ...]
"""The settings of a cgroup and its hierarchy. Cgroups with equal settings are interchangeable."""
MOST = 64
"""The most cgroups that are kept: a node with many CPUs runs about as many short jobs at once. Each takes
some ten kilobytes in the kernel.
"""
CHARGED_BYTES = 1 << 20
"""The kernel keeps some charged pages per CPU in reserve. More than this is page cache of the previous
launch.
"""
NEW_LINKS = 2
"""Number of links of the folder of a cgroup without children."""


class CgroupPool:
    """The pool of one node."""

    def __init__(self) -> None:
        self._settings_of: Dict[str, Settings] = {}
        self._kept: Dict[Settings, List[str]] = {}
        self._size = 0
        self._entered: List[str] = []
        """Cgroups that a process entered after their launch had ended."""

    def register(self, path: str, settings: Settings) -> None:
        """Record a new cgroup with its settings."""
        self._settings_of[path] = settings

    def knows(self, path: str) -> bool:
        """Return whether the cgroup may be kept."""
        return path in self._settings_of

    def forget(self, path: str) -> None:
        """Forget a cgroup that is removed with its launch."""
        self._settings_of.pop(path, None)

    def take(self, path: str, settings: Settings) -> bool:
        """Rename a kept cgroup to `path`. Returns False if there is none."""
        kept = self._kept.get(settings)
        while kept:
            self._size -= 1
            before = kept.pop()
            if not renamed(before, path):
                continue
            if _is_empty(path):
                self._settings_of[path] = settings
                return True
            renamed(path, before)  # A process that entered it late stays there alone.
            self._entered.append(before)
        return False

    def keep(self, path: str, used: CgroupUsage) -> bool:
        """Keep the cgroup of an ended launch for another one, unless its launch has left something in it.

        No process may run in it. `used` is the usage in it. Returns whether it was kept.
        """
        settings = self._settings_of.pop(path, None)
        if settings is None or self._size >= MOST or not _is_as_new(path, used):
            return False
        self._kept.setdefault(settings, []).append(path)
        self._size += 1
        return True

    def clear(self) -> List[str]:
        """Empty the pool and return its cgroups."""
        kept = [path for paths in self._kept.values() for path in paths] + self._entered
        self._kept.clear()
        self._entered.clear()
        self._size = 0
        return kept


def renamed(path: str, to: str) -> bool:
    """Rename a folder. Returns False if that fails."""
    try:
        os.rename(path, to)
    except OSError:
        return False
    return True


def _is_empty(path: str) -> bool:
    """Return whether no process and no child is in the cgroup.

    This is checked after the rename. No process of the old launch knows the new path, so the cgroup stays empty.
    """
    try:
        return os.stat(path).st_nlink == NEW_LINKS and not text(f"{path}/cgroup.procs")
    except OSError:
        return False


def _is_as_new(path: str, used: CgroupUsage) -> bool:
    """Reset the counters of the cgroup. Return False if the kernel did not allow it."""
    try:
        return _reset_memory(path, used) and _reset_cpu(path)
    except OSError:
        return False


def _reset_memory(path: str, used: CgroupUsage) -> bool:
    if not has(path, "memory.usage_in_bytes"):
        return True  # the cgroup of another controller
    if used.oom_kills or used.left_mem_bytes > CHARGED_BYTES:
        return False
    write(f"{path}/memory.max_usage_in_bytes", "0")
    return True


def _reset_cpu(path: str) -> bool:
    if has(path, "cpuacct.usage"):
        write(f"{path}/cpuacct.usage", "0")
    return True
