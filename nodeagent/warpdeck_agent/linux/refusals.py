"""A launch that cannot be."""

from __future__ import annotations

import errno

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class LaunchError(Exception):
    """In one sentence. `again`: the node is to blame, not the job; `drain`: why the node should take no more jobs; `check`: which
    of its checks fails.
    """

    def __init__(self, message: str, *, again: bool = False, drain: str = "", check: str = "") -> None:
        super().__init__(message)
        self.check = check
        self.again = again
        self.drain = drain


def full_disk(where: str) -> LaunchError:
    """The node's own disk has no room for what a launch needs there."""
    return LaunchError(f"the disk of {where} is full on this node", check="disk")
