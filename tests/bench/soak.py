"""Search for leaks of the app over the demo: `python -m tests.bench.soak [MINUTES]`.

The app is used in rounds through all its screens, dialogs, sizes and themes. After each round of at least a minute,
a line shows the memory, descriptors, threads and CPU use of app and controller, and the bytes per second that the
app writes. At the end, the growth in the second half is judged. The first half fills caches.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.waiting import eventually
from warpdeck.base.controller_daemon import wait_for_start
from warpdeck.base.paths import Paths

from .jobs import console_script
from .rig import rss_mb
from .screen import forked_app

MINUTES = 60.0
MINUTE_S = 60.0
KEY_S = 0.25
"""Time between keys."""
PATIENCE_S = 30.0
SIZES = ((24, 80), (40, 120), (60, 200))
TINY = (6, 24)
"""A terminal too small for the app, which shows an error instead."""
ESCAPE = "\x1b[27u"
"""The escape key of the kitty keyboard protocol. The app could read a plain ESC as Alt with the next key."""


class Station(NamedTuple):
    """Keys to press, and a text that the app must paint after a resize."""

    keys: tuple[str, ...]
    shows: str


STATIONS = (
    Station(("1", "j", "j", "u", "k", "s", "S", "z", "z", " ", " "), "WHY"),
    Station(("/", *"state:F", "\r", ESCAPE, "C"), "Columns"),
    Station((ESCAPE, "W"), "Save"),
    Station((ESCAPE, ESCAPE, ESCAPE, "/", *"state:R", "\r", "g", "c"), "Copy command"),
    Station(("n", ESCAPE, "n"), "New job"),
    Station(("\x07",), "each combination"),
    Station((ESCAPE, "\x0f"), "Fill"),
    Station((ESCAPE, ESCAPE, "2", "m", "m", "m", "m", "m"), "gpu01"),
    Station(("I",), "Open job"),
    Station((ESCAPE, "<", "<"), " ago"),
    Station((ESCAPE, ESCAPE, "2", "v", "G", "v", "g", "d"), "Drain gpu01"),
    Station((ESCAPE, "A"), "Add a node"),
    Station((ESCAPE, "p", "m", "m", "m"), "NVLink"),
    Station(
        (ESCAPE, "1", "/", *"state:R !sweep", "\r", "g", "\r", "/", *"step", "\r", "n", "N", "w", "E", "f"),
        "[Log]",
    ),
    Station(("m", "v", "x", "~"), "[Metrics]"),
    Station(("\t",), "[Details]"),
    Station(("\t",), "[GPUs]"),
    Station(("\t",), "[Code]"),
    Station(("\t",), "[Events]"),
    Station(("4", "j", "G", "g", "s", "b"), "Usage:"),
    Station((ESCAPE,), "history:"),
    Station(("E",), ".csv"),
    Station((ESCAPE, "5", "j"), "forwarded"),
    Station(("6",), "[Partitions]"),
    *(Station(("\t",), "]") for _ in range(7)),
    Station(("w",), "Enter"),
    Station((ESCAPE, "1", ":", *"gpu03"), "gpu03"),
    Station((ESCAPE, "?", "G"), "closes"),
    Station((ESCAPE, "@"), "Action log"),
    Station((ESCAPE, "K", "j"), "preset"),
    Station((ESCAPE, "T", "j", "j"), "GROUND"),
    Station((ESCAPE, ESCAPE, "t", "M", "M", "u", "\x0c"), "WHY"),
)
"""One round through the app. Its only lasting change is the next theme."""
ALLOWED = {"MB": 1.5, "descriptors": 2, "threads": 2}
"""Allowed growth of each process in the second half. Allocators keep some memory, and threads are reused."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    """Resources of one process."""

    rss_mb: float
    descriptors: int
    threads: int
    cpu_s: float


def read(pid: int) -> Reading:
    """Read the resources from /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    return Reading(rss_mb(pid), descriptors, int(fields[17]), ticks / TICKS_PER_S)


def app_pid(guard: int) -> int:
    """Return the pid of the app: the child of the process that guards the terminal."""
    below = Path(f"/proc/{guard}/task/{guard}/children")
    return int(eventually(lambda: below.read_text().split(), what="the process of the app")[0])


def text_of(shown: bytes) -> str:
    """Return the painted text, one line for each positioned piece."""
    text = shown.decode("utf-8", "replace")
    pieces = re.split(r"\x1b\[\d+;\d+H", text)
    return "\n".join(re.sub(r"\x1b\[[?<>=]?[\d;]*[A-Za-z]", "", piece).rstrip() for piece in pieces)


class Walker:
    """Types keys at one terminal and reads its output."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._turns = itertools.cycle(SIZES)
        self.painted = 0
        """Number of bytes that the app has written."""

    def minute(self) -> None:
        """Run rounds until a minute has passed."""
        began = time.monotonic()
        while time.monotonic() - began < MINUTE_S:
            for station in STATIONS:
                self._go(station)
            self._resize(*TINY)
            self._read_output(KEY_S)
            self._resize(*next(self._turns))

    def _go(self, station: Station) -> None:
        """Visit a station. Raise AssertionError if the app does not show the expected text."""
        for key in station.keys:
            os.write(self._terminal, key.encode())
            self._read_output(KEY_S)
        self._resize(*next(self._turns))
        shown, began = b"", time.monotonic()
        while station.shows.encode() not in shown:
            assert time.monotonic() - began < PATIENCE_S, (
                f"no {station.shows} after {station.keys}:\n{text_of(shown)}"
            )
            shown += self._read_output(KEY_S)

    def _resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read_output(self, seconds: float) -> bytes:
        """Return the app's output of this time span. Raise AssertionError if the app has ended."""
        shown, began = b"", time.monotonic()
        while (left := seconds - (time.monotonic() - began)) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                try:
                    shown += os.read(self._terminal, 1 << 20)
                except OSError as error:  # EIO
                    raise AssertionError(f"the app has ended:\n{text_of(shown)}") from error
        self.painted += len(shown)
        return shown


def soak(minutes: float, app: int, controller: int, terminal: int) -> bool:
    """Return whether app and controller stay within the allowed growth in the second half."""
    print(
        f"{'min':>5} {'app MB':>8} {'fd':>4} {'thr':>4} {'cpu %':>6} {'B/s':>7}   {'ctl MB':>8} {'fd':>4} {'cpu %':>6}"
    )
    began = time.monotonic()
    walk = Walker(terminal)
    before = read(app), read(controller)
    half: tuple[Reading, Reading] | None = None
    while (spent := time.monotonic() - began) < MINUTE_S * minutes:
        painted, start = walk.painted, time.monotonic()
        walk.minute()
        wall = time.monotonic() - start
        now = read(app), read(controller)
        cpu = [100 * (new.cpu_s - old.cpu_s) / wall for new, old in zip(now, before, strict=True)]
        app_now, controller_now = now
        print(
            f"{(spent + wall) / MINUTE_S:>5.1f} {app_now.rss_mb:>8.1f} {app_now.descriptors:>4} {app_now.threads:>4} {cpu[0]:>6.1f}"
            f" {(walk.painted - painted) / wall:>7.0f}   {controller_now.rss_mb:>8.1f} {controller_now.descriptors:>4} {cpu[1]:>6.1f}",
            flush=True,
        )
        if half is None and spent + wall >= MINUTE_S * minutes / 2:
            half = now
        before = now
    results = [
        is_within_allowance(*each) for each in zip(("app", "controller"), half or before, before, strict=True)
    ]
    return all(results)


def is_within_allowance(name: str, half: Reading, end: Reading) -> bool:
    """Print the growth of each resource; return whether all are within the allowance."""
    print(f"{name} in the second half:")
    grown = [new - old for old, new in zip(half[: len(ALLOWED)], end, strict=False)]
    for (what, most), more, now in zip(ALLOWED.items(), grown, end, strict=False):
        print(f"{more:>+8.2g} to {now:.3g} {what}, at most {most:+g}: {'ok' if more <= most else 'OVER'}")
    return all(more <= most for more, most in zip(grown, ALLOWED.values(), strict=True))


@contextlib.contextmanager
def demo(home: str) -> Iterator[int]:
    """Run the demo's controller; yield its pid."""
    argv = [sys.executable, "-m", "warpdeck.sim.demo", "--home", home]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as child:
        wait_for_start(Paths(home), child)
        try:
            yield child.pid
        finally:
            assert child.stdin is not None
            child.stdin.close()


def main(words: list[str]) -> int:
    """Run for the given number of minutes."""
    minutes = float(words[0]) if words else MINUTES
    with tempfile.TemporaryDirectory(prefix="wd") as home:
        environ = {**os.environ, "WARPDECK_HOME": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}
        with demo(home) as controller, forked_app(console_script(), environ) as (guard, terminal):
            is_stable = soak(minutes, app_pid(guard), controller, terminal)
    return 0 if is_stable else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
