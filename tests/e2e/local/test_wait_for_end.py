"""sbatch --wait and submit --wait: they wait for the job, whatever becomes of the controller."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.waiting import WAIT_S, eventually

SBATCH, SUBMIT = "warpdeck.slurm.runtime.entry", "warpdeck.cli.main"
HELD = "while [ ! -e go ]; do sleep 0.05; done; exit"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One for all tests of the module."""
    with temporary_home() as made:
        made.ok("up")
        yield made


def start(home: Home, program: str, *words: str, cwd: Path) -> subprocess.Popen[str]:
    """A waiting submission whose job has its number."""
    child = subprocess.Popen(
        [sys.executable, "-m", program, *words],
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


def test_who_waits_for_a_job_waits_on_over_a_killed_and_a_restarted_controller(
    home: Home, short_tmp: Path
) -> None:
    inner = f"sbatch -W -n1 -o /dev/null --wrap 'cd {short_tmp}; {HELD} 7' >told; exit $?"
    words = f"{HELD} $((3 + SLURM_ARRAY_TASK_ID))"
    waiting = {start(home, SBATCH, "sbatch", "-W", "-n1", "--wrap", inner, cwd=short_tmp): 7}
    told = short_tmp / "told"
    eventually(lambda: told.exists() and told.read_text(), what="the job waits for a job of its own")
    waiting[start(home, SBATCH, "sbatch", "-W", "-a", "0-1", "--wrap", words, cwd=short_tmp)] = 4
    here = ("--no-snapshot", "--wrap", f"{HELD} 5")
    waiting[start(home, SUBMIT, "submit", "--wait", *here, cwd=short_tmp)] = 5
    home.kill_controller()
    home.ok("up")
    home.ok("down")
    (short_tmp / "go").touch()
    home.ok("up")
    for child, code in waiting.items():
        said = child.communicate(timeout=2 * WAIT_S)
        assert child.returncode == code, said
