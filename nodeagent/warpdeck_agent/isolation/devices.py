"""Which GPUs a job may open: the device nodes of all others are closed to its group.

NVIDIA's driver has a character device for each GPU (major 195, its minor number) and some for all of them together
(nvidiactl, nvidia-uvm), which stay open. Every GPU that the node shows is closed unless it was given to the job, also to
jobs that asked for none. MIG instances share their GPU's device and are not told apart here.
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
"""Loaded programs that are kept: one for each set of GPUs that is closed. Each takes a page of kernel memory."""


def gpu_minors(folder: str = "/dev") -> Tuple[int, ...]:
    """The minor numbers of the GPUs that this node shows."""
    try:
        return _minors(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return ()


@functools.lru_cache(maxsize=4)
def _minors(folder: str, changed_ns: int) -> Tuple[int, ...]:
    """Asked for at every launch; a folder whose names change gets another time."""
    names = os.listdir(folder)
    return tuple(sorted(int(name[6:]) for name in names if re.fullmatch(r"nvidia\d+", name)))


class DeviceGate:
    """Closes GPUs to groups, in the one way that works here; `how` is "" where none does."""

    def __init__(self, *, unified: str, devices: str) -> None:
        """`unified`, `devices`: our folders in the v2 hierarchy and in that of the v1 controller, or ""."""
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
        """Of the hierarchy whose groups it needs; 0: none."""
        return 0 if not self.how else 2 if self._close == self._attach else 1

    def close(self, group: str, *, given: Iterable[int]) -> bool:
        """Closes all GPUs but those of the given minor numbers. True if none is left open that was not given."""
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
