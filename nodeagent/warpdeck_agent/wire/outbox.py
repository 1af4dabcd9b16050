"""Batches outgoing frames: all frames of one iteration of the event loop are sent with one write.

Each write is a system call, wakes the peer, and costs a packet of its own under SSH. Short jobs often end and
start several at a time, so batching pays. The order of frames is kept, and no frame waits longer than one
iteration.
"""

from __future__ import annotations

import asyncio
from typing import Callable, List


class Outbox:
    """Buffer of outgoing frames in front of one connection's `write`."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._frames: List[bytes] = []

    def add(self, frame: bytes) -> None:
        """Queue a frame, which is sent within this iteration of the event loop."""
        if not self._frames:
            asyncio.get_running_loop().call_soon(self.flush)
        self._frames.append(frame)

    def flush(self) -> None:
        """Send all queued frames now, before closing or before waiting until the peer has read them."""
        frames, self._frames = self._frames, []
        if frames:
            self._write(frames[0] if len(frames) == 1 else b"".join(frames))
