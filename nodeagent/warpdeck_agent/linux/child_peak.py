"""The peak memory of a child's processes, from the values that wait4 returns."""

from __future__ import annotations

import time

from .procfs import number, table

KEPT_S = 1.0
"""How long the measured peak of our own process is cached, in seconds."""
FORK_BYTES = 1024 * 1024
"""Memory that a fork of ours may use before it executes another program."""


class ChildPeak:
    """Determines the peak memory of children of this process. The own peak of this process never decreases."""

    def __init__(self) -> None:
        self._read_at, self._own_bytes = -KEPT_S, 0

    def known(self, told_bytes: int) -> int:
        """Return the peak memory of a child for which wait4 returned `told_bytes`, or 0 if it is not known.

        A child starts as a fork of our process, so the kernel returns our own peak if that is larger.
        """
        now = time.monotonic()
        if now - self._read_at > KEPT_S:
            self._read_at = now
            self._own_bytes = number(table("/proc/self/status").get("VmHWM", "")) * 1024
        return told_bytes if told_bytes > self._own_bytes + FORK_BYTES else 0
