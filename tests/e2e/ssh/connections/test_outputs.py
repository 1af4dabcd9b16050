"""Output from nodes that do not have the submit folder arrives at the requested path, complete and without
repetitions.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

import warpdeck

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    """A home with two nodes that have a separate /tmp. Homes and submit folders of the tests are in ours."""
    with lab.small_disk(1, "/tmp"), lab.small_disk(2, "/tmp"):
        for host in (1, 2):
            target = f"root@{lab.address(host)}"
            options = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
            shared_home.ok("node", "add", target, *options)
        yield shared_home


@pytest.fixture
def gate(lab: Lab, short_tmp: Path) -> Path:
    """A file that jobs on the hosts can see."""
    return lab.base / f"gate-{short_tmp.name}"


def submit(home: Home, folder: Path, command: str, *options: str) -> int:
    submitted = home.json("submit", "--no-snapshot", *options, "--wrap", command, cwd=folder)
    return int(submitted["job_id"])


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def wait_until_completed(home: Home, job: object) -> None:
    eventually(lambda: home.state(job) == "COMPLETED", timeout_s=60, what=f"{home.job(job)}")


def test_output_arrives_while_the_job_runs_and_completely_at_its_end(
    home: Home, short_tmp: Path, gate: Path
) -> None:
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    job = submit(home, short_tmp, f"echo first; echo oops >&2; {wait}; echo last", "-e", "new/folder/e.txt")
    output = short_tmp / f"slurm-{job}.out"
    eventually(lambda: text(output) == "first\n", what="the first line")
    assert home.state(job) == "RUNNING"
    assert home.json("logs", str(job))["text"] == "first\n"
    gate.touch()
    eventually(lambda: text(output) == "first\nlast\n", what="the last line")
    eventually(lambda: text(short_tmp / "new/folder/e.txt") == "oops\n", what="standard error")
    assert output.stat().st_mode & 0o777 == 0o644
    wait_until_completed(home, job)


def test_each_of_twenty_array_tasks_has_an_output_file(home: Home, short_tmp: Path) -> None:
    job = submit(
        home,
        short_tmp,
        "echo task $SLURM_ARRAY_TASK_ID",
        "-a",
        "0-19",
        "-J",
        "many",
        "-o",
        "logs/%x-%A_%a.out",
    )
    for task in range(20):
        path = short_tmp / "logs" / f"many-{job}_{task}.out"
        eventually(lambda path=path: text(path), timeout_s=60, what=f"{path}")
        eventually(lambda path=path, task=task: text(path) == f"task {task}\n", what=f"{path}")


def test_no_byte_is_lost_or_repeated_when_the_controller_is_killed(
    home: Home, short_tmp: Path, gate: Path
) -> None:
    count = 400_000
    command = (
        f"i=0; while [ ! -e {gate} ]; do i=$((i+1)); echo line $i; done; seq {count}; sleep 0.2; seq 1000"
    )
    job = submit(home, short_tmp, command)
    output = short_tmp / f"slurm-{job}.out"
    for _ in range(2):
        before = len(text(output))
        eventually(lambda before=before: len(text(output)) > before, what="more output arrives")
        home.kill_controller()
        eventually(lambda: home.run("status").returncode == 1, what="the controller is gone")
        home.ok("up")
    gate.touch()
    before = len(text(output))
    eventually(lambda before=before: len(text(output)) > before + 100_000, what="the large part arrives")
    home.kill_controller()
    wait_until_completed(home, job)
    end = "".join(f"{number}\n" for number in [*range(1, count + 1), *range(1, 1001)])
    eventually(lambda: text(output).endswith("999\n1000\n") and len(text(output)) > len(end), what="the end")
    written = text(output)
    lines = written[: -len(end)].splitlines()
    assert written.endswith(end)
    assert lines == [f"line {number}" for number in range(1, len(lines) + 1)]


def test_the_log_of_an_ended_job_is_complete_at_once(home: Home, short_tmp: Path) -> None:
    job = submit(home, short_tmp, "seq 1000000; echo last line")
    wait_until_completed(home, job)
    assert home.ok("logs", str(job)).endswith("\n1000000\nlast line\n")


def test_an_old_output_file_is_replaced_unless_append_is_set(home: Home, short_tmp: Path) -> None:
    for name in ("new.txt", "more.txt"):
        (short_tmp / name).write_text("something old and long\n")
    replaced = submit(home, short_tmp, "echo fresh", "-o", "new.txt")
    appended = submit(home, short_tmp, "echo fresh", "-o", "more.txt", "--open-mode=append")
    wait_until_completed(home, replaced)
    wait_until_completed(home, appended)
    eventually(lambda: text(short_tmp / "new.txt") == "fresh\n", what="the new text alone")
    eventually(lambda: text(short_tmp / "more.txt") == "something old and long\nfresh\n", what="both texts")


def test_a_large_output_does_not_delay_a_small_one(home: Home, short_tmp: Path, gate: Path) -> None:
    size = 50_000_000
    large_command = f"yes 0123456789abcde | head -c {size}"
    large = submit(
        home, short_tmp, f"while [ ! -e {gate} ]; do sleep 0.05; done; {large_command}", "-w", "gpu1"
    )
    small = submit(
        home,
        short_tmp,
        f"until [ -e {gate} ]; do sleep 0.01; done; sleep 0.1; echo small; sleep 1000",
        "-w",
        "gpu1",
    )
    for job in (large, small):
        eventually(lambda job=job: home.state(job) == "RUNNING", what="both jobs run")
    gate.touch()
    eventually(lambda: text(short_tmp / f"slurm-{small}.out") == "small\n", what="the small output")
    home.ok("cancel", str(small))
    output = short_tmp / f"slurm-{large}.out"
    eventually(
        lambda: output.exists() and output.stat().st_size == size, timeout_s=60, what="the complete output"
    )
    assert (
        hashlib.sha256(output.read_bytes()).digest()
        == hashlib.sha256(b"0123456789abcde\n" * (size // 16)).digest()
    )
    wait_until_completed(home, large)


def history(home: Home, job: int) -> str:
    return "\n".join(event["text"] for event in home.json("show", str(job))["events"])


def test_a_full_disk_on_the_submit_host_is_reported_and_retried(home: Home, short_tmp: Path) -> None:
    disk = short_tmp / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], check=True)
    try:
        (disk / "filler").write_bytes(b"x" * (1 << 19))
        job = submit(home, disk, "seq 100000")
        wait_until_completed(home, job)
        eventually(
            lambda: "No space left on device; retrying" in history(home, job),
            what="the error is in the history",
        )
        other = submit(home, short_tmp, "echo unharmed")
        eventually(
            lambda: text(short_tmp / f"slurm-{other}.out") == "unharmed\n", what="another job's output"
        )
        (disk / "filler").unlink()
        expected = "".join(f"{number}\n" for number in range(1, 100_001))
        eventually(
            lambda: text(disk / f"slurm-{job}.out") == expected,
            what="the complete output, after space was freed",
        )
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_an_unwritable_output_path_is_reported_in_the_history(home: Home, short_tmp: Path) -> None:
    (short_tmp / "file").write_text("in the way")
    job = submit(home, short_tmp, "echo hello", "-o", "file/out.txt")
    wait_until_completed(home, job)
    eventually(lambda: "Not a directory" in history(home, job), what="the error is in the history")
    os.mkfifo(short_tmp / "pipe")
    job = submit(home, short_tmp, "echo hello", "-o", "pipe")
    eventually(lambda: "cannot write its output" in history(home, job), what="the error is in the history")


def test_executor_results_arrive_from_nodes_without_a_shared_folder(home: Home, short_tmp: Path) -> None:
    def folder_exists(number: int) -> tuple[int, bool]:
        return number, os.path.exists(folder)

    folder = str(short_tmp)
    with (
        warpdeck.Client(home.path) as deck,
        warpdeck.Executor(deck, cwd=short_tmp, snapshot="none", chdir="/") as pool,
    ):
        assert list(pool.map(folder_exists, range(4), timeout=60)) == [(number, False) for number in range(4)]


def test_the_code_of_sbatch_is_sent_to_nodes_without_the_folder(home: Home, short_tmp: Path) -> None:
    (short_tmp / "code.txt").write_text("code")
    result = home.slurm("sbatch", "--wait", "--parsable", "--wrap", "cat code.txt; pwd", cwd=short_tmp)
    code, folder = (
        (short_tmp / f"slurm-{result.stdout.strip()}.out").read_text().splitlines()[0].split("/", 1)
    )
    assert (result.returncode, code) == (0, "code")
    assert f"/{folder}" != str(short_tmp)
