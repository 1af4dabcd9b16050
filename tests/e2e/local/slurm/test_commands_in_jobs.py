"""Slurm's commands inside jobs: the node's own programs, the controller's worker, and the rights of a job's
process.
"""

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
    """One home for all tests of the module."""
    with temporary_home() as new_home:
        yield new_home


class Job:
    """Runs batch scripts in their own folder."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.home = home
        self.folder = folder

    def run(self, script: str, *options: str, in_checkout: bool = False) -> list[str]:
        """Run the script in a job and return the lines of its output."""
        (self.folder / "job.sh").write_text("#!/bin/bash\n" + script)
        argv = ("--wait", "-o", "out.txt", *options, "job.sh")
        run_command = self.home.run if in_checkout else self.home.slurm
        result = run_command("submit" if in_checkout else "sbatch", *argv, cwd=self.folder)
        out = self.folder / "out.txt"
        assert out.exists(), result.stdout + result.stderr + self.home.log()
        return out.read_text().splitlines()


@pytest.fixture
def job(home: Home, short_tmp: Path) -> Job:
    return Job(home, short_tmp)


def test_a_job_that_submits_itself_runs_its_own_code(job: Job) -> None:
    (job.folder / "code.txt").write_text("first")
    lines = job.run(
        'cat code.txt; echo; cd "$SLURM_SUBMIT_DIR"; echo second > code.txt; cd - > /dev/null\n'
        '[ "$1" = again ] || sbatch -o again.txt --parsable job.sh again\n',
        in_checkout=True,
    )
    assert lines[0] == "first"
    again = job.folder / "again.txt"
    eventually(lambda: again.exists() and again.read_text().strip() != "")
    assert again.read_text() == "first\n"  # The output is in the folder of the user's submission.
    nested = job.home.json("show", lines[1])
    assert nested["submit_dir"] == str(job.folder)


def test_sbatch_in_a_job_reads_scripts_from_its_folder_or_its_input(job: Job) -> None:
    lines = job.run(
        "mkdir sub; printf '#!/bin/sh\\necho made $1\\n' > sub/made.sh; cd sub\n"
        "sbatch -W -o $TMPDIR/a made.sh x > /dev/null; cat $TMPDIR/a\n"
        "printf '#!/bin/sh\\necho typed\\n' | sbatch -W -o $TMPDIR/b > /dev/null; cat $TMPDIR/b\n"
        "sbatch nosuch.sh; echo $?\n"
    )
    assert lines == ["made x", "typed", "sbatch: error: Unable to open file nosuch.sh", "1"]


def test_sbatch_in_a_job_returns_its_exit_code(job: Job) -> None:
    assert job.run(
        "sbatch -W --wrap 'exit 7' > /dev/null; echo $?\nsbatch --foo 2> /dev/null; echo $?\n"
    ) == [
        "7",
        "255",
    ]


def test_a_login_shell_finds_the_programs_despite_the_system_profile(job: Job) -> None:
    assert job.run("bash -lc 'srun echo found'\nsh -lc 'srun echo found, too'\n") == ["found", "found, too"]


def test_a_process_of_a_job_never_has_the_rights_of_an_admin(job: Job) -> None:
    lines = job.run("sbatch --nice=-5 --wrap true\n")
    assert lines[0] == "sbatch: error: Batch job submission failed: Invalid --nice value"


def test_show_hostnames_in_a_job_needs_no_controller(job: Job, tmp_path: Path) -> None:
    assert job.run("unset WARPDECK_TOKEN WARPDECK_ACCESS; scontrol show hostnames 'n[1-2],m'\n") == [
        "n1",
        "n2",
        "m",
    ]


def test_a_job_program_outside_a_job_is_refused(job: Job) -> None:
    job.run("true\n")
    program = job.home.path / "agent" / "bin" / "squeue"
    result = subprocess.run([program], capture_output=True, text=True, env={}, timeout=30, check=False)
    assert result.returncode == 1
    assert (
        result.stderr
        == "squeue: error: this command works only in a warpdeck job: the job's variables are not set\n"
    )


def test_a_killed_command_is_reported_and_the_next_one_works(job: Job) -> None:
    lines = _output_after_kill(job)
    assert lines == ["1", "error: the command was stopped: it took too long or used too much memory", "0"]


def _output_after_kill(job: Job) -> list[str]:
    """Return the output of a script whose waiting sbatch is killed on the controller's side, together with
    its worker.
    """
    (job.folder / "job.sh").write_text(
        "#!/bin/bash\nsbatch -W -H --wrap true > $SLURM_SUBMIT_DIR/held.txt 2> $SLURM_SUBMIT_DIR/errors.txt\n"
        "echo $?; cat $SLURM_SUBMIT_DIR/errors.txt; sbatch --parsable -H --wrap true > /dev/null; echo $?\n"
    )
    job.home.slurm("sbatch", "-o", "out.txt", "job.sh", cwd=job.folder)
    held, out = job.folder / "held.txt", job.folder / "out.txt"
    eventually(lambda: held.exists() and "Submitted" in held.read_text())
    kill(_workers(job.home))
    eventually(lambda: len(out.read_text().splitlines()) == 3)
    return out.read_text().splitlines()


def _workers(home: Home) -> list[int]:
    """Return the pids of the controller's worker and its forks."""
    workers, parents = [], [home.controller_pid()]
    while parents:
        children = map(int, read((parent := parents.pop()), f"task/{parent}/children").split())
        worker_children = [pid for pid in children if b"slurm.runtime.worker" in read(pid, "cmdline")]
        workers += worker_children
        parents += worker_children
    return workers
