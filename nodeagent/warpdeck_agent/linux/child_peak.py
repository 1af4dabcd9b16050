"""What wait4 tells of the most memory that one of a child's processes has had."""

from __future__ import annotations

import time

from .procfs import number, table

KEPT_S = 1.0
"""How long our own peak is taken as it was read."""
FORK_BYTES = 1024 * 1024
"""What a fork of ours may use of its own before it is another program."""


class ChildPeak:
    """Of the children of this process, which does not become smaller."""

    def __init__(self) -> None:
        self._read_at, self._own_bytes = -KEPT_S, 0

    def known(self, told_bytes: int) -> int:
        """That of a child of which so much was told, 0 if it is not known: the kernel tells what we ourselves used, out of whom the
        child began, where that is more."""
        now = time.monotonic()
        if now - self._read_at > KEPT_S:
            self._read_at = now
            self._own_bytes = number(table("/proc/self/status").get("VmHWM", "")) * 1024
        return told_bytes if told_bytes > self._own_bytes + FORK_BYTES else 0
