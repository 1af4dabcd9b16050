"""The standard streams of a kept srun: output with positions, and input that is written once."""

from __future__ import annotations

import os
from collections import deque

from warpdeck_agent.wire.frames import DATA_CHUNK_BYTES, STREAM_WINDOW_BYTES
from warpdeck_agent.wire.steps import TASK_HEADER

KEEP_BYTES = 8 * STREAM_WINDOW_BYTES
"""Sent output that is kept. It is more than the gateway and its sockets hold for a client that comes back."""
AHEAD_BYTES = STREAM_WINDOW_BYTES
"""Unsent output of a channel that is read ahead."""
LAST_READS = 64
READ_BYTES = DATA_CHUNK_BYTES - TASK_HEADER.size


class Output:
    """The output of one channel. It keeps the bytes from position `first` on; the bytes before position `sent` were sent."""

    def __init__(self, channel: int, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.channel = channel
        self.descriptor = descriptor
        self.is_open = True
        self.first = 0
        self.sent = 0
        self._kept = bytearray()

    @property
    def total(self) -> int:
        return self.first + len(self._kept)

    @property
    def is_wanted(self) -> bool:
        """Whether more output is to be read now."""
        return self.is_open and self.total - self.sent < AHEAD_BYTES

    def read(self) -> bytes:
        """Return new output. At its end the output is closed."""
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        if not data:
            self.close()
        return data

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self.descriptor)

    def add(self, data: bytes) -> None:
        self._kept += data

    def finish(self) -> None:
        """Read the rest of an ended command. A process that it has left behind may hold the pipe for ever."""
        for _ in range(LAST_READS):
            data = self.read() if self.is_open else b""
            if not data:
                break
            self.add(data)
        self.close()

    def next_piece(self) -> bytes:
        """Return the next unsent piece with its header, or b""."""
        start = self.sent - self.first
        data = bytes(self._kept[start : start + READ_BYTES])
        if not data:
            return b""
        piece = TASK_HEADER.pack(0, self.channel, self.sent) + data
        self.sent += len(data)
        excess = self.sent - self.first - KEEP_BYTES
        if excess > KEEP_BYTES // 8:
            del self._kept[:excess]
            self.first += excess
        return piece

    def go_back(self, have: int) -> None:
        """Send the output from this position on again."""
        self.sent = min(max(have, self.first), self.total)


class Input:
    """The input of the command. Pieces that come again after a lost connection are written once."""

    def __init__(self, descriptor: int, begin: bytes) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.is_open = True
        self._begin = begin
        self._taken = 0
        self._pieces: deque[bytes] = deque()

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to write, or to acknowledge."""
        return bool(self._begin or self._pieces)

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def drop_unwritten(self) -> None:
        """Drop the pieces of a client that is gone. It sends them again when it comes back."""
        self._pieces.clear()

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            os.close(self.descriptor)

    def write(self) -> int:
        """Write as much as the command takes now. Returns the size of the pieces that are done with."""
        done = 0
        try:
            while self._begin:
                self._begin = self._begin[os.write(self.descriptor, self._begin) :]
            while self._pieces:
                self._write_piece(self._pieces[0])
                done += len(self._pieces.popleft())
        except BlockingIOError:
            pass
        return done

    def _write_piece(self, piece: bytes) -> None:
        """Write the data of a piece that was not written yet. Raises BlockingIOError."""
        _, _, offset = TASK_HEADER.unpack_from(piece)
        data = piece[TASK_HEADER.size :]
        if not data:
            self.close()
        try:
            while self.is_open and self._taken < offset + len(data):
                self._taken += os.write(self.descriptor, data[max(0, self._taken - offset) :])
        except BrokenPipeError:
            self.close()
