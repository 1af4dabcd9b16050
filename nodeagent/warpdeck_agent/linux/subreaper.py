"""Makes a process a subreaper, which becomes the parent of its orphaned descendants."""

from __future__ import annotations

import ctypes

_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Make this process a subreaper."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
