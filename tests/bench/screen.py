"""The app in a terminal of its own: from exec to the first row of the queue on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time

from .jobs import console_script
from .rig import Rig
from .table import Line, Measured, Table

FIRST_PAINT = Line("app: exec to the first row of the queue", "ms", budget=500)
MARK = "wdfirstrow"
"""The name of the only job in the queue: when the terminal has got it, the row has been painted."""
PATIENCE_S = 20.0
RUNS = 7


def first_paint(rig: Rig) -> Measured:
    """Milliseconds, in a terminal of 120 x 40."""
    job = rig.submit("#!/bin/sh\ntrue\n", name=MARK, hold=True)
    found = [_paint(rig) for _ in range(RUNS + 1)]
    rig.client.call("cancel", jobs=[str(job)])
    return Measured(found[1:])


def _paint(rig: Rig) -> float:
    argv = console_script()
    environ = {**rig.home.environ, "TERM": "xterm-256color"}
    begun = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execve(argv[0], argv, environ)
    try:
        _read_until(terminal, MARK.encode())
        return (time.perf_counter() - begun) * 1e3
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def _read_until(terminal: int, mark: bytes) -> None:
    seen = b""
    deadline = time.monotonic() + PATIENCE_S
    while mark not in seen:
        left = deadline - time.monotonic()
        assert left > 0 and select.select([terminal], [], [], left)[0], f"no row after {PATIENCE_S:.0f} s"
        seen = seen[-len(mark) :] + os.read(terminal, 65536)


def measure(table: Table, rig: Rig) -> None:
    table.add(FIRST_PAINT, first_paint(rig))
