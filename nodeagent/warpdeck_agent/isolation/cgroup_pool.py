"""Groups of ended launches, kept for the next that wants the same: making and setting one anew costs the kernel more than a fork.

Only in cgroup v1, where a group can be renamed and its counts be set to zero. A group is kept if it is as if it were new:
nothing runs in it or below it, nothing is charged to it any more, nothing in it was killed for its memory. It has the path of
the launch that has ended until the next one takes it: who has that path sees it empty, and then gone.
"""

from __future__ import annotations

import os
from typing import Dict, List, Tuple

from warpdeck_agent.linux.procfs import text, write

from .launch_cgroups import Usage, has

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
        self._entered: List[str] = []
        """Those that somebody came into when their launch had ended."""

    def made(self, path: str, settings: Settings) -> None:
        """A group that was made and has these settings."""
        self._settings[path] = settings

    def knows(self, path: str) -> bool:
        """Whether the group might be kept."""
        return path in self._settings

    def forget(self, path: str) -> None:
        """The group goes with its launch."""
        self._settings.pop(path, None)

    def take(self, path: str, settings: Settings) -> bool:
        """Gives a kept group that path; False if there is none."""
        kept = self._kept.get(settings)
        while kept:
            self._size -= 1
            before = kept.pop()
            if not renamed(before, path):
                continue
            if _is_empty(path):
                self._settings[path] = settings
                return True
            renamed(path, before)  # whoever came in late stays where they are, and alone
            self._entered.append(before)
        return False

    def keep(self, path: str, used: Usage) -> bool:
        """Takes back an ended launch's group in which nothing runs, if it is as good as new otherwise. `used`: in it."""
        settings = self._settings.pop(path, None)
        if settings is None or self._size >= MOST or not _is_as_new(path, used):
            return False
        self._kept.setdefault(settings, []).append(path)
        self._size += 1
        return True

    def clear(self) -> List[str]:
        """Keeps none any more; the groups that were kept."""
        kept = [path for paths in self._kept.values() for path in paths] + self._entered
        self._kept.clear()
        self._entered.clear()
        self._size = 0
        return kept


def renamed(path: str, to: str) -> bool:
    """Gives a folder another path; False where that cannot be."""
    try:
        os.rename(path, to)
    except OSError:
        return False
    return True


def _is_empty(path: str) -> bool:
    """Nothing is in it or below it: once nobody knows its path any more, so that it stays so."""
    try:
        return os.stat(path).st_nlink == NEW_LINKS and not text(f"{path}/cgroup.procs")
    except OSError:
        return False


def _is_as_new(path: str, used: Usage) -> bool:
    """Its limits are those that were set, and its counts begin at zero again."""
    try:
        return _reset_memory(path, used) and _reset_cpu(path)
    except OSError:
        return False


def _reset_memory(path: str, used: Usage) -> bool:
    if not has(path, "memory.usage_in_bytes"):
        return True  # another controller's
    if used.oom_kills or used.left_mem_bytes > CHARGED_BYTES:
        return False
    write(f"{path}/memory.max_usage_in_bytes", "0")
    return True


def _reset_cpu(path: str) -> bool:
    if has(path, "cpuacct.usage"):
        write(f"{path}/cpuacct.usage", "0")
    return True
