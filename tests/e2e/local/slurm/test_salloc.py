"""srun and salloc on the login node: jobs for a step, allocations for a shell, and their end when the client
is gone.
"""

from __future__ import annotations

import getpass
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.waiting import WAIT_S, eventually

SHORTEST_LIMIT_S = 60.0
"""Slurm counts time limits in minutes."""


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module. Its node is up, because a site cannot refuse unknown nodes before
    that.
    """
    with temporary_home() as new_home:
        new_home.ok("up")
        new_home.wait_for_idle_node()
        yield new_home


def start(home: Home, *argv: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a warpdeck command in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "warpdeck.cli.main", *argv],
        cwd=cwd,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def last_job(home: Home) -> dict[str, object]:
    rows: list[dict[str, object]] = home.json("queue", "--all")
    return max(rows, key=lambda row: int(str(row["id"])))


def test_srun_outside_a_job_creates_a_job_for_its_step(home: Home, short_tmp: Path) -> None:
    result = home.run(
        "srun", "-n2", "-l", "sh", "-c", "echo on $SLURM_JOB_ID.$SLURM_STEP_ID; exit 5", cwd=short_tmp
    )
    row = last_job(home)
    assert result.returncode == 5, result.stderr
    assert sorted(result.stdout.splitlines()) == [f"0: on {row['id']}.0", f"1: on {row['id']}.0"]
    assert "Exited with exit code 5" in result.stderr
    eventually(lambda: last_job(home)["exit_code"] == "5:0", what="the job has the step's exit code")


def test_srun_with_pty_outside_a_job_has_a_terminal(home: Home, short_tmp: Path) -> None:
    assert (
        home.run("srun", "--pty", "sh", "-c", "tty -s && echo on a terminal", cwd=short_tmp).stdout.strip()
        == "on a terminal"
    )


def test_input_reaches_the_tasks_of_srun_outside_a_job(home: Home, short_tmp: Path) -> None:
    assert home.run("srun", "cat", cwd=short_tmp, data="words\n").stdout == "words\n"


def test_salloc_allocates_nodes_for_a_command_with_steps(home: Home, short_tmp: Path) -> None:
    script = "srun -l sh -c 'echo step $SLURM_STEP_ID'; srun -n1 sh -c 'echo step $SLURM_STEP_ID'; exit 3"
    result = home.run("salloc", "-n2", "sh", "-c", script, cwd=short_tmp)
    assert result.returncode == 3, result.stderr
    assert sorted(result.stdout.splitlines()) == ["0: step 0", "1: step 0", "step 1"]
    assert "salloc: Granted job allocation" in result.stderr
    assert last_job(home)["exit_code"] == "3:0"


def test_a_failed_mpich_proxy_is_reported_with_a_hint(home: Home, short_tmp: Path) -> None:
    proxy = short_tmp / "hydra_pmi_proxy"
    proxy.write_text("#!/bin/sh\nexit $1\n")
    proxy.chmod(0o755)
    script = f"srun -n1 {proxy} 0 && ! srun -n1 {proxy} 6"
    result = home.run("salloc", "-n1", "sh", "-c", script, cwd=short_tmp)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("srun: error: mpiexec waits here") == 1


def test_a_step_can_be_started_in_a_running_job_by_its_id(home: Home, short_tmp: Path) -> None:
    options = ["--no-snapshot", "-n2", "--wrap", "srun sh -c 'touch here; sleep 600'"]
    job = home.json("submit", *options, cwd=short_tmp)["job_id"]
    eventually((short_tmp / "here").exists, what="the job's own step runs")
    result = home.run("srun", "--overlap", "--jobid", str(job), "-n1", "sh", "-c", "echo in $SLURM_JOB_ID")
    assert result.stdout == f"in {job}\n"
    home.ok("cancel", str(job))


def test_the_job_of_a_killed_srun_ends(home: Home, short_tmp: Path) -> None:
    child = start(home, "srun", "sh", "-c", "touch here; sleep 600", cwd=short_tmp)
    eventually((short_tmp / "here").exists, what="the task runs")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    eventually(lambda: last_job(home)["end"], what="the job has ended")


def test_the_allocation_of_a_killed_salloc_ends(home: Home, short_tmp: Path) -> None:
    child = start(
        home, "salloc", "-n1", "sh", "-c", "exec >/dev/null 2>&1; touch here; sleep 5", cwd=short_tmp
    )
    eventually((short_tmp / "here").exists, what="the shell runs")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    eventually(lambda: last_job(home)["end"], what="the allocation has ended")


def test_an_allocation_survives_a_killed_controller(home: Home, short_tmp: Path) -> None:
    script = "touch here; while [ ! -e go ]; do sleep 0.05; done; srun -n1 echo still here"
    child = start(home, "salloc", "-n1", "sh", "-c", script, cwd=short_tmp)
    eventually((short_tmp / "here").exists, what="the shell runs")
    home.kill_controller()
    home.ok("up")
    (short_tmp / "go").touch()
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert out == "still here\n"


def test_an_allocation_without_a_shell_remains(home: Home, short_tmp: Path) -> None:
    result = home.run("salloc", "--no-shell", "-n1", cwd=short_tmp)
    job = result.stderr.split()[-1]
    assert home.state(job) == "RUNNING"
    home.ok("cancel", job)


@pytest.mark.parametrize(
    ("argv", "message", "code"),
    [
        (["srun", "-n", "x", "true"], 'srun: error: Invalid numeric value "x" for --ntasks.', 1),
        (["srun", "-r1", "true"], "srun: fatal: --relative option invalid for job allocation request", 1),
        (["srun", "--mem=64 G", "true"], "srun: error: Invalid --mem specification", 255),
        (
            ["srun", "-w", "nowhere", "true"],
            "srun: error: Unable to allocate resources: Invalid node name specified",
            1,
        ),
        (["salloc", "--bogus"], "salloc: unrecognized option '--bogus'", 255),
        (["salloc", "--time=12h"], "salloc: error: Invalid --time specification", 255),
        (["salloc", "-K", "--acctg-freq=x"], "salloc: error: Invalid --acctg-freq specification: x", 255),
        (
            ["salloc", "-w", "nowhere"],
            "salloc: error: Job submit/allocate failed: Invalid node name specified",
            1,
        ),
    ],
)
def test_invalid_options_are_refused_with_the_messages_of_slurm(
    home: Home, short_tmp: Path, argv: list[str], message: str, code: int
) -> None:
    result = home.slurm(*argv, cwd=short_tmp)
    assert result.stderr.startswith(message)
    assert (result.stdout, result.returncode) == ("", code)


@pytest.mark.parametrize(
    ("command", "option", "code"),
    [("salloc", "hint", 1), ("salloc", "mem-bind", 255), ("srun", "hint", 1), ("srun", "cpu-bind", 1)],
)
def test_the_help_of_an_option_is_printed_on_standard_output(
    home: Home, short_tmp: Path, command: str, option: str, code: int
) -> None:
    result = home.slurm(command, f"--{option}=help", "true", cwd=short_tmp)
    assert result.stdout.startswith(f"--{option}=") and result.stdout.endswith("this text\n")
    assert (result.stderr, result.returncode) == ("", code)


@pytest.mark.parametrize("argv", [["salloc", "-I"], ["srun", "--immediate=1", "true"]])
def test_an_immediate_request_that_would_wait_is_refused(
    home: Home, short_tmp: Path, argv: list[str]
) -> None:
    argv[1:1] = ["--begin=now+1hour"]
    result = home.slurm(*argv, cwd=short_tmp, SLURM_EXIT_IMMEDIATE="9")
    assert "Unable to allocate resources: Requested nodes are busy" in result.stderr
    assert result.returncode == 9
    eventually(lambda: last_job(home)["state"] == "CANCELLED", what="its job is cancelled")


def test_the_command_of_a_cancelled_allocation_is_signaled_with_option_k(home: Home, short_tmp: Path) -> None:
    script = 'trap "exit 7" USR1; echo $SLURM_JOB_ID > job; while :; do sleep 0.1; done'
    child = start(home, "salloc", "-n1", "-KUSR1", "sh", "-c", script, cwd=short_tmp)
    eventually(
        lambda: (short_tmp / "job").exists() and (short_tmp / "job").read_text(),
        what="the allocation is granted",
    )
    job = (short_tmp / "job").read_text().strip()
    home.ok("cancel", job)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 7, err
    user = getpass.getuser()
    assert f"salloc: Job allocation {job} has been revoked. Reason: it was cancelled by {user}.\n" in err


@pytest.mark.slow
def test_an_allocation_at_its_time_limit_prints_a_message(home: Home, short_tmp: Path) -> None:
    script = 'trap "exit 7" USR1; echo $SLURM_JOB_ID > job; while :; do sleep 0.1; done'
    child = start(home, "salloc", "-n1", "-KUSR1", "sh", "-c", script, cwd=short_tmp)
    eventually(
        lambda: (short_tmp / "job").exists() and (short_tmp / "job").read_text(),
        what="the allocation is granted",
    )
    job = (short_tmp / "job").read_text().strip()
    updated = home.slurm("scontrol", "update", f"job={job}", "timelimit=00:00:01")
    assert updated.returncode == 0, updated.stderr
    _, err = child.communicate(timeout=SHORTEST_LIMIT_S + WAIT_S)
    message = f"salloc: Job {job} has exceeded its time limit and its allocation has been revoked.\n"
    assert (message in err, child.returncode) == (True, 7), err


def test_a_quiet_allocation_prints_nothing_and_starts_in_the_given_folder(
    home: Home, short_tmp: Path
) -> None:
    (short_tmp / "there").mkdir()
    result = home.slurm("salloc", "-Q", "-n1", "-D", "there", "pwd", cwd=short_tmp)
    assert (result.stdout, result.stderr, result.returncode) == (f"{short_tmp}/there\n", "", 0)
    result = home.slurm("salloc", "-Q", "-n1", "-D", "nowhere", "pwd", cwd=short_tmp)
    assert result.returncode == 1 and "check nowhere" in result.stderr
