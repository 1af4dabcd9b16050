"""The record of the code that sbatch's jobs were submitted with: taken behind sbatch's back, before the job begins."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home, temporary_home
from tests.support.processes import kill, parent, running
from tests.support.waiting import eventually

from warpdeck.client.code import files
from warpdeck.client.snapshot_recorder import main as record
from warpdeck.slurm.submit.sbatch import RECORDED_S


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """One for all tests of the module."""
    with temporary_home() as made:
        yield made


@pytest.fixture
def work(short_tmp: Path) -> Path:
    """A folder with one file of code."""
    (short_tmp / "code.py").write_text("print(1)\n")
    return short_tmp


def submit(home: Home, work: Path, *words: str, data: str = "") -> int:
    done = home.slurm("sbatch", "--parsable", *words, cwd=work, data=data)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr + home.log()
    return int(done.stdout)


def recorded(home: Home, job: int) -> list[str]:
    """The files of the job's record, when it is there."""
    found = eventually(lambda: home.json("show", str(job))["snapshot"], what=f"job {job} has its record")
    return sorted(files(found))


def test_what_a_job_writes_is_in_its_folder_and_not_in_its_record(home: Home, work: Path) -> None:
    job = submit(home, work, "--wait", "--wrap", "echo made > made.txt")
    assert (work / "made.txt").exists()
    assert recorded(home, job) == ["code.py"]


def test_code_that_changes_after_a_submission_is_the_next_ones(home: Home, work: Path) -> None:
    first = submit(home, work, "--hold", "--wrap", "true")
    before = recorded(home, first)
    (work / "more.py").write_text("print(2)\n")
    second = submit(home, work, "--hold", "--wrap", "true")
    assert (before, recorded(home, second)) == (["code.py"], ["code.py", "more.py"])


def test_many_submissions_at_once_all_have_their_record(home: Home, work: Path) -> None:
    jobs = [submit(home, work, "--hold", "--wrap", "true") for _ in range(8)]
    assert [recorded(home, job) for job in jobs] == [["code.py"]] * len(jobs)


def test_a_folder_without_code_is_said_in_the_jobs_history_and_keeps_nothing_waiting(home: Home) -> None:
    job = submit(home, Path("/"), "--wait", "-o", "/dev/null", "--wrap", "true")
    detail = home.json("show", str(job))
    assert (detail["row"]["state"], detail["snapshot"]) == ("COMPLETED", None)
    assert any(event["text"].startswith("no snapshot of /: not a code folder") for event in detail["events"])


def test_where_no_recorder_can_be_the_history_says_so_and_the_job_starts(home: Home, work: Path) -> None:
    kill(recorders(home))
    shutil.rmtree(home.path / "recorder", ignore_errors=True)
    (home.path / "recorder").write_text("")
    try:
        job = submit(home, work, "--wait", "--wrap", "true")  # and not the minute that a record may take
        detail = home.json("show", str(job))
    finally:
        (home.path / "recorder").unlink()
    events = [event["text"] for event in detail["events"]]
    assert "no snapshot: the recorder cannot be started: File exists" in events
    row = detail["row"]
    assert row["start"] - row["submit"] < RECORDED_S / 2


def test_a_recorder_that_was_killed_is_followed_by_another(home: Home, work: Path) -> None:
    recorded(home, submit(home, work, "--hold", "--wrap", "true"))
    kill(recorders(home))
    assert recorded(home, submit(home, work, "--hold", "--wrap", "true")) == ["code.py"]


def test_there_is_one_recorder_and_it_takes_the_orders_of_others(
    home: Home, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(home, submit(home, work, "--hold", "--wrap", "true"))
    before = recorders(home)
    monkeypatch.chdir(work)  # it leaves the folder that it was started in
    umask = os.umask(0o022)
    try:
        record(str(home.path), '{"jobs":[1],"folder":"/"}\n')  # returns: another holds the place
    finally:
        os.umask(umask)
    assert len(before) == 1 and recorders(home) == before


def test_a_shell_that_waits_for_sbatchs_output_does_not_wait_for_the_recorder(home: Home, work: Path) -> None:
    kill(recorders(home))
    shims = home.ok("shims", "--folder").strip()
    said = subprocess.run(
        ["sh", "-c", f"echo got $({shims}/sbatch --parsable --hold --wrap true)"],
        cwd=work,
        env=home.environ,
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert said.stdout.startswith("got ")
    assert recorders(home)  # it lingers, and holds nothing of ours


def recorders(home: Home) -> list[int]:
    """The pids of the home's recorders; a program that one starts is called so, too, until it begins."""
    found = running("client.snapshot_recorder", str(home.path))
    return [pid for pid in found if parent(pid) not in found]
