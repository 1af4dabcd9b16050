"""Exit codes, signals and messages of jobs and steps that end, beside a real Slurm."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm

END_FIELDS = re.compile(r"\b(?:JobState|Reason|ExitCode|DerivedExitCode)=\S+")
DERIVED_EXIT_CODES = {
    "true": "0:0",
    "exit 3": "0:0",
    "kill -9 $$": "0:0",
    "kill -USR1 $$": "0:0",
    'srun sh -c "exit 4"; exit 2': "4:0",
    'srun sh -c "exit 4"; true': "4:0",
    'srun sh -c "kill -9 \\$\\$"; true': "0:9",
}
"""Scripts and the highest exit code of their steps."""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """A home in which only this machine is a node."""
    with temporary_home() as made:
        made.ok("up")
        yield made


@pytest.mark.parametrize("script", DERIVED_EXIT_CODES)
def test_the_end_of_a_job_is_shown_as_in_slurm(site: Home, slurm: RealSlurm, script: str) -> None:
    argv = ["sbatch", "--wait", "--parsable", "-n1", "-t5", "-o", "/dev/null", "--wrap", script]
    real, result = slurm.run(argv), site.slurm(*argv)
    assert result.returncode == real.rc, result.stderr

    def run_here(*sacct_argv: str) -> str:
        return site.slurm(*sacct_argv).stdout

    states = []
    for run_command, job in ((slurm.ok, real.out.strip()), (run_here, result.stdout.strip())):
        shown = END_FIELDS.findall(run_command("scontrol", "-d", "show", "job", job))
        states.append((shown, run_command("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r")))
    assert states[1] == states[0]
    sacct_argv = ["sacct", "-X", "-n", "-P", "-j", result.stdout.strip(), "-o"]
    assert run_here(*sacct_argv, "derivedexitcode") == f"{DERIVED_EXIT_CODES[script]}\n"
    assert run_here(*sacct_argv, "exitcode").strip() in states[0][0][2]


NOT_BEGUN_LINES = {
    "-o {folder}/file/x.out": False,
    "-e {folder}/file/x.out": False,
    "-o {folder}": False,
    "-i {folder}/missing/in.txt": False,
    "-D {folder}/missing": False,
    "-D {folder}/missing -o x.out": False,
    "-D {folder}/missing -o {folder}/%j.out": True,
}
"""Options of sbatch that name folders or files that cannot be used, and whether the job runs nevertheless."""
END_IN_TEXT = re.compile(r"JobState=\S+ Reason=\S+|(?<!Derived)ExitCode=\S+|WorkDir=\S+")


@pytest.mark.parametrize("options", NOT_BEGUN_LINES)
def test_a_job_whose_files_cannot_be_used_ends_as_in_slurm(
    site: Home, slurm: RealSlurm, options: str, short_tmp: Path
) -> None:
    (short_tmp / "file").touch()
    short_tmp.chmod(0o777)
    named = shlex.split(f"-D {{folder}} {options}".format(folder=short_tmp))
    argv = ["sbatch", "--wait", "--parsable", "-n1", "-t5", *named, "--wrap", "pwd"]
    ends, outputs = [], []
    real, result = slurm.run(argv), site.slurm(*argv)
    for done, job, show in (
        (real.rc, real.out.strip(), slurm.ok),
        (result.returncode, result.stdout.strip(), lambda *shown: site.slurm(*shown).stdout),
    ):
        ends.append((done, END_IN_TEXT.findall(show("scontrol", "show", "job", job))))
        out = short_tmp / f"{job}.out"
        outputs.append(out.read_text() if out.exists() else "")
        assert ("ExitCode=0:0" in ends[-1][1]) == NOT_BEGUN_LINES[options], ends
        assert NOT_BEGUN_LINES[options] or "ExitCode=0:53" in ends[-1][1], ends
    assert ends[1] == ends[0]
    assert outputs[1] == re.sub(r"slurmstepd-\w+:", "slurmstepd:", outputs[0])


FAILING_LINES = {
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
"""Command lines, and the beginning of a line that only Slurm prints."""
RACE = "Hey, you told me node"
"""Slurm's srun occasionally prints this if a node reports an end just before its stream is closed."""
NODE_IN_MESSAGE = re.compile(r"(srun: error: )[\w-]+(: task)")


@pytest.mark.parametrize("line", FAILING_LINES)
def test_a_failed_launch_prints_the_messages_of_slurm(site: Home, slurm: RealSlurm, line: str) -> None:
    """Our output begins with Slurm's messages in Slurm's order. Hints may follow."""
    slurm_job = slurm.ok("sbatch", "-W", "--parsable", "-o", "/dev/null", "--wrap", "true").strip()
    warpdeck_job = site.slurm(
        "sbatch", "-W", "--parsable", "-o", "/dev/null", "--wrap", "true"
    ).stdout.strip()
    real = slurm.run(shlex.split(line.format(over=slurm_job)))
    result = site.slurm(*shlex.split(line.format(over=warpdeck_job)))
    assert (result.returncode, result.stdout) == (real.rc, real.out), result.stderr
    slurm_only = FAILING_LINES[line]
    slurm_lines = (row for row in _comparable_lines(real.err, slurm_job) if RACE not in row)
    expected = [row for row in slurm_lines if not slurm_only or not row.startswith(slurm_only)]
    actual = [row for row in _comparable_lines(result.stderr, warpdeck_job) if not row.startswith(" ")]
    assert actual[: len(expected)] == expected
    assert all(": error: " in row for row in actual[len(expected) :])


def _comparable_lines(text: str, job: str) -> list[str]:
    lines = [NODE_IN_MESSAGE.sub(r"\1NODE\2", row) for row in text.splitlines() if " queued and " not in row]
    return [re.sub(rf"\b{job}\b", "JOB", row) for row in lines if " been allocated " not in row]


def test_a_job_cancelled_while_held_is_shown_as_in_slurm(site: Home, slurm: RealSlurm) -> None:
    def run_here(*sacct_argv: str) -> str:
        return site.slurm(*sacct_argv).stdout

    states = []
    for run_command in (slurm.ok, run_here):
        job = run_command("sbatch", "--parsable", "-H", "-o", "/dev/null", "--wrap", "true").strip()
        run_command("scancel", job)
        state = ["squeue", "-h", "-t", "all", "-j", job, "-o"]
        eventually(
            lambda run_command=run_command, state=state: run_command(*state, "%T") == "CANCELLED\n",
            what="the job is cancelled",
        )
        start, end = run_command(*state, "%S|%e").strip().split("|")
        shown = run_command("scontrol", "show", "job", job)
        assert f"StartTime={start} EndTime={end} " in shown
        states.append(
            (start == end, run_command(*state, "%r|%M"), re.findall(r"(?:Eligible|Accrue)Time=\S+", shown))
        )
    assert states[1] == states[0]
    assert (
        run_here("sacct", "-X", "-n", "-P", "-j", job, "-o", "start,eligible,reason")
        == "None|Unknown|JobHeldUser\n"
    )
