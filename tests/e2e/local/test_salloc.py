"""srun and salloc on the login node: jobs made for a step, allocations held for a shell, and what becomes of them when it is gone."""

from __future__ import annotations

import getpass
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One for all tests of the module. Its node is there: what a site has not heard of yet it cannot refuse."""
    with temporary_home() as made:
        made.ok("up")
        made.wait_for_idle_node()
        yield made


def start(home: Home, *words: str, cwd: Path) -> subprocess.Popen[str]:
    """warpdeck WORDS, left to run."""
    return subprocess.Popen(
        [sys.executable, "-m", "warpdeck.cli.main", *words],
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


def test_srun_outside_a_job_makes_one_for_its_step(home: Home, short_tmp: Path) -> None:
    done = home.run(
        "srun", "-n2", "-l", "sh", "-c", "echo on $SLURM_JOB_ID.$SLURM_STEP_ID; exit 5", cwd=short_tmp
    )
    row = last_job(home)
    assert done.returncode == 5, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"0: on {row['id']}.0", f"1: on {row['id']}.0"]
    assert "Exited with exit code 5" in done.stderr
    eventually(lambda: last_job(home)["exit_code"] == "5:0", what="the job has the step's exit code")


def test_srun_with_a_terminal_outside_is_a_job_with_a_terminal(home: Home, short_tmp: Path) -> None:
    assert (
        home.run("srun", "--pty", "sh", "-c", "tty -s && echo on a terminal", cwd=short_tmp).stdout.strip()
        == "on a terminal"
    )


def test_input_reaches_the_tasks_of_an_srun_outside(home: Home, short_tmp: Path) -> None:
    assert home.run("srun", "cat", cwd=short_tmp, data="words\n").stdout == "words\n"


def test_salloc_holds_nodes_for_a_command_that_starts_steps(home: Home, short_tmp: Path) -> None:
    words = "srun -l sh -c 'echo step $SLURM_STEP_ID'; srun -n1 sh -c 'echo step $SLURM_STEP_ID'; exit 3"
    done = home.run("salloc", "-n2", "sh", "-c", words, cwd=short_tmp)
    assert done.returncode == 3, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0: step 0", "1: step 0", "step 1"]
    assert "salloc: Granted job allocation" in done.stderr
    assert last_job(home)["exit_code"] == "3:0"


def test_who_waits_for_mpich_s_proxies_that_did_not_come_back_is_told_what_to_do(
    home: Home, short_tmp: Path
) -> None:
    proxy = short_tmp / "hydra_pmi_proxy"
    proxy.write_text("#!/bin/sh\nexit $1\n")
    proxy.chmod(0o755)
    words = f"srun -n1 {proxy} 0 && ! srun -n1 {proxy} 6"
    done = home.run("salloc", "-n1", "sh", "-c", words, cwd=short_tmp)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("srun: error: mpiexec waits here") == 1


def test_a_step_beside_a_running_job_is_started_by_its_number(home: Home, short_tmp: Path) -> None:
    words = ["--no-snapshot", "-n2", "--wrap", "srun sh -c 'touch here; sleep 600'"]
    job = home.json("submit", *words, cwd=short_tmp)["job_id"]
    eventually((short_tmp / "here").exists, what="its own step runs")
    done = home.run("srun", "--overlap", "--jobid", str(job), "-n1", "sh", "-c", "echo in $SLURM_JOB_ID")
    assert done.stdout == f"in {job}\n"
    home.ok("cancel", str(job))


def test_an_srun_outside_that_is_killed_leaves_nothing(home: Home, short_tmp: Path) -> None:
    child = start(home, "srun", "sh", "-c", "touch here; sleep 600", cwd=short_tmp)
    eventually((short_tmp / "here").exists, what="the task runs")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    eventually(lambda: last_job(home)["end"], what="its job has ended")


def test_a_salloc_that_is_killed_gives_its_nodes_back(home: Home, short_tmp: Path) -> None:
    child = start(
        home, "salloc", "-n1", "sh", "-c", "exec >/dev/null 2>&1; touch here; sleep 5", cwd=short_tmp
    )
    eventually((short_tmp / "here").exists, what="the shell runs")
    child.send_signal(signal.SIGKILL)
    child.communicate()
    eventually(lambda: last_job(home)["end"], what="the allocation has ended")


def test_an_allocation_survives_a_controller_that_is_killed(home: Home, short_tmp: Path) -> None:
    script = "touch here; while [ ! -e go ]; do sleep 0.05; done; srun -n1 echo still here"
    child = start(home, "salloc", "-n1", "sh", "-c", script, cwd=short_tmp)
    eventually((short_tmp / "here").exists, what="the shell runs")
    home.kill_controller()
    home.ok("up")
    (short_tmp / "go").touch()
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert out == "still here\n"


def test_an_allocation_without_a_shell_stays(home: Home, short_tmp: Path) -> None:
    done = home.run("salloc", "--no-shell", "-n1", cwd=short_tmp)
    job = done.stderr.split()[-1]
    assert home.state(job) == "RUNNING"
    home.ok("cancel", job)


@pytest.mark.parametrize(
    ("words", "said", "code"),
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
def test_what_slurm_refuses_is_refused_in_its_words(
    home: Home, short_tmp: Path, words: list[str], said: str, code: int
) -> None:
    done = home.slurm(*words, cwd=short_tmp)
    assert done.stderr.startswith(said)
    assert (done.stdout, done.returncode) == ("", code)


@pytest.mark.parametrize(
    ("command", "option", "code"),
    [("salloc", "hint", 1), ("salloc", "mem-bind", 255), ("srun", "hint", 1), ("srun", "cpu-bind", 1)],
)
def test_what_an_option_may_be_is_told_on_the_output(
    home: Home, short_tmp: Path, command: str, option: str, code: int
) -> None:
    done = home.slurm(command, f"--{option}=help", "true", cwd=short_tmp)
    assert done.stdout.startswith(f"--{option}=") and done.stdout.endswith("this text\n")
    assert (done.stderr, done.returncode) == ("", code)


@pytest.mark.parametrize("words", [["salloc", "-I"], ["srun", "--immediate=1", "true"]])
def test_who_does_not_want_to_wait_is_told_so(home: Home, short_tmp: Path, words: list[str]) -> None:
    words[1:1] = ["--begin=now+1hour"]
    done = home.slurm(*words, cwd=short_tmp, SLURM_EXIT_IMMEDIATE="9")
    assert "Unable to allocate resources: Requested nodes are busy" in done.stderr
    assert done.returncode == 9
    eventually(lambda: last_job(home)["state"] == "CANCELLED", what="its job is not kept")


def test_the_command_of_an_allocation_that_is_cancelled_may_be_ended_with_it(
    home: Home, short_tmp: Path
) -> None:
    script = 'trap "exit 7" USR1; echo $SLURM_JOB_ID > job; while :; do sleep 0.1; done'
    child = start(home, "salloc", "-n1", "-KUSR1", "sh", "-c", script, cwd=short_tmp)
    eventually(lambda: (short_tmp / "job").exists() and (short_tmp / "job").read_text(), what="it holds one")
    job = (short_tmp / "job").read_text().strip()
    home.ok("cancel", job)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 7, err
    who = getpass.getuser()
    assert f"salloc: Job allocation {job} has been revoked. Reason: it was cancelled by {who}.\n" in err


@pytest.mark.slow
def test_an_allocation_whose_time_is_over_says_so(home: Home, short_tmp: Path) -> None:
    script = 'trap "exit 7" USR1; echo $SLURM_JOB_ID > job; while :; do sleep 0.1; done'
    child = start(home, "salloc", "-n1", "-KUSR1", "sh", "-c", script, cwd=short_tmp)
    eventually(lambda: (short_tmp / "job").exists() and (short_tmp / "job").read_text(), what="it holds one")
    job = (short_tmp / "job").read_text().strip()
    home.slurm("scontrol", "update", f"job={job}", "timelimit=00:00:01")
    _, err = child.communicate(timeout=60)
    words = f"salloc: Job {job} has exceeded its time limit and its allocation has been revoked.\n"
    assert (words in err, child.returncode) == (True, 7), err


def test_a_quiet_allocation_says_nothing_and_begins_in_the_folder_it_is_told(
    home: Home, short_tmp: Path
) -> None:
    (short_tmp / "there").mkdir()
    done = home.slurm("salloc", "-Q", "-n1", "-D", "there", "pwd", cwd=short_tmp)
    assert (done.stdout, done.stderr, done.returncode) == (f"{short_tmp}/there\n", "", 0)
    done = home.slurm("salloc", "-Q", "-n1", "-D", "nowhere", "pwd", cwd=short_tmp)
    assert done.returncode == 1 and "check nowhere" in done.stderr
