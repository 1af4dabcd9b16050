"""Being the process to which those come that lose their parent below it."""

from __future__ import annotations

import ctypes

_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """This process is a subreaper from now on."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
