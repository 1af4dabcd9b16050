"""How jobs end, and what is told of it, beside a real Slurm: exit codes and signals of scripts and of their steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.home import Home, passing_home
from tests.lab.peer import RealSlurm
from tests.waiting import eventually

pytestmark = pytest.mark.slurm

TOLD = re.compile(r"\b(?:JobState|Reason|ExitCode|DerivedExitCode)=\S+")
ENDS = {
    "true": "0:0",
    "exit 3": "0:0",
    "kill -9 $$": "0:0",
    "kill -USR1 $$": "0:0",
    'srun sh -c "exit 4"; exit 2': "4:0",
    'srun sh -c "exit 4"; true': "4:0",
    'srun sh -c "kill -9 \\$\\$"; true': "0:9",
}
"""Script -> its steps' highest exit code."""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """This machine alone."""
    with passing_home() as made:
        made.ok("up")
        yield made


@pytest.mark.parametrize("script", ENDS)
def test_an_end_is_told_as_slurm_tells_it(site: Home, slurm: RealSlurm, script: str) -> None:
    words = ["sbatch", "--wait", "--parsable", "-n1", "-t5", "-o", "/dev/null", "--wrap", script]
    real, own = slurm.run(words), site.slurm(*words)
    assert own.returncode == real.rc, own.stderr

    def say(*asked: str) -> str:
        return site.slurm(*asked).stdout

    told = []
    for ask, job in ((slurm.ok, real.out.strip()), (say, own.stdout.strip())):
        shown = TOLD.findall(ask("scontrol", "-d", "show", "job", job))
        told.append((shown, ask("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r")))
    assert told[1] == told[0]
    asked = ["sacct", "-X", "-n", "-P", "-j", own.stdout.strip(), "-o"]
    assert say(*asked, "derivedexitcode") == f"{ENDS[script]}\n"
    assert say(*asked, "exitcode").strip() in told[0][0][2]


def test_a_job_that_was_cancelled_while_it_was_held_is_told_as_slurm_tells_it(
    site: Home, slurm: RealSlurm
) -> None:
    def say(*asked: str) -> str:
        return site.slurm(*asked).stdout

    told = []
    for ask in (slurm.ok, say):
        job = ask("sbatch", "--parsable", "-H", "-o", "/dev/null", "--wrap", "true").strip()
        ask("scancel", job)
        state = ["squeue", "-h", "-t", "all", "-j", job, "-o"]
        eventually(lambda ask=ask, state=state: ask(*state, "%T") == "CANCELLED\n", what="it is cancelled")
        start, end = ask(*state, "%S|%e").strip().split("|")
        shown = ask("scontrol", "show", "job", job)
        assert f"StartTime={start} EndTime={end} " in shown
        told.append((start == end, ask(*state, "%r|%M"), re.findall(r"(?:Eligible|Accrue)Time=\S+", shown)))
    assert told[1] == told[0]
    assert (
        say("sacct", "-X", "-n", "-P", "-j", job, "-o", "start,eligible,reason")
        == "None|Unknown|JobHeldUser\n"
    )
