"""Slurm's commands inside jobs: the node's own programs, the controller's worker, and what a job's process may and may not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.processes import kill, read
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One for all tests of the module."""
    with temporary_home() as made:
        yield made


class Job:
    """Runs batch scripts from a folder of their own."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder

    def run(self, script: str, *options: str, in_checkout: bool = False) -> list[str]:
        """The lines that the script has written when its job has ended."""
        (self.folder / "job.sh").write_text("#!/bin/bash\n" + script)
        words = ("--wait", "-o", "out.txt", *options, "job.sh")
        by = self.home.run if in_checkout else self.home.slurm
        done = by("submit" if in_checkout else "sbatch", *words, cwd=self.folder)
        out = self.folder / "out.txt"
        assert out.exists(), done.stdout + done.stderr + self.home.log()
        return out.read_text().splitlines()


@pytest.fixture
def job(home: Home, short_tmp: Path) -> Job:
    return Job(home, short_tmp)


def test_a_job_that_submits_itself_runs_the_code_that_it_was_submitted_with(job: Job) -> None:
    (job.folder / "code.txt").write_text("first")
    lines = job.run(
        'cat code.txt; echo; cd "$SLURM_SUBMIT_DIR"; echo second > code.txt; cd - > /dev/null\n'
        '[ "$1" = again ] || sbatch -o again.txt --parsable job.sh again\n',
        in_checkout=True,
    )
    assert lines[0] == "first"
    again = job.folder / "again.txt"
    eventually(lambda: again.exists() and again.read_text().strip() != "")
    assert again.read_text() == "first\n"  # and its output is where the user submitted
    nested = job.home.json("show", lines[1])
    assert nested["submit_dir"] == str(job.folder)


def test_a_script_comes_from_the_jobs_own_folder_or_from_its_standard_input(job: Job) -> None:
    lines = job.run(
        "mkdir sub; printf '#!/bin/sh\\necho made $1\\n' > sub/made.sh; cd sub\n"
        "sbatch -W -o $TMPDIR/a made.sh x > /dev/null; cat $TMPDIR/a\n"
        "printf '#!/bin/sh\\necho typed\\n' | sbatch -W -o $TMPDIR/b > /dev/null; cat $TMPDIR/b\n"
        "sbatch nosuch.sh; echo $?\n"
    )
    assert lines == ["made x", "typed", "sbatch: error: Unable to open file nosuch.sh", "1"]


def test_the_exit_code_is_the_commands_own(job: Job) -> None:
    assert job.run(
        "sbatch -W --wrap 'exit 7' > /dev/null; echo $?\nsbatch --foo 2> /dev/null; echo $?\n"
    ) == [
        "7",
        "255",
    ]


def test_a_login_shell_finds_the_programs_whatever_the_systems_profile_makes_of_its_path(job: Job) -> None:
    assert job.run("bash -lc 'srun echo found'\nsh -lc 'srun echo found, too'\n") == ["found", "found, too"]


def test_a_jobs_process_is_its_user_and_never_an_admin(job: Job) -> None:
    lines = job.run("sbatch --nice=-5 --wrap true\n")
    assert lines[0] == "sbatch: error: Batch job submission failed: Invalid --nice value"


def test_the_names_of_a_list_need_no_controller(job: Job, tmp_path: Path) -> None:
    assert job.run("unset WARPDECK_TOKEN WARPDECK_ACCESS; scontrol show hostnames 'n[1-2],m'\n") == [
        "n1",
        "n2",
        "m",
    ]


def test_outside_a_job_a_program_says_so(job: Job) -> None:
    job.run("true\n")
    program = job.home.path / "agent" / "bin" / "squeue"
    said = subprocess.run([program], capture_output=True, text=True, env={}, timeout=30, check=False)
    assert said.returncode == 1
    assert said.stderr == "squeue: error: this is no process of a warpdeck job: its variables are not set\n"


def test_a_command_that_is_killed_says_so_and_the_next_one_works(job: Job) -> None:
    lines = _killed(job)
    assert lines == ["1", "error: the command was stopped: it took too long or used too much memory", "0"]


def _killed(job: Job) -> list[str]:
    """What a script writes whose waiting sbatch is killed at the controller's side, its worker too."""
    (job.folder / "job.sh").write_text(
        "#!/bin/bash\nsbatch -W -H --wrap true > $SLURM_SUBMIT_DIR/held.txt 2> $SLURM_SUBMIT_DIR/said.txt\n"
        "echo $?; cat $SLURM_SUBMIT_DIR/said.txt; sbatch --parsable -H --wrap true > /dev/null; echo $?\n"
    )
    job.home.slurm("sbatch", "-o", "out.txt", "job.sh", cwd=job.folder)
    held, out = job.folder / "held.txt", job.folder / "out.txt"
    eventually(lambda: held.exists() and "Submitted" in held.read_text())
    kill(_workers(job.home))
    eventually(lambda: len(out.read_text().splitlines()) == 3)
    return out.read_text().splitlines()


def _workers(home: Home) -> list[int]:
    """The controller's worker and its forks."""
    found, parents = [], [home.controller_pid()]
    while parents:
        children = map(int, read((parent := parents.pop()), f"task/{parent}/children").split())
        ours = [pid for pid in children if b"slurm.runtime.worker" in read(pid, "cmdline")]
        found += ours
        parents += ours
    return found
