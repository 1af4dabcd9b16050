"""Response time of the command line, which users notice most often."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.support.waiting import eventually
from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import listens
from warpdeck.slurm.shims.shim_scripts import install

from .jobs import console_script
from .rig import Rig
from .table import Line, Measured, Table, timed

RUNS = 15
BARE = Line("python3 -c pass", "ms")
VERSION = Line("`warpdeck version`", "ms")
EMPTY = Line("`warpdeck queue`, empty", "ms", budget=60, slurm="queue")
FULL = Line("`warpdeck queue` at 10,000 jobs", "ms", budget=200)
SQUEUE = Line("`squeue`, empty", "ms", budget=60, slurm="queue")
SINFO = Line("`sinfo`, empty", "ms", budget=60, slurm="nodes")
FULL_SQUEUE = Line(
    "`squeue` at 10,000 jobs (Slurm's: tasks of one array)", "ms", budget=200, slurm="full_queue"
)
SBATCH = Line("`sbatch -H`, one after another", "/s", more_is_better=True, slurm="submit")
SUBMISSIONS = 40
"""The same number as for the other scheduler."""
FULL_SINFO = Line("`sinfo` at 10,000 jobs", "ms", budget=200)


def measure_start(table: Table, rig: Rig) -> None:
    """Measure commands with an idle controller and an empty queue."""
    table.add(BARE, timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), RUNS))
    for line, verb in ((VERSION, "version"), (EMPTY, "queue")):
        table.add(line, timed(lambda verb=verb: _call(rig, verb), RUNS))
    for line, name in ((SQUEUE, "squeue"), (SINFO, "sinfo")):
        table.add(line, timed(lambda name=name: _shim(rig, name), RUNS))
    table.add(SBATCH, _submission_rate(rig))


def measure_full_queue(table: Table, rig: Rig) -> None:
    """Measure a listing of all ten thousand rows."""
    table.add(FULL, timed(lambda: _call(rig, "queue", "--limit", "10000"), 7))
    for line, name in ((FULL_SQUEUE, "squeue"), (FULL_SINFO, "sinfo")):
        table.add(line, timed(lambda name=name: _shim(rig, name), 7))


def _submission_rate(rig: Rig) -> Measured:
    """Return the rate of sbatch for held jobs, with code snapshots taken in the background."""
    script = rig.submit_dir / "true.sh"
    script.write_text("#!/bin/sh\ntrue\n")
    # the first submission starts the worker, the recorder and the submitter
    _shim(rig, "sbatch", "-H", str(script))
    eventually(lambda: listens(rig.paths), what="a submitter that accepts connections")
    begun = time.perf_counter()
    for _ in range(SUBMISSIONS):
        _shim(rig, "sbatch", "-H", str(script))
    took = time.perf_counter() - begun
    _shim(rig, "scancel", "--me")
    rig.wait_until_idle()
    return Measured([SUBMISSIONS / took])


def _shim(rig: Rig, name: str, *words: str) -> None:
    """Run a Slurm command as a user's PATH has it."""
    program = Path(install(Paths(str(rig.home.path)))) / name
    done = subprocess.run(
        [program, *words], env=rig.home.environ, cwd=rig.submit_dir, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _call(rig: Rig, *argv: str) -> None:
    done = subprocess.run([*console_script(), *argv], env=rig.home.environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
