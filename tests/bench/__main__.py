"""Prints a table: what, median, best, and the ratio to the peers that are installed (Slurm's srun; HyperQueue from PyPI)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.home import Home
from tests.waiting import eventually

RUNS = 9
TASKS = 1000


def timed(work: Callable[[], object], runs: int = RUNS) -> list[float]:
    """Seconds of each run, after one that does not count."""
    work()
    found = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return found


def submit_to_running(home: Home) -> list[float]:
    """From the commit of the submission to the process's start, by the controller's and the agent's clocks."""
    found = []
    for _ in range(RUNS):
        job = home.json("submit", "--no-snapshot", "--wrap", "true", cwd=home.path.parent)["job_id"]
        eventually(lambda job=job: home.job(job)["end"], what="it has ended")
        row = home.job(job)
        found.append(row["start"] - row["submit"])
    return found


def array_rate(home: Home) -> float:
    """Tasks a second of one array, from its submission to the last end."""
    argv = ["submit", "--no-snapshot", "--array", f"1-{TASKS}", "-o", "array/%a.out", "--wrap", "true"]
    job = home.json(*argv, cwd=home.path.parent)["job_id"]

    def rows() -> list[dict[str, float]]:
        found = home.json("queue", "--all", "-n", "100000")
        return [
            row for row in found if row["array_job_id"] == job and row["end"] and not row["tasks_pending"]
        ]

    eventually(lambda: len(rows()) == TASKS, timeout_s=300, what="all tasks have ended")
    ended = rows()
    return TASKS / (max(row["end"] for row in ended) - min(row["submit"] for row in ended))


def peer_srun() -> float | None:
    """The median of Slurm's own `srun true`, if a Slurm answers here."""
    if shutil.which("srun") is None or subprocess.run(["sinfo"], capture_output=True, check=False).returncode:
        return None
    return statistics.median(timed(lambda: subprocess.run(["srun", "true"], check=True)))


def line(what: str, value: str, peer: str = "") -> None:
    print(f"{what:<44} {value:>14}  {peer}", flush=True)


def milliseconds(found: list[float]) -> str:
    return f"{statistics.median(found) * 1e3:.1f} ms"


def main() -> int:
    """Measures on this machine's own node."""
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs; medians of {RUNS}")
    with tempfile.TemporaryDirectory(prefix="wdbench", dir="/tmp") as folder:
        home = Home(Path(folder) / "home")
        try:
            home.ok("up")
            eventually(lambda: home.json("node", "ls")[0]["state"] == "idle", what="the node is there")
            line(
                "python -c pass",
                milliseconds(timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))),
            )
            line("warpdeck version", milliseconds(timed(lambda: home.ok("version"))))
            line("warpdeck queue, empty", milliseconds(timed(lambda: home.ok("queue"))))
            line("submit to running, local agent", milliseconds(submit_to_running(home)))
            ours = timed(lambda: home.ok("run", "true"))
            srun = peer_srun()
            ratio = (
                "Slurm: not installed"
                if srun is None
                else f"x {statistics.median(ours) / srun:.2f} of Slurm's"
            )
            line("warpdeck run true", milliseconds(ours), ratio)
            known = importlib.util.find_spec("hyperqueue") is not None
            line(
                f"array of {TASKS} `true`",
                f"{array_rate(home):.0f} /s",
                "" if known else "HyperQueue: not installed",
            )
        finally:
            home.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
