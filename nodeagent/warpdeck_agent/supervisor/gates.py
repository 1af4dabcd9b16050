"""The gates of started launches: the sockets over which a launch's shell reports why it cannot run the job.

A gate is open until the shell has become the job's program, or has failed to. The end of a short job closes
its gate. A gate of a longer job is closed by a check once per second, so that the job costs no descriptor.
"""

from __future__ import annotations

import math
import socket
import time
from typing import List

from .starter import LaunchOrder

MAX_NOTE_BYTES = 480
"""The longest note on why a job cannot begin, in bytes. More does not fit into its record."""
CHECK_S = 1.0
"""Interval in seconds between checks of the open gates. Waking up for each gate would cost more."""


class GatedLaunch:
    """A launch that was started, with our end of its gate."""

    def __init__(self, order: LaunchOrder, gate: socket.socket) -> None:
        self.order = order
        self.gate = gate
        self.note = b""
        """Why the shell could not become the job's program, as far as it was read."""

    def take_note(self) -> bool:
        """Read the shell's error note from the gate.

        Returns False once there is no more to read. It also returns False when the note has its maximum size,
        because the process at the other end of the gate might write forever.
        """
        while len(self.note) < MAX_NOTE_BYTES:
            try:
                data = self.gate.recv(MAX_NOTE_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                data = b""
            if not data:
                return False
            self.note = (self.note + data)[:MAX_NOTE_BYTES]
        return False

    def close_gate(self) -> None:
        """Read the rest of the note and close the gate, because the launch has ended."""
        if self.gate.fileno() >= 0:
            self.take_note()
            self.gate.close()


class OpenGates:
    """The gates that may be open, with their launches.

    The gates are not polled, because their notes are needed only at the end of the launch.
    """

    def __init__(self) -> None:
        self._launches: List[GatedLaunch] = []
        self.check_at = math.inf
        """Time of the next check on the monotonic clock; infinity while no gate is open."""

    def add(self, launch: GatedLaunch) -> None:
        self._launches.append(launch)
        self.check_at = min(self.check_at, time.monotonic() + CHECK_S)

    def check_due(self, now: float) -> None:
        """Close the gates of launches that run their program, if it is time for a check."""
        if self.check_at > now:
            return
        still_open = []
        for launch in self._launches:
            if launch.gate.fileno() < 0:
                continue
            if launch.take_note():
                still_open.append(launch)
            else:
                launch.gate.close()
        self._launches = still_open
        self.check_at = time.monotonic() + CHECK_S if still_open else math.inf
