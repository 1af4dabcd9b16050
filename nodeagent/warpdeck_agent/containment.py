"""How jobs are held together on this node: a cgroup v2 group each where we may make one, else process marks only.

Grouping and killing need no controller. Where the memory controller is delegated to us the job's memory is limited too.
"""

from __future__ import annotations

import os
from typing import Container, Tuple

from .procfs import number, table, text


class Containment:
    """`words` says openly what the node can do."""

    def __init__(self, agent: str) -> None:
        self._base = ""
        own = _own_group()
        if own:
            base = os.path.join(own, "warpdeck-" + agent)
            try:
                os.makedirs(base, exist_ok=True)
                if os.path.exists(os.path.join(base, "cgroup.kill")):
                    self._base = base
            except OSError:
                self._base = ""
        if self._base:
            self.words = "cgroup v2: jobs are grouped and ended as a whole"
        else:
            self.words = "no cgroup: jobs are ended by process group and environment mark"

    def make(self, name: str, mem_bytes: int) -> str:
        """A group for a launch; "" where none can be made, which never stops a launch."""
        if not self._base:
            return ""
        path = os.path.join(self._base, name)
        try:
            os.makedirs(path, exist_ok=True)
            limit = os.path.join(path, "memory.max")
            if mem_bytes and os.path.exists(limit):
                with open(limit, "w", encoding="ascii") as file:
                    file.write(str(mem_bytes))
        except OSError:
            return ""
        return path

    def clear(self, keep: Container[str]) -> None:
        """Removes empty groups that an earlier agent left, but for those whose use of the node is still to be read."""
        if self._base:
            for entry in os.scandir(self._base):
                if entry.is_dir() and entry.path not in keep:
                    remove(entry.path)

    def close(self) -> None:
        """Leaves nothing behind, unless jobs go on."""
        remove(self._base)


def join(path: str, pid: int) -> bool:
    """Puts a process into the group. Where that fails it is held by its mark alone."""
    if not path:
        return False
    try:
        with open(os.path.join(path, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(pid))
    except OSError:
        return False
    return True


def usage(path: str) -> Tuple[int, float, bool]:
    """(peak memory in bytes, CPU seconds, whether the kernel killed for memory); zeros where unknown."""
    peak = number(text(os.path.join(path, "memory.peak")))
    cpu_us = number(table(os.path.join(path, "cpu.stat")).get("usage_usec", ""))
    kills = number(table(os.path.join(path, "memory.events")).get("oom_kill", ""))
    return peak, cpu_us / 1e6, kills > 0


def remove(path: str) -> None:
    """Removes an empty group; one that is not empty yet is left for the next start of the agent."""
    if path:
        try:
            os.rmdir(path)
        except OSError:
            return


def _own_group() -> str:
    mount = ""
    for line in text("/proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            mount = left.split()[4]
    for line in text("/proc/self/cgroup").splitlines():
        if line.startswith("0::") and mount:
            return os.path.normpath(mount + "/" + line[3:])
    return ""
