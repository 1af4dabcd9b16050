"""How jobs end, and what is told of it, beside a real Slurm: exit codes and signals of scripts and of their steps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer import RealSlurm
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

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
    with temporary_home() as made:
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


LAUNCHES = {
    "srun -n1 sh -c 'kill -9 $$'": "srun: Force Terminated",
    "srun -n1 sh -c 'kill -SEGV $$'": "",
    "srun -Q -n1 false": "",
    "srun": "",
    "srun -n1": "",
    "srun --jobid=9999 true": "",
    "srun --jobid={over} true": "",
    "srun -d foo true": "",
    "salloc -Q -n1 nosuchcommand": "",
    "salloc -Q -n1 /etc/passwd": "",
    "salloc -Q -n1 srun -N3 true": "",
    "salloc -Q -N1 -n2 srun -N3 true": "",
    "salloc -Q -N1 -n2 env SLURM_JOB_NUM_NODES=3 srun true": "",
    "salloc -Q -N1 -n2 srun -Q -n1 false": "",
    "salloc -d foo true": "",
}
"""Command line -> what a line begins with that only Slurm says."""
RACE = "Hey, you told me node"
"""Slurm's srun says so when a node tells of an end just before its stream is closed, now and then."""
NAMED = re.compile(r"(srun: error: )[\w-]+(: task)")


@pytest.mark.parametrize("line", LAUNCHES)
def test_what_was_launched_and_has_failed_is_told_as_slurm_tells_it(
    site: Home, slurm: RealSlurm, line: str
) -> None:
    """All that Slurm says, in its order; how it can be mended may follow."""
    over = slurm.ok("sbatch", "-W", "--parsable", "-o", "/dev/null", "--wrap", "true").strip()
    ours = site.slurm("sbatch", "-W", "--parsable", "-o", "/dev/null", "--wrap", "true").stdout.strip()
    real = slurm.run(shlex.split(line.format(over=over)))
    own = site.slurm(*shlex.split(line.format(over=ours)))
    assert (own.returncode, own.stdout) == (real.rc, real.out), own.stderr
    only = LAUNCHES[line]
    told_by_slurm = (told for told in _plain(real.err, over) if RACE not in told)
    wanted = [told for told in told_by_slurm if not only or not told.startswith(only)]
    found = [told for told in _plain(own.stderr, ours) if not told.startswith(" ")]
    assert found[: len(wanted)] == wanted
    assert all(": error: " in told for told in found[len(wanted) :])


def _plain(text: str, job: str) -> list[str]:
    lines = [NAMED.sub(r"\1NODE\2", told) for told in text.splitlines() if " queued and " not in told]
    return [re.sub(rf"\b{job}\b", "JOB", told) for told in lines if " been allocated " not in told]


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
