"""Throughput of jobs: start latency, whole arrays, and submissions."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.waiting import eventually
from warpdeck.client.blocking_client import SyncClient
from warpdeck.slurm.shims.shim_scripts import install
from warpdeck_agent.wire.frames import json_frame

from .rig import Rig, rss_mb
from .table import Line, Measured, Table, timed

STARTS = 21
TASKS = 1000
ARRAYS = 5
"""Number of arrays; the rate varies on a machine that is not idle."""
TRUE = "#!/bin/bash\ntrue\n"
SUBMISSIONS = 10_000
CONNECTIONS = 4
WINDOW = 64
"""Concurrent requests per connection: the maximum that the controller accepts from one client."""
BIG_ARRAY = 100_000
PRINT_TIME = "#!/bin/sh\nexec date +%s.%N\n"
"""A job that prints the start time of its own program."""

LOCAL_START = Line("submit to running, agent of this machine", "ms", budget=30, slurm="start")
SSH_START = Line("submit to running, agent over SSH", "ms", budget=30, slurm="start")
STEP = Line("`srun true`, exec to exit", "ms", slurm="run")
RUN = Line("`warpdeck run true`, exec to exit", "ms", budget=50, slurm="run")
ARRAY = Line(
    f"`submit --wait`, array of {TASKS:,} bash scripts",
    "/s",
    budget=1000,
    more_is_better=True,
    slurm="array",
    hyperqueue="array",
)
WIRE_ARRAY = Line("the same over an open connection, without code", "/s", more_is_better=True)
SUBMIT = Line(
    f"{SUBMISSIONS:,} submissions, each durable", "/s", budget=5000, more_is_better=True, slurm="submit"
)
BIG_TIME = Line("--array=0-99999 accepted", "ms", budget=30, slurm="big_array")
BIG_MEMORY = Line("--array=0-99999 in the controller", "MB", budget=20)


def start_latency(rig: Rig) -> Measured:
    """Return the time from before the submission to the start of the job's own program."""
    found = []
    for number in range(STARTS + 1):
        output = rig.submit_dir / f"start-{number}"
        begun = time.time()
        rig.submit(PRINT_TIME, output=str(output))
        started = eventually(lambda path=output: time_of(path), what="the start time printed by the job")
        found.append((float(started) - begun) * 1e3)
        rig.wait_until_idle()
    return Measured(found[1:])


def time_of(path: Path) -> str:
    """Return the output of a PRINT_TIME job; "" until it is a whole line."""
    text = path.read_text() if path.exists() else ""
    return text if text.endswith("\n") else ""


def run_true(rig: Rig) -> Measured:
    """Return the time of `warpdeck run true`, from exec to exit."""
    argv = [*console_script(), "run", "true"]
    return timed(lambda: subprocess.run(argv, env=rig.home.environ, cwd=rig.submit_dir, check=True), 15)


def srun_true(rig: Rig) -> Measured:
    """Return the time of `srun true` with the srun on a user's PATH."""
    program = Path(install(rig.paths)) / "srun"
    return timed(
        lambda: subprocess.run([program, "true"], env=rig.home.environ, cwd=rig.submit_dir, check=True), 15
    )


def console_script() -> list[str]:
    """Return the command line of the installed program."""
    installed = Path(sys.executable).with_name("warpdeck")
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "warpdeck.cli.main"]


def array_rates(rig: Rig) -> Measured:
    """Return tasks per second of consecutive `warpdeck submit --wait`, from exec to exit, with a log for each task."""
    script = rig.submit_dir / "true.sh"
    script.write_text(TRUE)
    found = []
    for number in range(ARRAYS):
        logs = rig.submit_dir / f"logs/{number}"
        argv = [
            *console_script(),
            "submit",
            "--wait",
            f"--array=1-{TASKS}",
            "-o",
            f"{logs}/%a.out",
            str(script),
        ]
        begun = time.perf_counter()
        subprocess.run(argv, env=rig.home.environ, cwd=rig.submit_dir, check=True, stdout=subprocess.DEVNULL)
        found.append(TASKS / (time.perf_counter() - begun))
        assert len(list(logs.iterdir())) == TASKS, "every task has its log"
    return Measured(found)


def wire_array_rates(rig: Rig) -> Measured:
    """Return tasks per second of consecutive arrays, from the controller's time of submission to its last end."""
    return Measured([wire_array_rate(rig, f"array{number}") for number in range(ARRAYS)])


def wire_array_rate(rig: Rig, folder: str) -> float:
    """Return the rate of one array. Each of its tasks writes an output file."""
    ranges = [[1, TASKS, 1]]
    job = rig.submit(TRUE, array={"ranges": ranges}, output=f"{folder}/%a.out")
    rig.wait_until_idle()
    rows = rig.rows(job, limit=TASKS)
    assert len(rows) == TASKS, f"{len(rows)} rows of {TASKS}"
    assert all(row["state"] == "COMPLETED" for row in rows), "every task ended well"
    assert len(list((rig.submit_dir / folder).iterdir())) == TASKS, "every task has its log"
    return float(TASKS / (max(row["end"] for row in rows) - min(row["submit"] for row in rows)))


def submission_rate(rig: Rig) -> Measured:
    """Return separate submissions per second over a few connections.

    Each is answered after its commit, and the jobs stay held.
    """
    request = rig.request("#!/bin/sh\ntrue\n", hold=True)
    share = SUBMISSIONS // CONNECTIONS
    frames = [json_frame({"t": "submit", "id": number + 1, "request": request}) for number in range(share)]
    clients = [SyncClient.connect(rig.paths, start=False) for _ in range(CONNECTIONS)]
    threads = [threading.Thread(target=_submit_all, args=(client, frames)) for client in clients]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    for client in clients:
        client.close()
    assert rig.counts().get("PENDING", 0) >= SUBMISSIONS
    return Measured([SUBMISSIONS / took])


def _submit_all(client: SyncClient, frames: Sequence[bytes]) -> None:
    """Send the frames one window at a time, and read the answers."""
    link = client._link
    for start in range(0, len(frames), WINDOW):
        window = frames[start : start + WINDOW]
        link.sendall(b"".join(window))
        for _ in window:
            event = client._next(None)
            assert event is not None and event[1] == "ok", event


def big_array(rig: Rig) -> tuple[Measured, Measured]:
    """Return (acceptance time, growth of the controller's memory) of held arrays of BIG_ARRAY tasks."""
    before = rss_mb(rig.controller_pid())
    array = {"ranges": [[0, BIG_ARRAY - 1, 1]]}
    took = timed(lambda: rig.submit("#!/bin/sh\ntrue\n", array=array, hold=True), 5)
    return took, Measured([max(0.0, rss_mb(rig.controller_pid()) - before) / 6])


def measure(table: Table, rig: Rig) -> None:
    """Measure all rows of this module except the one over SSH."""
    table.add(LOCAL_START, start_latency(rig))
    table.add(STEP, srun_true(rig))
    table.add(RUN, run_true(rig))
    table.add(ARRAY, array_rates(rig))
    table.add(WIRE_ARRAY, wire_array_rates(rig))
    accepted, memory = big_array(rig)
    table.add(BIG_TIME, accepted)
    table.add(BIG_MEMORY, memory)
    table.add(SUBMIT, submission_rate(rig))
