"""`warpdeck pipeline` with real jobs: a failed stage runs again, and killed commands lose and repeat nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

FILE = """\
[stages.prepare]
run = 'echo prepared >> "$SLURM_SUBMIT_DIR/ran"'
options = { array = "0-2" }
[stages.train]
script = "train.sh"
args = ["12"]
after = ["prepare"]
[stages.evaluate]
run = 'echo evaluated >> "$SLURM_SUBMIT_DIR/ran"'
after = ["train"]
"""
TRAIN = """\
#!/bin/sh
[ -e "$SLURM_SUBMIT_DIR/data" ] || exit 3
echo "trained $1" >> "$SLURM_SUBMIT_DIR/ran"
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    with temporary_home() as home:
        home.ok("up")
        yield home


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "train.sh").write_text(TRAIN)
    (tmp_path / "work.toml").write_text(FILE)
    return str(tmp_path / "work.toml")


def states(site: Home, file: str) -> dict[str, tuple[str, int]]:
    shown = site.json("pipeline", "show", file)
    return {stage["stage"]: (stage["state"], stage["attempt"]) for stage in shown["stages"]}


def test_a_failed_stage_runs_again_and_complete_ones_are_kept(site: Home, file: str, tmp_path: Path) -> None:
    assert states(site, file) == {
        "prepare": ("missing", 0),
        "train": ("missing", 0),
        "evaluate": ("missing", 0),
    }
    done = site.run("pipeline", "run", "--wait", file)
    assert done.returncode == 1, done.stderr
    assert states(site, file) == {
        "prepare": ("complete", 1),
        "train": ("failed", 1),
        "evaluate": ("failed", 1),
    }
    (tmp_path / "data").touch()
    site.ok("pipeline", "run", "--wait", file)
    assert states(site, file) == {
        "prepare": ("complete", 1),
        "train": ("complete", 2),
        "evaluate": ("complete", 2),
    }
    assert (tmp_path / "ran").read_text().splitlines() == ["prepared"] * 3 + ["trained 12", "evaluated"]
    assert "3 stages (3 complete)" in site.run("pipeline", "run", file).stderr
    site.ok("pipeline", "run", "--wait", "--again", "evaluate", file)
    assert states(site, file)["evaluate"] == ("complete", 3)
    assert site.run("pipeline", "run", "--again", "test", file).returncode == 1


def test_commands_that_are_killed_or_run_at_once_submit_each_stage_once(
    site: Home, file: str, tmp_path: Path
) -> None:
    (tmp_path / "data").touch()
    argv = [sys.executable, "-m", "warpdeck.cli.main", "pipeline", "run", "--wait", file]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(argv, env=site.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    for stage in ("prepare", "train", "evaluate"):
        driver = start()
        eventually(lambda stage=stage: states(site, file)[stage][1] >= 1, what=f"the stage {stage}")
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
        site.kill_controller()
    for driver in [start(), start()]:
        assert driver.wait(timeout=120) == 0
    assert Counter((tmp_path / "ran").read_text().splitlines()) == {
        "prepared": 3,
        "trained 12": 1,
        "evaluated": 1,
    }
    assert set(states(site, file).values()) == {("complete", 1)}
