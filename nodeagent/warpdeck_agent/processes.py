"""The processes of jobs, found by the mark WARPDECK_JOB=<job>.<restarts>@<agent> in their environment, and how to end them.

The mark is inherited, so daemons and setsid children are found too, unless they scrub their environment; with a cgroup
those are caught as well. Job ids are one controller's own, and agents of several controllers (or of several hosts that
share a pid namespace) look over the same /proc: the agent's random identity keeps their jobs apart.
"""

from __future__ import annotations

import os
import pwd
import signal
import time
from typing import Dict, Iterable, List, Optional, Sequence

from . import groups
from .cputime import CpuTime
from .procfs import content, table, text

MARK = "WARPDECK_JOB"
DEAF = "WARPDECK_DEAF"
"""A variable of processes that only wait for another, which gets the job's signals itself."""
FOR_ALL = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)
LOOKS, LOOK_S = 5, 0.002
"""At a process without an environment: it has none while the kernel puts a program in the place of another, and then it has."""
_PF_KTHREAD = 0x0020_0000
MAX_ENVIRON_BYTES = 4 * 1024 * 1024
"""How much of a process's environment is searched."""
_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
MAX_PARENTS = 64
"""How far up attribution looks."""
MAX_DIGITS = 9
"""Of a step or a rank."""


def mark(job_id: int, restarts: int, *, agent: str) -> str:
    """What the processes of a launch carry: "12.0@5f3a..."."""
    return f"{job_id}.{restarts}@{agent}"


def mark_of(pid: int) -> str:
    """The launch that the process belongs to, of whatever agent; "" if none, or if it may not be read."""
    return variable(pid, MARK)


def variable(pid: int, name: str) -> str:
    """A variable that the process was started with; "" if there is none, or if it may not be read."""
    return value(_environ(pid) or b"", name)


def numbered(pid: int, name: str) -> str:
    """The same of a variable that is a number; "" for anything else, as any process may have been started with."""
    words = variable(pid, name)
    return words if words.isdecimal() and len(words) <= MAX_DIGITS else ""


def _environ(pid: int) -> Optional[bytes]:
    """None if it may not be read, or the process is gone."""
    return content(f"/proc/{pid}/environ", most_bytes=MAX_ENVIRON_BYTES)


def value(environ: bytes, name: str) -> str:
    """A variable of an environment as the kernel tells it, "" if it has none.

    Found by bytes.find: each second that jobs end in, all environments of the machine are looked through."""
    key = name.encode() + b"="
    begin = 0 if environ.startswith(key) else environ.find(b"\0" + key) + 1
    if not begin and not environ.startswith(key):
        return ""
    begin += len(key)
    end = environ.find(b"\0", begin)
    return environ[begin : end if end >= 0 else len(environ)].decode("ascii", "replace")


def marked() -> Dict[str, List[int]]:
    """All launches' processes, by mark: one walk over /proc, and some more looks at who is in the middle of an execve.

    May sleep LOOKS * LOOK_S.
    """
    found: Dict[str, List[int]] = {}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    for look in range(LOOKS):
        if look:
            time.sleep(LOOK_S)
        unclear = []
        for pid in pids:
            environ = _environ(pid)
            launch = value(environ or b"", MARK)
            if launch:
                found.setdefault(launch, []).append(pid)
            elif environ == b"" and _may_get_one(pid):
                unclear.append(pid)
        pids = unclear
        if not pids:
            break
    return found


def _may_get_one(pid: int) -> bool:
    """Whether a process without an environment is one that programs run in, and lives."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX" and not int(fields[6]) & _PF_KTHREAD


def job_of(pid: int, *, agent: str) -> int:
    """The job of this agent that a process belongs to, by its own mark or its nearest marked parent's; 0 if none."""
    for _ in range(MAX_PARENTS):
        if pid <= 1:
            return 0
        launch, _, owner = mark_of(pid).partition("@")
        job = launch.partition(".")[0]
        if owner == agent and job.isdigit():
            return int(job)
        pid = parent_of(pid)
    return 0


def parent_of(pid: int) -> int:
    """The parent's pid, 0 if the process is gone."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def stat_fields(pid: int) -> List[str]:
    """The fields of /proc/pid/stat from the state on; none if the process is gone."""
    return text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def cpu_time(pid: int) -> CpuTime:
    """Of the process and of all its descendants that it has waited for, also of one that nobody has waited for yet."""
    fields = stat_fields(pid)
    if len(fields) <= 14:
        return CpuTime()
    ticks = [int(each) for each in fields[11:15]]  # user, system; the same of those it has waited for
    return CpuTime(sum(ticks) / _TICKS, (ticks[1] + ticks[3]) / _TICKS)


def resident_bytes(pid: int) -> int:
    """The memory that the process has to itself or shares, 0 if it is gone."""
    fields = stat_fields(pid)
    return int(fields[21]) * _PAGE_BYTES if len(fields) > 21 else 0


def runs(comm: str) -> bool:
    """Whether some process of that name runs on this machine."""
    return any(text(f"/proc/{name}/comm") == comm for name in os.listdir("/proc") if name.isdigit())


def catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal."""
    caught = table(f"/proc/{pid}/status").get("SigCgt", "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def owner_of(pid: int) -> str:
    """The name of the process's user, or the number of one who has none here; "" if the process is gone."""
    uid = table(f"/proc/{pid}/status").get("Uid", "").split()
    if not uid:
        return ""
    try:
        return pwd.getpwuid(int(uid[0])).pw_name
    except KeyError:
        return uid[0]


def send(pids: Iterable[int], number: int) -> int:
    """Sends the signal to each, but for those who are deaf to it; how many took it."""
    taken = 0
    for pid in pids:
        if pid == os.getpid() or (number not in FOR_ALL and variable(pid, DEAF)):
            continue
        try:
            os.kill(pid, number)
            taken += 1
        except (ProcessLookupError, PermissionError):
            continue
    return taken


def sweep(mark: str, held: Sequence[str], known: Optional[Dict[str, List[int]]] = None) -> int:
    """Kills whatever is left of an ended launch; how many there were: more than none where its groups were closed, which are
    of no use to another launch then. `known` is a walk made for several launches."""
    left = set((known if known is not None else marked()).get(mark, ()))
    grouped = groups.pids(held)
    if grouped:
        left.update(grouped)
        groups.kill(held)
    return max(len(grouped), send(sorted(left), signal.SIGKILL))
