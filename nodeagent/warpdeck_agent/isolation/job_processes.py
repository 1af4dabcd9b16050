"""Finds the processes of jobs by the job tag in their environment, and ends them.

The job tag consists of the variables WARPDECK_JOB=<job>.<restarts>@<agent>, which is public, and
WARPDECK_TOKEN, which only the job's own processes have. It counts only if the process also belongs to the
job's user, so no other user's process is taken for the job's. The job tag is inherited, so daemons and
children after setsid are found too, unless they clear their environment. A cgroup also catches the processes
that do. Job ids are unique only within one controller, and agents of several controllers (or of several hosts
that share a pid namespace) see the same /proc. The agent's random identity keeps their jobs apart.
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

JOB_VARIABLE, TOKEN_VARIABLE = "WARPDECK_JOB", "WARPDECK_TOKEN"
DEAF = "WARPDECK_DEAF"
"""A variable of processes that only wait for another process, which gets the job's signals itself."""
FOR_ALL = (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT)
"""Signals that processes with the variable DEAF get, too."""
EXECVE_CHECKS, EXECVE_CHECK_S = 5, 0.002
"""Number and interval of checks of a process with an empty environment. The environment is empty for a moment
while the kernel replaces one program by another.
"""
_PF_KTHREAD = 0x0020_0000
MAX_ENVIRON_BYTES = 4 * 1024 * 1024
"""The most bytes of a process's environment that are searched."""
_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
MAX_PARENTS = 64
"""The most ancestors of a process that are searched for a job tag."""
MAX_DIGITS = 9
"""The most digits of a step number or a rank."""


class JobTag(NamedTuple):
    """The job tag that identifies the processes of a launch.

    `launch`: "12.0@5f3a...", see launch_name. `secret`: the launch's own, "" for one that was started without
    any. `uid`: the user of the processes.
    """

    launch: str
    secret: str
    uid: int

    def variables(self) -> Dict[str, str]:
        """Return the part of the job tag that is in the processes' environment."""
        return {JOB_VARIABLE: self.launch, TOKEN_VARIABLE: self.secret}


def launch_name(job_id: int, restarts: int, *, agent: str) -> str:
    """Return a name for a launch that is unique among all agents, like "12.0@5f3a..."."""
    return f"{job_id}.{restarts}@{agent}"


def job_tag_of(pid: int) -> Optional[JobTag]:
    """Return the job tag of a process, of any agent.

    Returns None if it has none, or if its environment cannot be read.
    """
    return job_tag_in(_environ(pid) or b"", pid)


def job_tag_in(environ: bytes, pid: int) -> Optional[JobTag]:
    """Return the job tag of the process `pid` with that environment, or None."""
    launch = value_in(environ, JOB_VARIABLE)
    return JobTag(launch, value_in(environ, TOKEN_VARIABLE), user_of(pid)) if launch else None


def has_job_tag(environ: bytes, pid: int, tag: JobTag) -> bool:
    """Return whether the process with that environment has this job tag."""
    return value_in(environ, JOB_VARIABLE) == tag.launch and job_tag_in(environ, pid) == tag


def variable(pid: int, name: str) -> str:
    """Return a variable that the process was started with.

    Returns "" if it is not set, or if the environment cannot be read.
    """
    return value_in(_environ(pid) or b"", name)


def numeric_variable(pid: int, name: str) -> str:
    """Return the text of a variable that holds a number.

    Returns "" if it holds anything else, because users choose the environment.
    """
    digits = variable(pid, name)
    return digits if digits.isdecimal() and len(digits) <= MAX_DIGITS else ""


def _environ(pid: int) -> Optional[bytes]:
    """Return the environment of a process; None if it cannot be read, or the process is gone."""
    return content(f"/proc/{pid}/environ", most_bytes=MAX_ENVIRON_BYTES)


def value_in(environ: bytes, name: str) -> str:
    """Return a variable of an environment in the kernel's format, "" if it is not set.

    It uses bytes.find, because all environments of the machine are searched in every second in which jobs
    end.
    """
    key = name.encode() + b"="
    begin = 0 if environ.startswith(key) else environ.find(b"\0" + key) + 1
    if not begin and not environ.startswith(key):
        return ""
    begin += len(key)
    end = environ.find(b"\0", begin)
    return environ[begin : end if end >= 0 else len(environ)].decode("ascii", "replace")


def pids_by_job_tag() -> Dict[JobTag, List[int]]:
    """Return the pids of all launches' processes by job tag, with one walk over /proc.

    Processes that are in the middle of an execve are checked again. May sleep for EXECVE_CHECKS *
    EXECVE_CHECK_S seconds.
    """
    found: Dict[JobTag, List[int]] = {}
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    for check in range(EXECVE_CHECKS):
        if check:
            time.sleep(EXECVE_CHECK_S)
        unclear = []
        for pid in pids:
            environ = _environ(pid)
            tag = job_tag_in(environ or b"", pid)
            if tag is not None:
                found.setdefault(tag, []).append(pid)
            elif environ == b"" and _may_get_one(pid):
                unclear.append(pid)
        pids = unclear
        if not pids:
            break
    return found


def _may_get_one(pid: int) -> bool:
    """Return whether a process with an empty environment may still get one.

    It must be alive and not be a kernel thread.
    """
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX" and not int(fields[6]) & _PF_KTHREAD


def job_of(pid: int, jobs: Mapping[JobTag, int]) -> int:
    """Return the job in `jobs` to which a process belongs, 0 if none.

    The job tag of the process decides, or else the job tag of its nearest ancestor with a known one.
    """
    for _ in range(MAX_PARENTS):
        if pid <= 1:
            return 0
        tag = job_tag_of(pid)
        if tag is not None and tag in jobs:
            return jobs[tag]
        pid = parent_of(pid)
    return 0


def parent_of(pid: int) -> int:
    """Return the parent's pid, 0 if the process is gone."""
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def stat_fields(pid: int) -> List[str]:
    """Return the fields of /proc/pid/stat from the state on; none if the process is gone."""
    return text(f"/proc/{pid}/stat").rpartition(")")[2].split()


def cpu_time(pid: int) -> CpuTime:
    """Return the CPU time of the process and of all its descendants that were waited for.

    This also works for a zombie, a dead process that its parent has not waited for yet.
    """
    fields = stat_fields(pid)
    if len(fields) <= 14:
        return CpuTime()
    # user and system time, then the same of children that were waited for
    ticks = [int(each) for each in fields[11:15]]
    return CpuTime(sum(ticks) / _TICKS, (ticks[1] + ticks[3]) / _TICKS)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the process, including shared memory; 0 if it is gone."""
    fields = stat_fields(pid)
    return int(fields[21]) * _PAGE_BYTES if len(fields) > 21 else 0


def is_running(comm: str) -> bool:
    """Return whether a process of that name runs on this machine."""
    return any(text(f"/proc/{name}/comm") == comm for name in os.listdir("/proc") if name.isdigit())


def catches(pid: int, number: int) -> bool:
    """Return whether the process has a handler for the signal."""
    caught = table(f"/proc/{pid}/status").get("SigCgt", "0")
    return bool(int(caught, 16) >> (number - 1) & 1)


def owner_of(pid: int) -> str:
    """Return the name of the process's user.

    Returns the uid if it has no name on this node, and "" if the process is gone.
    """
    uid = table(f"/proc/{pid}/status").get("Uid", "").split()
    if not uid:
        return ""
    try:
        return pwd.getpwuid(int(uid[0])).pw_name
    except KeyError:
        return uid[0]


def send(pids: Iterable[int], number: int) -> int:
    """Send the signal to each process and return how many received it.

    Processes with the variable DEAF are skipped, except for the signals in FOR_ALL.
    """
    received = 0
    for pid in pids:
        if pid == os.getpid() or (number not in FOR_ALL and variable(pid, DEAF)):
            continue
        try:
            os.kill(pid, number)
            received += 1
        except (ProcessLookupError, PermissionError):
            continue
    return received


def sweep(tag: JobTag, groups: Sequence[str], known: Optional[Dict[JobTag, List[int]]] = None) -> int:
    """Kill all remaining processes of an ended launch and return their number.

    The number is above zero if its cgroups had to be killed; those cannot be reused for another launch.
    `known` is the result of a walk that was made for several launches.
    """
    left = set((known if known is not None else pids_by_job_tag()).get(tag, ()))
    grouped = launch_cgroups.pids(groups)
    if grouped:
        left.update(grouped)
        launch_cgroups.kill(groups)
    return max(len(grouped), send(sorted(left), signal.SIGKILL))
