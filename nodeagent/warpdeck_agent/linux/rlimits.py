"""Sets the soft limits of a process that waits at its gate.

They are the submitter's limits (--propagate), as far as the node allows. A limit above the node's hard limit
is reduced to it, because users must not exceed a site's limits by submitting from elsewhere.
"""

from __future__ import annotations

import contextlib
import resource
import time
from typing import Mapping

AT_GATE_S = 0.5
"""How long a process may take to reach its gate, in seconds: the start of a shell, on a busy machine."""
RETRY_S = 0.0003
NAMES = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")


def impose(pid: int, limits: Mapping[str, int]) -> None:
    """Set the limits of the process `pid`.

    Unknown names are ignored. A process that has just ended is skipped. So is another user's process if root
    may not raise limits (a container without CAP_SYS_RESOURCE).
    """
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
    """Wait until the process waits at its gate.

    When a spawn returns, the program is loaded but the kernel may not be finished. At the end of an exec, it
    resets the stack limit to its value at the start of the exec.
    """
    until = time.monotonic() + AT_GATE_S
    while time.monotonic() < until:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b") ")[2][:1]
        if state in (b"S", b"Z", b"X"):
            return
        time.sleep(RETRY_S)
