"""Groups of ended launches, kept for the next that wants the same: making and setting one anew costs the kernel more than a fork.

Only in cgroup v1, where a group can be renamed and its counts be set to zero. A group is kept if it is as if it were new:
nothing runs in it or below it, nothing is charged to it any more, nothing in it was killed for its memory. Who has a launch's
path sees it gone either way.
"""

from __future__ import annotations

import itertools
import os
from typing import Dict, List, Tuple

from .groups import has
from .procfs import number, table, text, write

Settings = Tuple[object, ...]
"""What a group was set to, and in which hierarchy: groups of equal settings are as good as each other."""
MOST = 64
"""Groups that are kept: a node of many CPUs runs so many short jobs at once. The kernel has some ten kilobytes for each."""
CHARGED_BYTES = 1 << 20
"""The kernel keeps some pages of a group's charge on each CPU in stock; more than this is file pages of the one before."""
NEW_LINKS = 2
"""Of a group's folder without groups below it."""


class Spares:
    """Of one node."""

    def __init__(self) -> None:
        self._settings: Dict[str, Settings] = {}
        self._kept: Dict[Settings, List[str]] = {}
        self._size = 0
        self._numbers = itertools.count(1)

    def made(self, path: str, settings: Settings) -> None:
        """A group that was made and has these settings."""
        self._settings[path] = settings

    def knows(self, path: str) -> bool:
        """Whether the group might be kept."""
        return path in self._settings

    def take(self, path: str, settings: Settings) -> bool:
        """Gives a kept group that path; False if there is none."""
        kept = self._kept.get(settings)
        while kept:
            self._size -= 1
            if renamed(kept.pop(), path):
                self._settings[path] = settings
                return True
        return False

    def keep(self, path: str) -> bool:
        """Takes back an ended launch's group, if it is as good as new; then its path is gone."""
        settings = self._settings.pop(path, None)
        if settings is None or self._size >= MOST or not _is_as_new(path):
            return False
        spare = os.path.join(os.path.dirname(path), f"spare-{next(self._numbers)}")
        if not renamed(path, spare):
            return False
        self._kept.setdefault(settings, []).append(spare)
        self._size += 1
        return True

    def clear(self) -> List[str]:
        """Keeps none any more; the groups that were kept."""
        kept = [path for paths in self._kept.values() for path in paths]
        self._kept.clear()
        self._size = 0
        return kept


def renamed(path: str, to: str) -> bool:
    """Gives a folder another path; False where that cannot be."""
    try:
        os.rename(path, to)
    except OSError:
        return False
    return True


def _is_as_new(path: str) -> bool:
    """Nothing is in it, and its counts begin at zero again."""
    try:
        if os.stat(path).st_nlink != NEW_LINKS or text(f"{path}/cgroup.procs"):
            return False
        if has(path, "pids.max") and text(f"{path}/pids.max") == "0":
            return False  # it was closed, to end what forked in it
        return _reset_memory(path) and _reset_cpu(path)
    except OSError:
        return False


def _reset_memory(path: str) -> bool:
    if not has(path, "memory.usage_in_bytes"):
        return True  # another controller's
    killed = number(table(f"{path}/memory.oom_control").get("oom_kill", ""))
    if killed or number(text(f"{path}/memory.usage_in_bytes")) > CHARGED_BYTES:
        return False
    write(f"{path}/memory.max_usage_in_bytes", "0")
    return True


def _reset_cpu(path: str) -> bool:
    if has(path, "cpuacct.usage"):
        write(f"{path}/cpuacct.usage", "0")
    return True
