"""Where there is no cgroup: daemons of jobs that cleared their environment become our children, and end with their user's jobs.

The agent is a subreaper, so what loses its parent below it comes to it and not to init. Such a process carries no mark of
a job, and none of ours. Whose of several jobs of a user it was cannot be told: it is ended when none of them runs any more.
A process that is younger than YOUNG_S may be one of our own that has not begun yet. Daemons of jobs that an earlier agent
started are init's, and are not found here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from typing import Callable, Collection, Dict, List, NamedTuple

from . import processes
from .procfs import number, table, text

_SET_CHILD_SUBREAPER = 36
OWN = "WARPDECK_AGENT"
"""In the environment of whatever the agent starts for itself."""
LOOK_S = 1.0
YOUNG_S = 4.0
BURY_S = 2.0
"""Whoever starts a process of ours waits for it at once: what is dead for so long has nobody who will."""
TICKS_S = os.sysconf("SC_CLK_TCK")


class Child(NamedTuple):
    """A child of ours."""

    pid: int
    uid: int
    ended: bool
    age_s: float


class Orphans:
    """`busy` tells the uids of which a launch still runs or ends."""

    def __init__(self, identity: str, busy: Callable[[], Collection[int]]) -> None:
        self._busy = busy
        self._ended: Dict[int, float] = {}
        os.environ[OWN] = identity
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    async def run(self) -> None:
        """Looks after them for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            children = await loop.run_in_executor(None, _children)
            self._bury([child.pid for child in children if child.ended])
            busy = self._busy()
            strays = [each.pid for each in children if each.age_s > YOUNG_S and each.uid not in busy]
            processes.send(await loop.run_in_executor(None, _unmarked, strays), signal.SIGKILL)

    def _bury(self, ended: List[int]) -> None:
        now = time.monotonic()
        self._ended = {pid: self._ended.get(pid, now) for pid in ended}
        for pid, since in self._ended.items():
            if now - since > BURY_S:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _children() -> List[Child]:
    uptime_s = float((text("/proc/uptime").split() or ["0"])[0])
    found = []
    for name in os.listdir("/proc"):
        fields = processes.stat_fields(int(name)) if name.isdigit() else []
        if len(fields) > 19 and int(fields[1]) == os.getpid():
            uid = number(table(f"/proc/{name}/status").get("Uid", ""))
            age_s = uptime_s - int(fields[19]) / TICKS_S
            found.append(Child(int(name), uid, fields[0] == "Z", age_s))
    return found


def _unmarked(pids: List[int]) -> List[int]:
    return [pid for pid in pids if not processes.mark_of(pid) and not processes.variable(pid, OWN)]
