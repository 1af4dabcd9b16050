"""The same measurements of other schedulers in the same run, by key; a scheduler that is not installed has no
values.

Slurm: the one whose srun is on PATH and answers, else (with WARPDECK_BENCH_PEERS set) Debian's packages in a
scratch
folder, see tests/slurm_parity/peer/slurm.sh. HyperQueue: the package from PyPI, server and worker in one process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.waiting import eventually

from . import cycle
from .jobs import BIG_ARRAY, PRINT_TIME, TRUE, time_of
from .login import login_environment
from .loopback import free_port
from .table import PeerReadings, timed

SCRIPT = Path(__file__).parents[1] / "slurm_parity" / "peer" / "slurm.sh"
WANTED = "WARPDECK_BENCH_PEERS"
STARTS = 5
TASKS = 300
SUBMISSIONS = 40
QUEUED = 10_000
PATIENCE_S = 120.0


def slurm() -> PeerReadings:
    """Return medians in milliseconds and jobs per second."""
    with TemporaryDirectory(prefix="wds", dir="/tmp") as folder:
        readings = {}
        with _running_slurm(Path(folder)) as environ:
            readings = {} if environ is None else _Slurm(Path(folder), environ).readings()
        if (Path(folder) / "root").exists():
            with _up(Path(folder), nodes=cycle.NODES) as environ:
                readings |= _Slurm(Path(folder), environ).cycles()
    return readings


@contextmanager
def _running_slurm(folder: Path) -> Iterator[dict[str, str] | None]:
    """Return the environment of Slurm's commands."""
    if shutil.which("sinfo") and subprocess.run(["sinfo"], capture_output=True, check=False).returncode == 0:
        yield dict(os.environ)
        return
    if not os.environ.get(WANTED) or not shutil.which("apt-get"):
        yield None
        return
    subprocess.run([str(SCRIPT), "get", str(folder)], check=True)
    with _up(folder) as environ:
        yield environ


@contextmanager
def _up(folder: Path, *, nodes: int = 0) -> Iterator[dict[str, str]]:
    """Start the packages in the folder, with `nodes` additional nodes that exist only in Slurm's tables."""
    lab = [str(SCRIPT)]
    try:
        subprocess.run([*lab, "up", str(folder), str(free_port()), str(nodes)], check=True)
        output_text = subprocess.run(
            [*lab, "run", str(folder), "env", "-0"], check=True, capture_output=True, text=True
        ).stdout
        yield dict(line.split("=", 1) for line in output_text.split("\0") if line)
    finally:
        subprocess.run([*lab, "down", str(folder)], check=False)


class _Slurm:
    """Commands of one Slurm. The output of its jobs is in `folder`."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._out = folder / "out"
        self._out.mkdir(exist_ok=True)
        self._environ = {**login_environment(), **environ}
        self._true_script = _script(folder / "true.sh", TRUE)
        self._time_script = _script(folder / "time.sh", PRINT_TIME)

    def readings(self) -> PeerReadings:
        """Return all readings. Jobs that stay held in the queue come last."""
        return {
            "run": timed(lambda: self._call("srun", "true"), 15).median,
            "queue": timed(lambda: self._call("squeue"), 15).median,
            "nodes": timed(lambda: self._call("sinfo"), 15).median,
            "start": statistics.median(self._start(number) for number in range(STARTS)),
            "array": self._array(),
            "submit": self._submit(),
            "full_queue": self._full_queue(),
            "big_array": timed(self._big_array, 3).median,
        }

    def cycles(self) -> PeerReadings:
        """Return the times of its scheduling cycles over a full cluster and a long queue."""
        return cycle.slurm_cycles(self._call, self._true_script)

    def _call(self, *argv: str) -> str:
        program = shutil.which(argv[0], path=self._environ["PATH"])
        assert program is not None, argv[0]
        done = subprocess.run(
            [program, *argv[1:]],
            env=self._environ,
            cwd=self._out,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return done.stdout

    def _start(self, number: int) -> float:
        output = self._out / f"start-{number}"
        begun = time.time()
        self._call("sbatch", "-o", str(output), str(self._time_script))
        started = eventually(lambda: time_of(output), what="the start time printed by the job")
        self._wait_until_idle()
        return (float(started) - begun) * 1e3

    def _array(self) -> float:
        (self._out / "array").mkdir()
        begun = time.perf_counter()
        self._call("sbatch", f"--array=1-{TASKS}", "-o", "array/%a.out", str(self._true_script))
        self._wait_until_idle()
        took = time.perf_counter() - begun
        assert len(list((self._out / "array").iterdir())) == TASKS, "every task has its log"
        return TASKS / took

    def _submit(self) -> float:
        begun = time.perf_counter()
        for _ in range(SUBMISSIONS):
            self._call("sbatch", "-H", str(self._true_script))
        return SUBMISSIONS / (time.perf_counter() - begun)

    def _full_queue(self) -> float:
        """Return the time of a listing with ten thousand rows of one array.

        Slurm would need three minutes for separate submissions.
        """
        self._call("sbatch", "-H", f"--array=1-{QUEUED}", str(self._true_script))
        assert len(self._call("squeue", "-r", "-h").splitlines()) >= QUEUED
        return timed(lambda: self._call("squeue", "-r"), 7).median

    def _big_array(self) -> None:
        self._call("sbatch", "-H", f"--array=0-{BIG_ARRAY - 1}", str(self._true_script))

    def _wait_until_idle(self) -> None:
        eventually(lambda: not self._call("squeue", "-h"), timeout_s=PATIENCE_S, what="an empty queue")


def _script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def hyperqueue() -> PeerReadings:
    """Return tasks per second of one job with output files, on the number of cores that our node has."""
    if importlib.util.find_spec("hyperqueue") is None:
        return {}
    with TemporaryDirectory(prefix="wdq", dir="/tmp") as folder:
        output_text = subprocess.run(
            [sys.executable, "-m", "tests.bench.hyperqueue", folder],
            env={**os.environ, **login_environment()},
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        ).stdout
    readings: PeerReadings = json.loads(output_text.splitlines()[-1])
    return readings
