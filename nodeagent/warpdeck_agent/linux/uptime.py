"""Time since the boot of this node.

It counts while the node sleeps, and setting the node's date does not change it.
"""

from __future__ import annotations

import time


def uptime_s() -> float:
    """Return the seconds since the boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def uptime_at(unix_s: float) -> float:
    """Return the seconds from the boot to a unix time, if the node's date was not set since then."""
    return uptime_s() - (time.time() - unix_s)
