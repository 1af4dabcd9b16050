"""The processes of jobs, found by the mark WARPDECK_JOB=<job>.<restarts> in their environment, and how to end them.

The mark is inherited, so daemons and setsid children are found too, unless they scrub their environment; with a cgroup
those are caught as well.
"""

from __future__ import annotations

import os
import re
import signal
from typing import Dict, Iterable, List, Optional, Tuple

MARK = b"WARPDECK_JOB="
MAX_ENVIRON_BYTES = 4 * 1024 * 1024
"""How much of a process's environment is searched."""
MAX_PARENTS = 64
"""How far up attribution looks."""


def mark_of(pid: int) -> str:
    """ "12.0" if the process belongs to that launch, "" if to none, or if it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            environ = file.read(MAX_ENVIRON_BYTES)
    except OSError:
        return ""
    found = re.search(rb"(?:^|\0)" + MARK + rb"([^\0]*)", environ)
    return found.group(1).decode("ascii", "replace") if found else ""


def marked() -> Dict[str, List[int]]:
    """All launches' processes, by mark: one walk over /proc."""
    found: Dict[str, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            mark = mark_of(int(name))
            if mark:
                found.setdefault(mark, []).append(int(name))
    return found


def attribute(pid: int) -> str:
    """The launch a process belongs to, by its own mark or that of its nearest marked parent."""
    for _ in range(MAX_PARENTS):
        if pid <= 1:
            return ""
        mark = mark_of(pid)
        if mark:
            return mark
        pid = parent_of(pid)
    return ""


def parent_of(pid: int) -> int:
    """The parent's pid, 0 if the process is gone."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def stat_fields(pid: int) -> Optional[List[str]]:
    """The fields of /proc/pid/stat from the state on; None if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def send(pids: Iterable[int], number: int, *, spare: Tuple[int, ...] = ()) -> int:
    """Sends the signal to each; how many took it."""
    taken = 0
    for pid in pids:
        if pid in spare or pid == os.getpid():
            continue
        try:
            os.kill(pid, number)
            taken += 1
        except (ProcessLookupError, PermissionError):
            continue
    return taken


def kill_cgroup(path: str) -> bool:
    """Ends every process of the group at once; False where the kernel cannot."""
    try:
        with open(os.path.join(path, "cgroup.kill"), "w", encoding="ascii") as file:
            file.write("1")
    except OSError:
        return False
    return True


def cgroup_pids(path: str) -> List[int]:
    """The processes in the group."""
    try:
        with open(os.path.join(path, "cgroup.procs"), encoding="ascii") as file:
            return [int(line) for line in file]
    except OSError:
        return []


def sweep(mark: str, cgroup: str, known: Optional[Dict[str, List[int]]] = None) -> int:
    """Kills whatever is left of an ended launch; how many there were. `known` is a walk made for several launches."""
    left = (known if known is not None else marked()).get(mark, [])
    if cgroup:
        left = sorted({*left, *cgroup_pids(cgroup)})
        if left:
            kill_cgroup(cgroup)
    return send(left, signal.SIGKILL)
