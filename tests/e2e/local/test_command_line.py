"""The command line on this machine's own node, with the real controller, agent and processes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent import lock_holder
from tests.support.home import Home, temporary_home
from tests.support.processes import kill, running
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """A home for the tests that leave only ended jobs in it. Its node is up."""
    with temporary_home() as home:
        home.ok("up")
        home.wait_for_idle_node()
        yield home


def submit(home: Home, command: str, *options: str) -> int:
    """Submit a wrapped command without a snapshot and return its job id."""
    submitted = home.json("submit", "--no-snapshot", *options, "--wrap", command, cwd=home.path.parent)
    return int(submitted["job_id"])


def wait_for_end(home: Home, job: object) -> dict[str, object]:
    """Wait until the job has ended and return its row."""
    eventually(lambda: home.job(job)["end"], what=f"job {job} has ended")
    return home.job(job)


def test_exit_codes_and_signals_are_recorded(site: Home) -> None:
    good, bad = submit(site, "exit 0"), submit(site, "exit 3")
    killed = submit(site, "kill -9 $$")
    assert (wait_for_end(site, good)["state"], wait_for_end(site, good)["exit_code"]) == ("COMPLETED", "0:0")
    assert (wait_for_end(site, bad)["state"], wait_for_end(site, bad)["exit_code"]) == ("FAILED", "3:0")
    assert (wait_for_end(site, killed)["state"], wait_for_end(site, killed)["exit_code"]) == ("FAILED", "0:9")


def test_output_files_follow_slurms_patterns_and_folders_are_created(site: Home) -> None:
    job = submit(
        site,
        "echo out; echo err >&2; echo $SLURM_JOB_ID $SLURM_NTASKS",
        "-o",
        "a/b/%x-%j.out",
        "-J",
        "nm",
        "-n",
        "1",
    )
    wait_for_end(site, job)
    assert (site.path.parent / f"a/b/nm-{job}.out").read_text() == f"out\nerr\n{job} 1\n"
    split = submit(site, "echo out; echo err >&2", "-o", "o.txt", "-e", "e.txt")
    wait_for_end(site, split)
    assert (site.path.parent / "e.txt").read_text() == "err\n"
    assert site.json("logs", str(split))["text"] == "out\n"


def test_an_unwritable_output_file_is_reported(site: Home) -> None:
    job = submit(site, "true", "-o", "/proc/nowhere/x.out")
    assert wait_for_end(site, job)["state"] == "FAILED"
    assert "/proc/nowhere" in site.json("show", str(job))["message"]


def test_a_missing_log_is_reported_and_not_shown_as_empty(site: Home) -> None:
    removed, empty = submit(site, "echo a", "-o", "gone.txt"), submit(site, "true")
    never_started = submit(site, "true", "--hold")
    site.ok("cancel", str(never_started))
    assert wait_for_end(site, removed)["state"] == wait_for_end(site, empty)["state"] == "COMPLETED"
    path = site.path.parent / "gone.txt"
    path.unlink()
    for follow in ([], ["-f"]):
        result = site.run("logs", *follow, str(removed))
        assert result.returncode == 1 and f"{path} does not exist: it was removed or moved" in result.stderr
        assert f"warpdeck show {removed}" in result.stderr
        result = site.run("logs", *follow, str(never_started))
        assert (
            result.returncode == 1
            and f"job {never_started} has no log: it never started (CANCELLED)" in result.stderr
        )
    assert site.ok("logs", str(empty)) == ""


def test_cancel_also_ends_daemons_and_setsid_children(site: Home) -> None:
    job = submit(site, "setsid sleep 1000 & (setsid sleep 1001 &) ; sleep 1002")
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    identity = (site.path / "agent" / "identity").read_text()
    tag = f"WARPDECK_JOB={job}.0@{identity}".encode()

    def processes() -> list[str]:
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and tag in environ(pid) and sleeping(pid)]

    eventually(lambda: len(processes()) >= 3, what="the job's processes run")
    site.ok("cancel", str(job))
    assert wait_for_end(site, job)["state"] == "CANCELLED"
    assert processes() == []


def test_cancel_with_a_state_cancels_only_matching_tasks(home: Home) -> None:
    home.ok("submit", "--no-snapshot", "--array=0-9%1", "--wrap", "exec sleep 1000")
    eventually(lambda: home.state("1_0") == "RUNNING", what="the first task runs")

    def listed_tasks() -> list[str]:
        return sorted(row["label"] for row in home.json("queue"))

    home.ok("cancel", "--state", "PD", "1_[0-3,8]")
    assert listed_tasks() == ["1_0", "1_[4-7,9]"]
    home.ok("cancel", "--state", "PD", "1")
    assert listed_tasks() == ["1_0"]


def environ(pid: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def sleeping(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return False


def test_jobs_survive_the_controller_and_the_agent(home: Home) -> None:
    gate = home.path.parent / "gate"
    job = submit(home, f"while [ ! -e {gate} ]; do sleep 0.05; done; echo late; exit 4")
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    home.kill_controller()
    kill(running("serve\0", str(home.path)))
    gate.touch()
    job_row = wait_for_end(home, job)
    assert (job_row["state"], job_row["exit_code"]) == ("FAILED", "4:0")
    assert (home.path.parent / f"slurm-{job}.out").read_text() == "late\n"


def test_a_job_whose_supervisor_was_killed_never_counts_as_successful(home: Home) -> None:
    gate = home.path.parent / "gate"
    job = submit(home, f"while [ ! -e {gate} ]; do sleep 0.05; done")
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    os.kill(lock_holder(home.path / "agent" / "supervisor.lock"), signal.SIGKILL)
    gate.touch()
    row = wait_for_end(home, job)
    assert (row["state"], row["exit_cause"]) == ("FAILED", "unknown")


def test_down_leaves_jobs_running(home: Home) -> None:
    gate = home.path.parent / "gate"
    job = submit(home, f"while [ ! -e {gate} ]; do sleep 0.05; done")
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    assert "jobs keep running" in home.ok("down")
    assert home.run("status").returncode == 1
    gate.touch()
    assert wait_for_end(home, job)["state"] == "COMPLETED"


def test_the_first_sinfo_after_up_shows_an_idle_node(home: Home) -> None:
    home.ok("up")
    assert home.slurm("sinfo", "-h", "-o", "%t").stdout == "idle\n"


def test_run_returns_output_and_exit_code(site: Home) -> None:
    site.wait_for_idle_node()  # Otherwise the command would wait and report that.
    result = site.run("run", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (result.returncode, result.stdout, result.stderr) == (7, "out\n", "err\n")
    result = site.run("run", "-n", "2", "sh", "-c", "echo rank $SLURM_PROCID of $SLURM_NTASKS")
    assert sorted(result.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]


def read_until(terminal: int, text: bytes) -> bytes:
    """Return the terminal's output up to this text."""
    output = b""
    while text not in output:
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, f"waited for {text!r}, saw {output!r}"
        output += os.read(terminal, 4096)
    return output


def on_terminal(home: Home, *argv: str) -> tuple[int, int]:
    """Start warpdeck ARGV on a new terminal and return (pid, terminal)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "warpdeck.cli.main", *argv], home.environ)
    return pid, terminal


def test_a_terminal_can_be_reattached_after_the_controller_was_killed(home: Home) -> None:
    home.ok("up")
    pid, terminal = on_terminal(home, "run", "--pty", "sh")
    os.write(terminal, b"echo first-$((40+2))\n")
    read_until(terminal, b"first-42")
    os.write(terminal, b"\r~d")
    read_until(terminal, b"detached")
    assert os.waitpid(pid, 0)[1] == 0
    os.close(terminal)
    job = home.json("queue")[0]["label"]
    home.kill_controller()
    pid, terminal = on_terminal(home, "attach", job)
    assert b"first-42" in read_until(terminal, b"first-42")
    os.write(terminal, b"echo again-$((1+1)); exit 9\n")
    read_until(terminal, b"again-2")
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    os.close(terminal)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["submit", "nothere.sh"], "there is no script"),
        (["submit", "."], "is a folder"),
        (["submit", "crlf.sh"], "DOS line breaks"),
        (["submit", "plain.sh"], "does not look like a batch script"),
        (["submit", "unknown.sh"], "unrecognized option '--nope'"),
        (["submit", "--gpus", "64", "--wrap", "true"], "can never start"),
        (["show", "99"], "job 99 is not known"),
        (["show", "x"], "is not a job ID"),
        (["cancel", "99"], "not known"),
        (["node", "show", "nope"], "there is no node nope"),
        (["node", "add", "127.0.0.1:1"], "refused the connection"),
        (["node", "add", "no such host"], "is not a host"),
        (["attach", "99"], "not known"),
    ],
)
def test_invalid_input_has_a_clear_message_and_exit_code_1(
    site: Home, argv: list[str], expected: str
) -> None:
    folder = site.path.parent
    (folder / "crlf.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")
    (folder / "plain.sh").write_text("echo\n")
    (folder / "unknown.sh").write_text("#!/bin/sh\n#SBATCH --nope\ntrue\n")
    result = site.run(*argv)
    assert (result.returncode, result.stdout) == (1, "")
    assert expected in result.stderr and "Traceback" not in result.stderr
    messages = [line for line in result.stderr.strip().splitlines() if not line.startswith("connecting")]
    assert len(messages) <= 2


def connect_raw(home: Home) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(20)
    link.connect(str(home.path / "warpdeck.sock"))
    return link


HELLO = json.dumps({"t": "hello", "version": 1}).encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"not a warpdeck frame"),
        (struct.pack(">IB", 1 << 30, ord("J")), b"over the limit"),
        (struct.pack(">IB", 4, ord("J")) + b"nope", b"not understood"),
        (
            struct.pack(">IB", len(HELLO), ord("J")) + HELLO.replace(b"1", b"9"),
            b"speaks protocol 1, the client 9",
        ),
    ],
)
def test_malformed_data_on_the_socket_gets_an_error_and_affects_no_one(
    site: Home, data: bytes, expected: bytes
) -> None:
    with connect_raw(site) as link:
        link.sendall(data)
        answer = b""
        while chunk := link.recv(4096):
            answer += chunk
    assert expected in answer
    with connect_raw(site) as incomplete:
        incomplete.sendall(struct.pack(">IB", 100, ord("J")) + b"{")
        assert site.run("status").returncode == 0


@pytest.mark.lab
def test_a_full_disk_is_reported_and_no_accepted_job_is_lost(short_tmp: Path) -> None:
    disk = short_tmp / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], check=True)
    home = Home(disk / "home")
    try:
        first = submit(home, "true")
        with (disk / "filler").open("ab", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(b"x" * 65536)
        refused = home.run("submit", "--no-snapshot", "--wrap", "true # " + "x" * 100_000, cwd=short_tmp)
        assert refused.returncode == 1 and "full" in refused.stderr, refused.stderr
        (disk / "filler").unlink()
        assert home.job(first)["id"] == first
        assert submit(home, "true") > first
    finally:
        home.close()
        subprocess.run(["umount", "-l", str(disk)], check=True)
