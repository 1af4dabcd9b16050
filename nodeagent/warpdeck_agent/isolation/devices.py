"""Restricts the GPUs that a job may open: the device nodes of all other GPUs are closed to its cgroup.

NVIDIA's driver has a character device for each GPU (major 195, with its minor number), and some for all of
them together (nvidiactl, nvidia-uvm), which stay open. Every GPU of the node is closed unless it was given to
the job, also for jobs that requested none. MIG instances share their GPU's device and are not distinguished
here.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Callable, Dict, FrozenSet, Iterable, Tuple

from warpdeck_agent.linux import bpf
from warpdeck_agent.linux.procfs import write

NVIDIA_MAJOR = 195
MAX_PROGRAMS = 256
"""The most loaded programs that are kept, one for each set of closed GPUs. Each takes a page of kernel
memory.
"""


def gpu_minors(folder: str = "/dev") -> Tuple[int, ...]:
    """Return the minor numbers of the node's GPUs."""
    try:
        return _minors(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return ()


@functools.lru_cache(maxsize=4)
def _minors(folder: str, changed_ns: int) -> Tuple[int, ...]:
    """Return the minor numbers, cached because every launch needs them.

    The folder's time changes when its names change.
    """
    names = os.listdir(folder)
    return tuple(sorted(int(name[6:]) for name in names if re.fullmatch(r"nvidia\d+", name)))


class DeviceGate:
    """Closes GPUs to cgroups with the mechanism that works on this node.

    `how` describes it, and is "" if none works.
    """

    def __init__(self, *, unified: str, devices: str) -> None:
        """Choose the mechanism.

        `unified` and `devices` are our folders in the v2 and the v1 devices hierarchy, or "".
        """
        self._programs: Dict[FrozenSet[bpf.Device], int] = {}
        self.how = ""
        self._close: Callable[[str, FrozenSet[bpf.Device]], None] = self._attach
        if unified and _works(lambda: self._try_program(unified)):
            self.how = "cgroup v2 device program"
        elif devices and os.access(os.path.join(devices, "devices.deny"), os.W_OK):
            self.how = "cgroup v1 devices"
            self._close = _deny

    @property
    def version(self) -> int:
        """Version of the cgroup hierarchy that the mechanism needs; 0: there is none."""
        return 0 if not self.how else 2 if self._close == self._attach else 1

    def close(self, group: str, *, given: Iterable[int]) -> bool:
        """Close all GPUs except those with the given minor numbers.

        Returns whether no other GPU is left open.
        """
        closed = frozenset((NVIDIA_MAJOR, minor) for minor in set(gpu_minors()) - set(given))
        if not closed:
            return True
        return bool(self.how) and _works(lambda: self._close(group, closed))

    def _attach(self, group: str, closed: FrozenSet[bpf.Device]) -> None:
        program = self._programs.get(closed)
        if program is None:
            if len(self._programs) >= MAX_PROGRAMS:
                os.close(self._programs.pop(next(iter(self._programs))))
            program = self._programs[closed] = bpf.deny(sorted(closed))
        bpf.attach(program, group)

    def _try_program(self, unified: str) -> None:
        probe = os.path.join(unified, "probe")
        os.makedirs(probe, exist_ok=True)
        try:
            self._attach(probe, frozenset())
        finally:
            os.rmdir(probe)


def _deny(group: str, closed: FrozenSet[bpf.Device]) -> None:
    for major, minor in sorted(closed):
        write(os.path.join(group, "devices.deny"), f"c {major}:{minor} rwm")


def _works(act: Callable[[], None]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True
