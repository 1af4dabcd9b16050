"""A backup of a large database while jobs are submitted."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

from . import footprint
from .rig import Rig
from .table import Line, Measured, Table

QUIET_S = 8.0
PAUSE_S = 0.005

BACKUP = Line(f"backup with {footprint.STORED:,} jobs", "s", budget=30)
LONGEST_QUIET = Line("longest submission, without a backup", "ms")
LONGEST = Line("longest submission during a backup", "ms", budget=100)
VERIFY = Line(f"verify with {footprint.STORED:,} jobs", "s", budget=60)


def measure(table: Table, rig: Rig) -> None:
    """Back up and verify a database of many jobs while one client submits jobs."""
    rig.hang_up()
    rig.home.ok("down")
    asyncio.run(footprint.fill(rig.home.path / "state.db"))
    rig.home.ok("up")
    quiet = _submissions(rig, lambda begun: time.perf_counter() - begun > QUIET_S)
    took_s, during = _meanwhile(rig, "backup", str(rig.home.path.parent / "backup"))
    verify_s, _ = _meanwhile(rig, "verify")
    table.add(BACKUP, Measured([took_s]))
    table.add(LONGEST_QUIET, Measured([max(quiet) * 1000]))
    table.add(LONGEST, Measured([max(during) * 1000]))
    table.add(VERIFY, Measured([verify_s]))


def _meanwhile(rig: Rig, *argv: str) -> tuple[float, list[float]]:
    """Run a command, and return its time and those of the submissions meanwhile."""
    begun = time.perf_counter()
    command = subprocess.Popen([sys.executable, "-m", "warpdeck.cli.main", *argv], env=rig.home.environ)
    found = _submissions(rig, lambda _: command.poll() is not None)
    assert command.returncode == 0
    return time.perf_counter() - begun, found


def _submissions(rig: Rig, is_over: Callable[[float], bool]) -> list[float]:
    """Submit held jobs one after the other, and return their times in seconds."""
    begun, found = time.perf_counter(), []
    while not is_over(begun):
        at = time.perf_counter()
        rig.submit("#!/bin/sh\ntrue\n", hold=True)
        found.append(time.perf_counter() - at)
        time.sleep(PAUSE_S)
    return found
