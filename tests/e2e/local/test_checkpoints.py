"""A program of the documentation that is paused, and that reaches its limit, ends with the same loss."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.agent import lock_holder
from tests.support.home import Home
from tests.support.waiting import eventually

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "checkpoints.md"
BATCH = """#!/bin/sh
#SBATCH --requeue=limit --time=1 --output=train.out
exec {python} train.py 0.2
"""


def program() -> str:
    """Return the program of the guide."""
    found = re.search(r"```python title=\"train.py\"\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert found is not None
    return found.group(1)


def loss_of(text: str) -> str:
    return text.rpartition("loss ")[2].strip()


@pytest.fixture
def folder(short_tmp: Path) -> Path:
    (short_tmp / "train.py").write_text(program())
    (short_tmp / "train.sh").write_text(BATCH.format(python=sys.executable))
    return short_tmp


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The loss of a run without an interruption and without a controller."""
    path = tmp_path_factory.mktemp("whole")
    (path / "train.py").write_text(program())
    argv = [sys.executable, "train.py", "0"]
    return loss_of(subprocess.run(argv, cwd=path, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("killed", ["none", "controller", "agent"])
def test_a_job_at_its_limit_continues_to_the_same_loss(
    home: Home, folder: Path, whole: str, killed: str
) -> None:
    job = int(home.json("submit", "--no-snapshot", "train.sh", cwd=folder)["job_id"])
    eventually((folder / "run.npz").exists, what="the first checkpoint")
    if killed == "controller":
        home.kill_controller()
        home.ok("up")
    elif killed == "agent":
        os.kill(lock_holder(home.path / "agent" / "agent.lock"), signal.SIGKILL)
    eventually(lambda: home.state(job) == "RUNNING", what="the job is known to run")
    assert "at limit  returns to the queue after a checkpoint" in home.ok("show", str(job))
    home.request("job_update", jobs=[str(job)], change={"time_limit_s": 5})
    eventually(lambda: home.job(job)["restarts"] == 1, what="the job was requeued at its limit")
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs again")
    home.request("job_update", jobs=[str(job)], change={"time_limit_s": 600})
    eventually(lambda: home.state(job) == "COMPLETED", what="the job has ended")
    output = (folder / "train.out").read_text()
    assert loss_of(output) == whole
    begins = [int(step) for step in re.findall(r"begins at step (\d+)", output)]
    assert begins[0] == 0 < begins[1] and len(begins) == 2, begins


def test_a_paused_program_continues_to_the_same_loss(home: Home, folder: Path, whole: str) -> None:
    job = int(home.json("submit", "--no-snapshot", "train.sh", cwd=folder)["job_id"])
    eventually((folder / "run.npz").exists, what="the first checkpoint")
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    home.ok("pause", str(job))
    eventually(lambda: home.state(job) == "COMPLETED", what="the job has ended")
    assert home.job(job)["restarts"] == 1
    assert loss_of((folder / "train.out").read_text()) == whole
