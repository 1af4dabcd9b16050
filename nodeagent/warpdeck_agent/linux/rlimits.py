"""Soft limits of a process that waits at its gate: those of whoever submitted (--propagate), as far as the node allows.

A limit above the node's own hard one becomes that: what a site allows on its nodes, nobody raises from elsewhere.
"""

from __future__ import annotations

import contextlib
import resource
import time
from typing import Mapping

AT_GATE_S = 0.5
"""So long a process may take to come to its gate: the start of a shell, on a machine that is busy."""
LOOK_S = 0.0003
NAMES = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")


def impose(pid: int, limits: Mapping[str, int]) -> None:
    """Names that are no limits are passed over. A process that has just ended keeps its own, and so does another user's
    where root may not raise limits (a container without CAP_SYS_RESOURCE)."""
    for name, wanted in limits.items():
        if name not in NAMES:
            continue
        which = getattr(resource, f"RLIMIT_{name}")
        with contextlib.suppress(ProcessLookupError, PermissionError, FileNotFoundError):
            now, hard = resource.prlimit(pid, which)
            soft = wanted if hard == resource.RLIM_INFINITY else hard if wanted < 0 else min(wanted, hard)
            soft = soft if soft >= 0 else resource.RLIM_INFINITY
            if name == "STACK" and soft != now:
                _await_gate(pid)
            resource.prlimit(pid, which, (soft, hard))


def _await_gate(pid: int) -> None:
    """Waits until the process waits. Whoever spawned it knows that its program is loaded, but not that the kernel is done: at
    the end of an exec it sets the limit of the stack to what that was when the exec began."""
    until = time.monotonic() + AT_GATE_S
    while time.monotonic() < until:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b") ")[2][:1]
        if state in (b"S", b"Z", b"X"):
            return
        time.sleep(LOOK_S)
