"""Jobs that a user pauses, with the real controller, agent and processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.agent import lock_holder
from tests.support.home import Home
from tests.support.processes import has_ended
from tests.support.waiting import eventually

TRAIN = """#!/bin/sh
#SBATCH --job-name=train --output=train.out --open-mode=append
echo "start ${SLURM_RESTART_COUNT:-0} from $(cat checkpoint 2>/dev/null || echo nothing) in $PWD"
[ ! -e checkpoint ] || exit 0
sh -c 'trap "touch asked; until [ -e gate ]; do sleep 0.05; done; echo 7 >checkpoint; exit 0" TERM
echo $$ >ready.new; mv ready.new ready; while :; do sleep 0.05; done'
echo "the script went on"
"""


def begin(home: Home) -> tuple[int, Path]:
    """Start a job that needs the file `gate` to save its work. Returns its id and its folder."""
    folder = home.path.parent / "run"
    folder.mkdir()
    (folder / "train.sh").write_text(TRAIN)
    job = int(home.json("submit", "--no-snapshot", "train.sh", cwd=folder)["job_id"])
    eventually((folder / "ready").exists, what="the program handles TERM")
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    return job, folder


def lines_of(folder: Path) -> list[str]:
    """Return the lines of the job's script, without those of the agent and of the shell about its child."""
    lines = (folder / "train.out").read_text().splitlines()
    return [line for line in lines if line.startswith(("start", "the script"))]


def kill_now(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: has_ended(pid), what="the end of the process")


@pytest.mark.parametrize("killed", ["none", "controller", "agent", "rank"])
def test_a_paused_job_saves_its_work_and_continues_from_it(home: Home, killed: str) -> None:
    job, folder = begin(home)
    assert home.json("pause", str(job)) == {"jobs": [str(job)], "errors": []}
    eventually((folder / "asked").exists, what="the program got TERM")
    assert home.state(job) == "COMPLETING"
    if killed == "controller":
        home.kill_controller()
        home.ok("up")
    elif killed == "agent":
        kill_now(lock_holder(home.path / "agent" / "agent.lock"))
    elif killed == "rank":
        (folder / "checkpoint").write_text("6\n")
        kill_now(int((folder / "ready").read_text()))
    (folder / "gate").touch()
    eventually(lambda: home.state(job) == "COMPLETED", what="the job has ended")
    step = "6" if killed == "rank" else "7"
    assert lines_of(folder) == [f"start 0 from nothing in {folder}", f"start 1 from {step} in {folder}"]
    row = home.job(job)
    assert (row["restarts"], row["exit_code"]) == (1, "0:0")
    events = [event["text"] for event in home.json("show", str(job))["events"]]
    assert any(text.startswith("pause (at most 120 s to save its work) requested") for text in events), events


def test_a_held_pause_lasts_until_a_release(home: Home) -> None:
    job, folder = begin(home)
    (folder / "gate").touch()
    home.ok("pause", "--hold", "--grace", "60", str(job))
    eventually(lambda: home.state(job) == "PENDING", what="the job has left its GPUs")
    assert home.job(job)["held"]
    assert (folder / "checkpoint").read_text() == "7\n"
    again = home.run("pause", str(job))
    assert (again.returncode, "not running (PENDING)" in again.stderr) == (1, True), again.stderr
    home.ok("release", str(job))
    eventually(lambda: home.state(job) == "COMPLETED", what="the job has ended")
    assert lines_of(folder)[-1] == f"start 1 from 7 in {folder}"


def test_a_job_that_forbids_a_requeue_cannot_be_paused(home: Home) -> None:
    job = int(home.json("submit", "--no-snapshot", "--no-requeue", "--wrap", "sleep 1000")["job_id"])
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    refused = home.run("pause", str(job))
    assert (refused.returncode, "--no-requeue" in refused.stderr) == (1, True), refused.stderr
    assert home.state(job) == "RUNNING"
