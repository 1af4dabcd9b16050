"""Measure the start of the app, its keys, and its CPU time when idle, in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from .jobs import console_script
from .rig import Rig, cpu_percent
from .table import Line, Measured, Table

FIRST_PAINT = Line("`warpdeck`, exec to the first row of the queue", "ms", budget=300)
DEMO_FRAME = Line("`warpdeck demo`, exec to its first words", "ms", budget=400)
DEMO_QUEUE = Line("`warpdeck demo`, exec to a filled queue", "ms", budget=1000)
IDLE_CPU = Line("app, idle, one job in the queue, CPU of one core", "%", budget=1)
IDLE_S, SETTLE_S = 60.0, 8.0
"""Seconds of the measurement, and seconds before it in which the app loads the rest of its modules."""
MARK = "wdfirstrow"
"""Name of the only job in the queue. The row is painted when the terminal receives this name."""
PROMPT = Line("app: key `i` to the shell's prompt, agent over SSH", "ms", budget=300)
PROMPT_MARK = "wdprompt> "
PATIENCE_S = 20.0
RUNS = 7
DEMO_RUNS = 5
DEMO_WORDS, DEMO_ROW = b"simulated cluster", b"vit-l-pretrain"
"""Parts of the progress line at the start of the demo, and of the first running job in its queue."""


def first_paint(rig: Rig) -> Measured:
    """Measure milliseconds in a terminal of 120 x 40."""
    job = rig.submit("#!/bin/sh\ntrue\n", name=MARK, hold=True)
    found = [_paint(rig) for _ in range(RUNS + 1)]
    rig.client.call("cancel", jobs=[str(job)])
    return Measured(found[1:])


def demo_start(rig: Rig) -> tuple[Measured, Measured]:
    """Measure milliseconds to the first words of the demo, and to the rows of its queue."""
    words, rows = [], []
    for _ in range(DEMO_RUNS):
        begun = time.perf_counter()
        with forked_app([*console_script(), "demo"], rig.home.environ) as (_, terminal):
            _read_until(terminal, DEMO_WORDS)
            words.append((time.perf_counter() - begun) * 1e3)
            _read_until(terminal, DEMO_ROW)
            rows.append((time.perf_counter() - begun) * 1e3)
    return Measured(words), Measured(rows)


def idle_cpu(rig: Rig) -> Measured:
    """Measure the CPU of the app while nothing changes on the screen."""
    job = rig.submit("#!/bin/sh\ntrue\n", name=MARK, hold=True)
    with forked_app(console_script(), rig.home.environ) as (guard, terminal):
        _read_until(terminal, MARK.encode())
        [app] = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        _drain(terminal, for_s=SETTLE_S)
        reader = Thread(target=_drain, args=(terminal,), kwargs={"for_s": IDLE_S})
        reader.start()
        found = cpu_percent(int(app), over_s=IDLE_S)
        reader.join()
    rig.client.call("cancel", jobs=[str(job)])
    return Measured([found])


def _drain(terminal: int, *, for_s: float) -> None:
    """Read the output of the app, as a terminal does."""
    until = time.monotonic() + for_s
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 65536)


def shell_prompt(rig: Rig) -> Measured:
    """Measure milliseconds from the two keys (i, Enter) to the prompt of a shell on the node, repeatedly in one app."""
    found = []
    with _app(rig, SHELL="/bin/sh", PS1=PROMPT_MARK) as terminal:
        _read_until(terminal, b"Quit")
        for _ in range(RUNS + 1):
            begun = time.perf_counter()
            os.write(terminal, b"i\r")
            _read_until(terminal, PROMPT_MARK.encode())
            found.append((time.perf_counter() - begun) * 1e3)
            os.write(terminal, b"exit\n")
            _read_until(terminal, b"Quit")
            rig.wait_until_idle()
    return Measured(found[1:])


def _paint(rig: Rig) -> float:
    begun = time.perf_counter()
    with _app(rig) as terminal:
        _read_until(terminal, MARK.encode())
        return (time.perf_counter() - begun) * 1e3


@contextmanager
def _app(rig: Rig, **environ: str) -> Iterator[int]:
    """Run the app, and return our end of its terminal."""
    with forked_app(console_script(), {**rig.home.environ, **environ}) as (_, terminal):
        yield terminal


@contextmanager
def forked_app(argv: list[str], environ: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Run the app in a terminal of 120 x 40. Return its pid and our end of the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execve(argv[0], argv, {"TERM": "xterm-256color", **environ})
    try:
        yield pid, terminal
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def _read_until(terminal: int, mark: bytes) -> None:
    seen = b""
    deadline = time.monotonic() + PATIENCE_S
    while mark not in seen:
        left = deadline - time.monotonic()
        assert left > 0 and select.select([terminal], [], [], left)[0], (
            f"{mark!r} missing after {PATIENCE_S:.0f} s"
        )
        seen = seen[-len(mark) :] + os.read(terminal, 65536)


def measure(table: Table, rig: Rig) -> None:
    table.add(FIRST_PAINT, first_paint(rig))
    for line, found in zip((DEMO_FRAME, DEMO_QUEUE), demo_start(rig), strict=True):
        table.add(line, found)
    table.add(IDLE_CPU, idle_cpu(rig))
