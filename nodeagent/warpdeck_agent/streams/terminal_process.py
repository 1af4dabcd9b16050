"""A command on a terminal of its own, and the keys that it has not read yet."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import termios
from typing import List, Optional, Tuple

from .terminal_input import write_keys

READ_BYTES = 64 * 1024
MAX_TYPED_BYTES = 4 * 1024 * 1024
"""The most bytes that may be typed ahead of a command that does not read. Any manual paste fits."""
MAX_SIZE = 1000
"""The most rows or columns of the terminal."""


class TerminalProcess:
    """The command and the terminal's master side."""

    def __init__(self, cwd: str, command: List[str]) -> None:
        self._pid, self.master = _fork(cwd, command)
        self._typed = bytearray()
        """Keys that the command has not read yet and that do not fit into its terminal's buffer."""
        self._reaped = False
        self.is_open = True
        """Whether a process still uses the terminal."""

    @property
    def has_unread_keys(self) -> bool:
        return bool(self._typed)

    def read(self) -> bytes:
        """Return output; b"" if there is none now, or if the last process on the terminal has ended."""
        try:
            data = os.read(self.master, READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:  # EIO: the last process on the terminal has ended
            data = b""
        self.is_open = bool(data)
        return data

    def type(self, keys: bytes) -> bool:
        """Type keys. Returns False if some of them do not fit any more, once until there is space again."""
        space = MAX_TYPED_BYTES - len(self._typed)
        self._typed += keys[:space]
        self.write_keys()
        return not 0 < space < len(keys)

    def write_keys(self) -> None:
        """Write typed keys to the terminal, as far as they fit into its buffer."""
        write_keys(self.master, self._typed)

    def resize(self, rows: int, cols: int) -> None:
        """Set the size of the terminal. No effect if the terminal is closed."""
        size = struct.pack("HHHH", min(max(rows, 1), MAX_SIZE), min(max(cols, 1), MAX_SIZE), 0, 0)
        try:
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)
        except OSError:
            return

    def hang_up(self) -> None:
        """Send HUP to the command and to the processes in the foreground of its terminal."""
        if self._reaped:
            return  # The number may belong to another process now.
        groups = {self._pid}
        with contextlib.suppress(OSError):
            groups.add(os.tcgetpgrp(self.master))
        for group in groups:
            for number in (signal.SIGHUP, signal.SIGCONT):
                with contextlib.suppress(OSError):
                    os.killpg(group, number)

    def reap(self) -> Optional[int]:
        """Return the wait status of the command, or None while it runs."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        self._reaped = bool(pid)
        return status if pid else None


def _fork(cwd: str, command: List[str]) -> Tuple[int, int]:
    """Start the command and return (its pid, the terminal's master side)."""
    pid, master = pty.fork()
    if pid == 0:
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.chdir(cwd)
            os.environ.setdefault("TERM", "xterm-256color")
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"cannot run {command[0]}: {error.strerror}\r\n".encode())
        finally:
            os._exit(127)
    os.set_blocking(master, False)
    return pid, master
