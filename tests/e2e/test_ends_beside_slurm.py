"""How jobs end, and what is told of it, beside a real Slurm: exit codes and signals of scripts and of their steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.home import Home, passing_home
from tests.lab.peer import RealSlurm

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
