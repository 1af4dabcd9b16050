"""The record of the code of sbatch's jobs, which is taken in the background before the job starts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.processes import kill, parent, running
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.client.code import files
from warpdeck.client.snapshot_recorder import main as run_recorder
from warpdeck.client.snapshot_requests import hand_over
from warpdeck.slurm.submit.sbatch import RECORDED_S


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One home for all tests of the module."""
    with temporary_home() as home:
        yield home


@pytest.fixture
def work(short_tmp: Path) -> Path:
    """A folder with one file of code."""
    (short_tmp / "code.py").write_text("print(1)\n")
    return short_tmp


def submit(home: Home, work: Path, *argv: str, data: str = "") -> int:
    result = home.slurm("sbatch", "--parsable", *argv, cwd=work, data=data)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr + home.log()
    return int(result.stdout)


def recorded_files(home: Home, job: int) -> list[str]:
    """Return the files of the job's record once it exists."""
    snapshot = eventually(lambda: home.json("show", str(job))["snapshot"], what=f"job {job} has its record")
    return sorted(files(snapshot))


def test_files_written_by_a_job_are_not_in_its_record(home: Home, work: Path) -> None:
    job = submit(home, work, "--wait", "--wrap", "echo made > made.txt")
    assert (work / "made.txt").exists()
    assert recorded_files(home, job) == ["code.py"]


def test_code_changed_after_a_submission_belongs_to_the_next_one(home: Home, work: Path) -> None:
    first = submit(home, work, "--hold", "--wrap", "true")
    before = recorded_files(home, first)
    (work / "more.py").write_text("print(2)\n")
    second = submit(home, work, "--hold", "--wrap", "true")
    assert (before, recorded_files(home, second)) == (["code.py"], ["code.py", "more.py"])


def test_each_of_many_submissions_has_a_record(home: Home, work: Path) -> None:
    jobs = [submit(home, work, "--hold", "--wrap", "true") for _ in range(8)]
    assert [recorded_files(home, job) for job in jobs] == [["code.py"]] * len(jobs)


def test_a_folder_without_code_is_noted_in_the_history_and_delays_nothing(home: Home) -> None:
    job = submit(home, Path("/"), "--wait", "-o", "/dev/null", "--wrap", "true")
    detail = home.json("show", str(job))
    assert (detail["row"]["state"], detail["snapshot"]) == ("COMPLETED", None)
    assert any(event["text"].startswith("no snapshot of /: not a code folder") for event in detail["events"])


def test_a_job_starts_without_a_recorder_and_its_history_says_so(home: Home, work: Path) -> None:
    kill(recorder_pids(home))
    shutil.rmtree(home.path / "recorder", ignore_errors=True)
    (home.path / "recorder").write_text("")
    try:
        # Otherwise the job would wait up to a minute for its record.
        job = submit(home, work, "--wait", "--wrap", "true")
        detail = home.json("show", str(job))
    finally:
        (home.path / "recorder").unlink()
    events = [event["text"] for event in detail["events"]]
    assert "no snapshot: the recorder cannot be started: File exists" in events
    row = detail["row"]
    assert row["start"] - row["submit"] < RECORDED_S / 2


def test_a_killed_recorder_is_replaced(home: Home, work: Path) -> None:
    recorded_files(home, submit(home, work, "--hold", "--wrap", "true"))
    kill(recorder_pids(home))
    assert recorded_files(home, submit(home, work, "--hold", "--wrap", "true")) == ["code.py"]


def test_only_one_recorder_runs(home: Home, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded_files(home, submit(home, work, "--hold", "--wrap", "true"))
    before = recorder_pids(home)
    monkeypatch.chdir(work)  # A recorder leaves its folder at its start.
    umask = os.umask(0o022)
    try:
        # This returns because another recorder holds the lock.
        run_recorder(str(home.path), '{"jobs":[1],"folder":"/"}\n')
    finally:
        os.umask(umask)
    assert len(before) == 1 and recorder_pids(home) == before


def test_a_recorder_keeps_the_niceness_of_a_nice_shell(home: Home, work: Path) -> None:
    recorded_files(home, submit(home, work, "--hold", "--wrap", "true"))
    kill(recorder_pids(home))
    program = "import sys; from warpdeck.base.background_process import start; start(*sys.argv[1:])"
    request = '{"jobs":[1],"folder":"/"}\n'
    module = "warpdeck.client.snapshot_recorder"
    subprocess.run(
        ["nice", "-n", "7", sys.executable, "-c", program, module, str(home.path), request], check=True
    )
    # Only root may lower the niceness, so a recorder of another user would end here.
    eventually(lambda: hand_over(Paths(str(home.path)), request), what="a recorder that accepts requests")
    (recorder,) = recorder_pids(home)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, recorder) == min(own + 7, 19)


def test_a_shell_that_captures_sbatchs_output_does_not_wait_for_the_recorder(home: Home, work: Path) -> None:
    kill(recorder_pids(home))
    shims = home.ok("shims", "--folder").strip()
    result = subprocess.run(
        ["sh", "-c", f"echo got $({shims}/sbatch --parsable --hold --wrap true)"],
        cwd=work,
        env=home.environ,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert result.stdout.startswith("got ")
    assert recorder_pids(home)  # The recorder lingers and holds no file of the shell.


def recorder_pids(home: Home) -> list[int]:
    """Return the pids of the home's recorders.

    A child that a recorder is about to start has the same command line for a moment.
    """
    pids = running("client.snapshot_recorder", str(home.path))
    return [pid for pid in pids if parent(pid) not in pids]
