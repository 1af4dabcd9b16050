"""A process with one socket as its standard input and output, so that a relay can treat processes and ports alike."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess

from warpdeck_agent.streams.byte_relay import TunnelError

ERROR_TAIL_BYTES = 4096
"""The most bytes of a process's standard error that are kept, to report why the process failed."""
REAP_FIRST_S, REAP_LAST_S = 0.02, 2.0
"""First and longest interval in seconds between checks whether a process with finished output has exited."""
EXIT_S = 2.0
"""How long a process may take to exit after its output has ended, in seconds. A process that takes longer is
left running in the job.
"""


class JobProcess:
    """A process inside a job. `link` is its standard input and output."""

    def __init__(self, process: subprocess.Popen[bytes], link: socket.socket, errors: socket.socket) -> None:
        self._process = process
        self.link = link
        self._errors = errors
        self._error_output = bytearray()

    async def listen(self) -> None:
        """Read the standard error of the process until it is closed, and keep the last bytes."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                data = await loop.sock_recv(self._errors, ERROR_TAIL_BYTES)
                if not data:
                    return
                self._error_output += data
                del self._error_output[:-ERROR_TAIL_BYTES]
        except OSError:
            return

    async def reap(self) -> int:
        """Wait until the process has ended.

        Returns its exit code, or the negative number of the signal that ended it.
        """
        pause_s = REAP_FIRST_S
        while self._process.poll() is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, REAP_LAST_S)
        return int(self._process.returncode)

    def last_error_line(self) -> str:
        """Return the last line of the process's standard error, or "" if there is none."""
        lines = self._error_output.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def hang_up(self) -> None:
        """Send HUP and TERM to the process group, because its output is not read any more.

        TERM is needed because the agent may have been started with HUP ignored, which processes inherit.
        """
        for number in (signal.SIGHUP, signal.SIGTERM):
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, number)

    def close(self) -> None:
        self.link.close()
        self._errors.close()


async def raise_if_failed(process: JobProcess) -> None:
    """Raise TunnelError if the process failed, with the last line of its standard error."""
    try:
        code = await asyncio.wait_for(process.reap(), EXIT_S)
    except asyncio.TimeoutError:
        return
    if code:
        reason = process.last_error_line() or (f"exit code {code}" if code > 0 else f"signal {-code}")
        raise TunnelError(reason)
