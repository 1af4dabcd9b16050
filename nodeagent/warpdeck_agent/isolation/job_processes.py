"""The processes of jobs, found by the mark in their environment, and how to end them.

The mark is WARPDECK_JOB=<job>.<restarts>@<agent>, which everybody may know, and WARPDECK_TOKEN, which only the job's own
processes have. It counts only where the process is the job's user's, too: nobody else's process is taken for the job's.
The mark is inherited, so daemons and setsid children are found too, unless they scrub their environment; with a cgroup
those are caught as well. Job ids are one controller's own, and agents of several controllers (or of several hosts that
share a pid namespace) look over the same /proc: the agent's random identity keeps their jobs apart.
"""

from __future__ import annotations

import os
import pwd
import signal
import time
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence

from warpdeck_agent.linux.cpu_time import CpuTime
from warpdeck_agent.linux.namespaces import user_of
from warpdeck_agent.linux.procfs import content, table, text

from . import launch_cgroups

MARK, SECRET = "WARPDECK_JOB", "WARPDECK_TOKEN"
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


class Mark(NamedTuple):
    """What tells the processes of a launch from all others. `launch`: "12.0@5f3a...", see launch_name. `secret`: the launch's own,
    "" for one that was begun without any. `uid`: whose the processes are."""

    launch: str
    secret: str
    uid: int

    def variables(self) -> Dict[str, str]:
        """The part of it that is in their environment."""
        return {MARK: self.launch, SECRET: self.secret}


def launch_name(job_id: int, restarts: int, *, agent: str) -> str:
    """A launch, told from those of all other agents: "12.0@5f3a..."."""
    return f"{job_id}.{restarts}@{agent}"


def mark_of(pid: int) -> Optional[Mark]:
    """What the process carries, of whatever agent; None if nothing, or if it may not be read."""
    return mark_in(_environ(pid) or b"", pid)


def mark_in(environ: bytes, pid: int) -> Optional[Mark]:
    """The same of a process with that environment."""
    launch = value(environ, MARK)
    return Mark(launch, value(environ, SECRET), user_of(pid)) if launch else None


def carries(environ: bytes, pid: int, mark: Mark) -> bool:
    """Whether the process with that environment carries this mark."""
    return value(environ, MARK) == mark.launch and mark_in(environ, pid) == mark


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


def marked() -> Dict[Mark, List[int]]:
    """All launches' processes, by mark: one walk over /proc, and some more looks at who is in the middle of an execve.

    May sleep LOOKS * LOOK_S.
    """
    found: Dict[Mark, List[int]] = {}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    for look in range(LOOKS):
        if look:
            time.sleep(LOOK_S)
        unclear = []
        for pid in pids:
            environ = _environ(pid)
            mark = mark_in(environ or b"", pid)
            if mark is not None:
                found.setdefault(mark, []).append(pid)
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


def job_of(pid: int, jobs: Mapping[Mark, int]) -> int:
    """Which of these jobs a process belongs to, by its own mark or its nearest parent's of which one is known; 0 if none."""
    for _ in range(MAX_PARENTS):
        if pid <= 1:
            return 0
        mark = mark_of(pid)
        if mark is not None and mark in jobs:
            return jobs[mark]
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


def sweep(mark: Mark, held: Sequence[str], known: Optional[Dict[Mark, List[int]]] = None) -> int:
    """Kills whatever is left of an ended launch; how many there were: more than none where its groups were closed, which are
    of no use to another launch then. `known` is a walk made for several launches."""
    left = set((known if known is not None else marked()).get(mark, ()))
    grouped = launch_cgroups.pids(held)
    if grouped:
        left.update(grouped)
        launch_cgroups.kill(held)
    return max(len(grouped), send(sorted(left), signal.SIGKILL))
