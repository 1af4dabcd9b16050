"""Ends an srun that runs as a child of the gateway."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

END_S = 5.0
"""Seconds between the signals that end a command that nobody waits for any more."""


class Launcher:
    """A running srun."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    async def wait(self) -> int:
        """Return the exit code, or the negative number of the signal that ended the command."""
        return await self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    def signal(self, number: int) -> None:
        """Send a signal to the command, unless it has ended."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def end(self) -> None:
        """End the command, which then ends its tasks."""
        self.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            try:
                async with asyncio.timeout(END_S):
                    await self.wait()
                return
            except TimeoutError:
                continue
