"""Soft limits of a process that waits at its gate: those of whoever submitted (--propagate), as far as the node allows.

A limit above the node's own hard one becomes that: what a site allows on its nodes, nobody raises from elsewhere.
"""

from __future__ import annotations

import contextlib
import resource
from typing import Mapping

NAMES = ("AS", "CORE", "CPU", "DATA", "FSIZE", "MEMLOCK", "NOFILE", "NPROC", "RSS", "STACK")


def impose(pid: int, limits: Mapping[str, int]) -> None:
    """Names that are no limits are passed over. A process that has just ended keeps its own, and so does another user's
    where root may not raise limits (a container without CAP_SYS_RESOURCE)."""
    for name, wanted in limits.items():
        if name not in NAMES:
            continue
        which = getattr(resource, f"RLIMIT_{name}")
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _, hard = resource.prlimit(pid, which)
            soft = wanted if hard == resource.RLIM_INFINITY else hard if wanted < 0 else min(wanted, hard)
            resource.prlimit(pid, which, (soft if soft >= 0 else resource.RLIM_INFINITY, hard))
