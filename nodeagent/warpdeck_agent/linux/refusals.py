"""The error of a launch that cannot be started."""

from __future__ import annotations

import errno

NO_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT)


class LaunchError(Exception):
    """A launch that failed, described in one sentence.

    `again`: the node is at fault, not the job, so the launch may be retried. `drain`: why the node should be
    drained. `check`: the health check of the node that fails.
    """

    def __init__(self, message: str, *, again: bool = False, drain: str = "", check: str = "") -> None:
        super().__init__(message)
        self.check = check
        self.again = again
        self.drain = drain


def full_disk(where: str) -> LaunchError:
    """Return the error of a launch for which the node's disk has no space."""
    return LaunchError(f"the disk of {where} is full on this node", check="disk")
