"""sbatch --wait and submit --wait wait for the end of the job even if the controller is killed or restarted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.waiting import WAIT_S, eventually

SBATCH, SUBMIT = "warpdeck.slurm.runtime.entry", "warpdeck.cli.main"
WAIT_FOR_GO = "while [ ! -e go ]; do sleep 0.05; done; exit"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module."""
    with temporary_home() as home:
        home.ok("up")
        yield home


def start(home: Home, program: str, *argv: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a waiting submission and return it after its job has an id."""
    child = subprocess.Popen(
        [sys.executable, "-m", program, *argv],
        cwd=cwd,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline().startswith("Submitted batch job ")
    return child


def test_waiting_submissions_survive_a_killed_and_restarted_controller(home: Home, short_tmp: Path) -> None:
    inner = f"sbatch -W -n1 -o /dev/null --wrap 'cd {short_tmp}; {WAIT_FOR_GO} 7' >marker; exit $?"
    array_script = f"{WAIT_FOR_GO} $((3 + SLURM_ARRAY_TASK_ID))"
    expected_codes = {start(home, SBATCH, "sbatch", "-W", "-n1", "--wrap", inner, cwd=short_tmp): 7}
    marker = short_tmp / "marker"
    eventually(lambda: marker.exists() and marker.read_text(), what="the job waits for another job")
    expected_codes[
        start(home, SBATCH, "sbatch", "-W", "-a", "0-1", "--wrap", array_script, cwd=short_tmp)
    ] = 4
    submit_argv = ("--no-snapshot", "--wrap", f"{WAIT_FOR_GO} 5")
    expected_codes[start(home, SUBMIT, "submit", "--wait", *submit_argv, cwd=short_tmp)] = 5
    home.kill_controller()
    home.ok("up")
    home.ok("down")
    (short_tmp / "go").touch()
    home.ok("up")
    for child, code in expected_codes.items():
        output = child.communicate(timeout=2 * WAIT_S)
        assert child.returncode == code, output
