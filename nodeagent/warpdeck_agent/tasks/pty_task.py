"""A task on a terminal of its own, between the pipes of a step: `srun --pty` starts it as the job's user.

  ptytask COMMAND...

Its input is in frames, so that changes of the terminal's size keep their order with the keys. A frame has a
kind of one byte, then for SIZE the rows and columns, or for KEYS a length and that many bytes. The command
begins when its first size is known. Its output is the terminal's, unchanged. Signals are meant for the
command, which gets them from the sender directly. This process exits when the command has ended, with the
same status.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
from typing import List

from warpdeck_agent.client.keys import KEYS, SIZE
from warpdeck_agent.streams import terminal_input

HEADER = struct.Struct(">BHH")
"""The header that client.keys puts before each piece."""
READ_BYTES = 64 * 1024
NOT_OURS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
UNKNOWN_COMMAND = 127


class PtyTask:
    """One command on its terminal."""

    def __init__(self, command: List[str]) -> None:
        self._command = command
        self._received = b""
        self._master = -1
        self._pid = 0
        self._reads = True
        self._typed = bytearray()
        """Keys that do not fit into the terminal's buffer yet. If there are many, no more input is read, so
        the rest stays in the pipe.
        """
        self._ends, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(waker)

    def run(self) -> int:
        """Run until the command has ended, and return its wait status.

        Background processes of the command are not awaited.
        """
        while not self._pid:
            self._take_input()
        while True:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            if ended:
                break
            listens = self._reads and len(self._typed) < READ_BYTES
            ready, writable, _ = select.select(
                [self._ends, self._master, *([0] if listens else [])],
                [self._master] if self._typed else [],
                [],
            )
            if writable:
                terminal_input.write_keys(self._master, self._typed)
            if self._ends in ready:
                os.read(self._ends, READ_BYTES)
            if 0 in ready:
                self._take_input()
            if self._master in ready and not self._show():  # closed by a command that continues without it
                return os.waitpid(self._pid, 0)[1]
        while select.select([self._master], [], [], 0)[0] and self._show():
            continue
        return status

    def _show(self) -> bool:
        """Copy output of the terminal. Returns False when the terminal is closed."""
        try:
            data = os.read(self._master, READ_BYTES)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        _write(1, data)
        return bool(data)

    def _take_input(self) -> None:
        data = os.read(0, READ_BYTES)
        self._received += data
        if not data:
            self._reads = False
        while len(self._received) >= HEADER.size:
            kind, first, second = HEADER.unpack_from(self._received)
            size = first if kind == KEYS else 0
            if len(self._received) < HEADER.size + size:
                break
            keys = self._received[HEADER.size : HEADER.size + size]
            self._received = self._received[HEADER.size + size :]
            if kind == SIZE:
                self._resize(first, second)
            elif self._pid:
                self._typed += keys
                terminal_input.write_keys(self._master, self._typed)
        if not self._reads and not self._pid:
            self._resize(24, 80)

    def _resize(self, rows: int, cols: int) -> None:
        if not self._pid:
            self._begin(rows, cols)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def _begin(self, rows: int, cols: int) -> None:
        self._pid, self._master = pty.fork()
        if self._pid:
            for number in NOT_OURS:
                signal.signal(number, signal.SIG_IGN)
            os.set_blocking(self._master, False)
            return
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)  # a background command of a shell ignores Ctrl-C
        try:
            os.execvp(self._command[0], self._command)
        except OSError as error:
            os.write(2, f"srun: error: {self._command[0]}: {os.strerror(error.errno or 0)}\n".encode())
        finally:
            os._exit(UNKNOWN_COMMAND)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main(command: List[str]) -> int:
    """Run the command, and end in the same way."""
    status = PtyTask(command).run()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        sys.stdout.flush()
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return os.WEXITSTATUS(status)
