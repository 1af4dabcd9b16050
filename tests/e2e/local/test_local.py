"""The command line on this machine's own node: real controller, real agent, real processes."""

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
    """One for the tests that leave nothing in it; its node is there."""
    with temporary_home() as made:
        made.ok("up")
        made.wait_for_idle_node()
        yield made


def submit(home: Home, command: str, *options: str) -> int:
    """A wrapped command without a snapshot; its job id."""
    found = home.json("submit", "--no-snapshot", *options, "--wrap", command, cwd=home.path.parent)
    return int(found["job_id"])


def ended(home: Home, job: object) -> dict[str, object]:
    """The job's row once it has ended."""
    eventually(lambda: home.job(job)["end"], what=f"job {job} has ended")
    return home.job(job)


def test_exit_codes_signals_and_limits_are_told(home: Home) -> None:
    good, bad = submit(home, "exit 0"), submit(home, "exit 3")
    shot = submit(home, "kill -9 $$")
    assert (ended(home, good)["state"], ended(home, good)["exit_code"]) == ("COMPLETED", "0:0")
    assert (ended(home, bad)["state"], ended(home, bad)["exit_code"]) == ("FAILED", "3:0")
    assert (ended(home, shot)["state"], ended(home, shot)["exit_code"]) == ("FAILED", "0:9")


def test_output_goes_where_slurm_users_look_and_missing_folders_are_made(home: Home) -> None:
    job = submit(
        home,
        "echo out; echo err >&2; echo $SLURM_JOB_ID $SLURM_NTASKS",
        "-o",
        "a/b/%x-%j.out",
        "-J",
        "nm",
        "-n",
        "1",
    )
    ended(home, job)
    assert (home.path.parent / f"a/b/nm-{job}.out").read_text() == f"out\nerr\n{job} 1\n"
    split = submit(home, "echo out; echo err >&2", "-o", "o.txt", "-e", "e.txt")
    ended(home, split)
    assert (home.path.parent / "e.txt").read_text() == "err\n"
    assert home.json("logs", str(split))["text"] == "out\n"


def test_an_output_file_that_cannot_be_written_is_said(home: Home) -> None:
    job = submit(home, "true", "-o", "/proc/nowhere/x.out")
    assert ended(home, job)["state"] == "FAILED"
    assert "/proc/nowhere" in home.json("show", str(job))["message"]


def test_a_log_that_is_not_there_is_not_called_empty(home: Home) -> None:
    gone, empty = submit(home, "echo a", "-o", "gone.txt"), submit(home, "true")
    never = submit(home, "true", "--hold")
    home.ok("cancel", str(never))
    assert ended(home, gone)["state"] == ended(home, empty)["state"] == "COMPLETED"
    path = home.path.parent / "gone.txt"
    path.unlink()
    for follow in ([], ["-f"]):
        said = home.run("logs", *follow, str(gone))
        assert said.returncode == 1 and f"there is no {path}: it was removed or moved" in said.stderr
        assert f"warpdeck show {gone}" in said.stderr
        said = home.run("logs", *follow, str(never))
        assert said.returncode == 1 and f"job {never} has no log: it never started (CANCELLED)" in said.stderr
    assert home.ok("logs", str(empty)) == ""


def test_cancel_ends_daemons_and_setsid_children_too(home: Home) -> None:
    job = submit(home, "setsid sleep 1000 & (setsid sleep 1001 &) ; sleep 1002")
    eventually(lambda: home.state(job) == "RUNNING", what="it runs")
    identity = (home.path / "agent" / "identity").read_text()
    mark = f"WARPDECK_JOB={job}.0@{identity}".encode()

    def processes() -> list[str]:
        return [
            pid for pid in os.listdir("/proc") if pid.isdigit() and mark in environ(pid) and sleeping(pid)
        ]

    eventually(lambda: len(processes()) >= 3, what="the job's processes are there")
    home.ok("cancel", str(job))
    assert ended(home, job)["state"] == "CANCELLED"
    assert processes() == []


def test_cancel_with_a_state_means_only_those_of_the_named_tasks(home: Home) -> None:
    home.ok("submit", "--no-snapshot", "--array=0-9%1", "--wrap", "exec sleep 1000")
    eventually(lambda: home.state("1_0") == "RUNNING", what="the first task runs")

    def live() -> list[str]:
        return sorted(row["label"] for row in home.json("queue"))

    home.ok("cancel", "--state", "PD", "1_[0-3,8]")
    assert live() == ["1_0", "1_[4-7,9]"]
    home.ok("cancel", "--state", "PD", "1")
    assert live() == ["1_0"]


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


def test_jobs_outlive_controller_and_agent(home: Home) -> None:
    gate = home.path.parent / "gate"
    job = submit(home, f"while [ ! -e {gate} ]; do sleep 0.05; done; echo late; exit 4")
    eventually(lambda: home.state(job) == "RUNNING", what="it runs")
    home.kill_controller()
    kill(running("serve\0", str(home.path)))
    gate.touch()
    row = ended(home, job)
    assert (row["state"], row["exit_code"]) == ("FAILED", "4:0")
    assert (home.path.parent / f"slurm-{job}.out").read_text() == "late\n"


def test_the_end_of_a_job_whose_supervisor_was_killed_is_never_success(home: Home) -> None:
    gate = home.path.parent / "gate"
    job = submit(home, f"while [ ! -e {gate} ]; do sleep 0.05; done")
    eventually(lambda: home.state(job) == "RUNNING", what="it runs")
    os.kill(lock_holder(home.path / "agent" / "supervisor.lock"), signal.SIGKILL)
    gate.touch()
    row = ended(home, job)
    assert (row["state"], row["exit_cause"]) == ("FAILED", "unknown")


def test_down_leaves_jobs_running(home: Home) -> None:
    gate = home.path.parent / "gate"
    job = submit(home, f"while [ ! -e {gate} ]; do sleep 0.05; done")
    eventually(lambda: home.state(job) == "RUNNING", what="it runs")
    assert "jobs keep running" in home.ok("down")
    assert home.run("status").returncode == 1
    gate.touch()
    assert ended(home, job)["state"] == "COMPLETED"


def test_the_first_sinfo_after_up_shows_this_machine_as_it_is(home: Home) -> None:
    home.ok("up")
    assert home.slurm("sinfo", "-h", "-o", "%t").stdout == "idle\n"


def test_run_brings_output_and_exit_code(home: Home) -> None:
    home.ok("up")
    home.wait_for_idle_node()  # nobody has to wait, and is told so
    done = home.run("run", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    done = home.run("run", "-n", "2", "sh", "-c", "echo rank $SLURM_PROCID of $SLURM_NTASKS")
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2", "rank 1 of 2"]


def read_until(terminal: int, words: bytes) -> bytes:
    """What the terminal shows, up to these words."""
    seen = b""
    while words not in seen:
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, f"waited for {words!r}, saw {seen!r}"
        seen += os.read(terminal, 4096)
    return seen


def on_terminal(home: Home, *argv: str) -> tuple[int, int]:
    """warpdeck ARGV on a terminal of its own; (pid, terminal)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "warpdeck.cli.main", *argv], home.environ)
    return pid, terminal


def test_a_terminal_can_be_left_and_found_again_after_a_controller_kill(home: Home) -> None:
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
    ("argv", "words"),
    [
        (["submit", "nothere.sh"], "there is no script"),
        (["submit", "."], "is a folder"),
        (["submit", "crlf.sh"], "DOS line breaks"),
        (["submit", "plain.sh"], "does not look like a batch script"),
        (["submit", "unknown.sh"], "unrecognized option '--nope'"),
        (["submit", "--gpus", "64", "--wrap", "true"], "can never start"),
        (["show", "99"], "job 99 is not known"),
        (["show", "x"], "is no job id"),
        (["cancel", "99"], "not known"),
        (["node", "show", "nope"], "there is no node nope"),
        (["node", "add", "127.0.0.1:1"], "refused the connection"),
        (["node", "add", "no such host"], "is not a host"),
        (["attach", "99"], "not known"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_1(site: Home, argv: list[str], words: str) -> None:
    folder = site.path.parent
    (folder / "crlf.sh").write_bytes(b"#!/bin/sh\r\ntrue\r\n")
    (folder / "plain.sh").write_text("echo\n")
    (folder / "unknown.sh").write_text("#!/bin/sh\n#SBATCH --nope\ntrue\n")
    done = site.run(*argv)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr and "Traceback" not in done.stderr
    told = [line for line in done.stderr.strip().splitlines() if not line.startswith("connecting")]
    assert len(told) <= 2


def raw(home: Home) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(20)
    link.connect(str(home.path / "warpdeck.sock"))
    return link


HELLO = json.dumps({"t": "hello", "version": 1}).encode()


@pytest.mark.parametrize(
    ("data", "words"),
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
def test_garbage_on_the_socket_is_answered_and_harms_nobody(site: Home, data: bytes, words: bytes) -> None:
    with raw(site) as link:
        link.sendall(data)
        seen = b""
        while chunk := link.recv(4096):
            seen += chunk
    assert words in seen
    with raw(site) as half:
        half.sendall(struct.pack(">IB", 100, ord("J")) + b"{")
        assert site.run("status").returncode == 0


@pytest.mark.lab
def test_a_full_disk_is_said_and_nothing_answered_is_lost(short_tmp: Path) -> None:
    disk = short_tmp / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=True)
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
