"""python -m tests.bench.soak [MINUTES]: the app in a terminal of its own over the demo, walked through all its screens.

Each minute prints what app and controller hold (resident memory, descriptors, threads), the CPU that they take and the bytes
that the app writes a second. At the end the growth of the second half is judged: the first half warms caches up.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from warpdeck.controller.daemon import wait_for_start
from warpdeck.paths import Paths

from .jobs import console_script
from .rig import rss_mb
from .screen import forked_app

MINUTES = 60.0
ROUND_S = 20.0
KEYS = (
    "1",
    "j",
    "j",
    "u",
    "s",
    "2",
    "m",
    "<",
    ">",
    "3",
    "m",
    "\t",
    "4",
    "j",
    "G",
    "g",
    "b",
    "\x1b",
    "5",
    "6",
    "\t",
    "\t",
    "1",
    "u",
)
"""One round through the app; nothing is changed."""
MOST_GROWTH_MB = 8.0
"""Of the second half: allocators do not give back to the byte."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    """Of one process."""

    rss_mb: float
    descriptors: int
    threads: int
    cpu_s: float


def read(pid: int) -> Reading:
    """As the kernel counts."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    return Reading(rss_mb(pid), descriptors, int(fields[17]), ticks / TICKS_PER_S)


def walk(terminal: int, seconds: float) -> int:
    """Presses the keys of one round, and reads all that is painted meanwhile; how many bytes."""
    painted, pressed = 0, 0
    began = time.monotonic()
    while (spent := time.monotonic() - began) < seconds:
        if pressed < len(KEYS) and spent >= pressed * seconds / len(KEYS):
            os.write(terminal, KEYS[pressed].encode())
            pressed += 1
        if select.select([terminal], [], [], 0.2)[0]:
            painted += len(os.read(terminal, 1 << 20))
    return painted


def soak(minutes: float, app: int, controller: int, terminal: int) -> float:
    """The growth of the app and the controller together in the second half, in MB."""
    print(
        f"{'min':>5} {'app MB':>8} {'fd':>4} {'thr':>4} {'cpu %':>6} {'B/s':>7}   {'ctl MB':>8} {'fd':>4} {'cpu %':>6}"
    )
    began, half = time.monotonic(), 0.0
    total = 0.0
    before = read(app), read(controller)
    while (spent := time.monotonic() - began) < 60 * minutes:
        painted, start = 0, time.monotonic()
        while time.monotonic() - start < 60.0:
            painted += walk(terminal, ROUND_S)
        wall = time.monotonic() - start
        now = read(app), read(controller)
        cpu = [100 * (new.cpu_s - old.cpu_s) / wall for new, old in zip(now, before, strict=True)]
        ours, theirs = now
        print(
            f"{(spent + wall) / 60:>5.1f} {ours.rss_mb:>8.1f} {ours.descriptors:>4} {ours.threads:>4} {cpu[0]:>6.1f}"
            f" {painted / wall:>7.0f}   {theirs.rss_mb:>8.1f} {theirs.descriptors:>4} {cpu[1]:>6.1f}",
            flush=True,
        )
        total = ours.rss_mb + theirs.rss_mb
        if not half and spent + wall >= 30 * minutes:
            half = total
        before = now
    return total - half


@contextlib.contextmanager
def demo(home: str) -> Iterator[int]:
    """The demo's controller; its pid."""
    argv = [sys.executable, "-m", "warpdeck.sim.demo", "--home", home]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as child:
        wait_for_start(Paths(home), child)
        try:
            yield child.pid
        finally:
            assert child.stdin is not None
            child.stdin.close()


def main(words: list[str]) -> int:
    """Soaks for so many minutes."""
    minutes = float(words[0]) if words else MINUTES
    with tempfile.TemporaryDirectory(prefix="wd") as home:
        environ = {**os.environ, "WARPDECK_HOME": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home}
        with demo(home) as controller, forked_app(console_script(), environ) as (app, terminal):
            grown = soak(minutes, app, controller, terminal)
    held = grown <= MOST_GROWTH_MB
    print(
        f"grown in the second half: {grown:+.1f} MB, at most {MOST_GROWTH_MB:.0f}: {'ok' if held else 'OVER'}"
    )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
