"""Frames on their way out: those of one turn of the loop leave in one write.

Each write is a system call, wakes the peer, and costs a packet of its own under SSH; ends and starts of short jobs come in
handfuls. Order is kept; nothing waits for longer than the turn.
"""

from __future__ import annotations

import asyncio
from typing import Callable, List


class Outbox:
    """In front of one connection's `write`."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._frames: List[bytes] = []

    def add(self, frame: bytes) -> None:
        """To be sent within this turn of the loop."""
        if not self._frames:
            asyncio.get_running_loop().call_soon(self.flush)
        self._frames.append(frame)

    def flush(self) -> None:
        """Sends what there is now: before a close, or before waiting until the peer has taken it."""
        frames, self._frames = self._frames, []
        if frames:
            self._write(frames[0] if len(frames) == 1 else b"".join(frames))
