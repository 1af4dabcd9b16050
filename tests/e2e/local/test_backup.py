"""warpdeck backup, restore and verify with a real controller, a kill, a full disk, and other users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.home import Home
from tests.support.waiting import eventually

NOBODY = 65534


def submit(home: Home, *options: str) -> int:
    return int(home.json("submit", "--no-snapshot", *options, "--wrap", "true")["job_id"])


def wait_for_end(home: Home, job: int) -> None:
    eventually(lambda: home.state(job) == "COMPLETED", what="the end of the job")


def test_a_site_is_backed_up_while_it_runs_and_restored_while_it_is_down(home: Home, tmp_path: Path) -> None:
    home.ok("up")
    home.wait_for_idle_node()
    (home.path / "config.toml").write_text("grace_s = 12\n")
    wait_for_end(home, submit(home))
    held = submit(home, "--hold")
    made = home.json("backup", str(tmp_path / "x"))
    assert made["manifest"]["counters"]["highest_job_id"] == held
    assert home.ok("verify").endswith("no problems\n")
    newer = submit(home)
    wait_for_end(home, newer)
    (home.path / "config.toml").write_text("grace_s = 13\n")
    refused = home.run("restore", str(tmp_path / "x"))
    assert refused.returncode == 1
    assert "a controller runs in" in refused.stderr
    assert "`warpdeck down`" in refused.stderr
    home.ok("down")
    shown = home.ok("restore", str(tmp_path / "x"))
    assert f"job {newer} is newer than the backup" in shown
    assert "next: `warpdeck up`" in shown
    assert (home.path / "config.toml").read_text() == "grace_s = 12\n"
    assert submit(home) == newer + 1, "the id of the newer job is not given out again"
    assert home.state(held) == "PENDING"
    assert home.run("show", str(newer)).returncode == 1
    assert home.ok("verify").endswith("no problems\n")


def test_a_job_that_is_newer_than_the_backup_continues_and_is_recovered(home: Home, tmp_path: Path) -> None:
    home.ok("up")
    home.wait_for_idle_node()
    home.ok("backup", str(tmp_path / "x"))
    flag = tmp_path / "flag"
    newer = int(
        home.json("submit", "--no-snapshot", "--wrap", f"until test -e {flag}; do sleep 0.1; done")["job_id"]
    )
    eventually(lambda: home.state(newer) == "RUNNING", what="a running job")
    home.ok("down")
    home.ok("restore", str(tmp_path / "x"))
    home.ok("up")
    eventually(lambda: f"\n{newer} " in home.ok("recover", "--dry-run"), what="the unknown job")
    home.ok("recover")
    assert home.state(newer) == "RUNNING"
    assert submit(home) == newer + 1
    flag.touch()
    wait_for_end(home, newer)
    assert home.ok("verify").endswith("no problems\n")


def test_a_backup_of_a_killed_controller_contains_its_last_commit(home: Home, tmp_path: Path) -> None:
    home.ok("up")
    jobs = [submit(home, "--hold") for _ in range(3)]
    home.kill_controller()
    assert (home.path / "state.db-wal").stat().st_size
    made = home.json("backup", str(tmp_path / "x"))
    assert made["manifest"]["counters"]["jobs"] == len(jobs)
    home.ok("restore", str(tmp_path / "x"))
    assert [home.state(job) for job in jobs] == ["PENDING"] * len(jobs)


def test_a_controller_finishes_a_restore_that_was_killed(home: Home, tmp_path: Path) -> None:
    home.ok("up")
    held = submit(home, "--hold")
    home.ok("backup", str(tmp_path / "x"))
    submit(home, "--hold")
    home.ok("down")
    home.ok("restore", str(tmp_path / "x"))
    replaced = next(home.path.glob("replaced-*"))
    # A kill right after the decision leaves the new files in the folder `restore`.
    decided = home.path / "restore"
    decided.mkdir(mode=0o700)
    (home.path / "state.db").rename(decided / "state.db")
    (decided / "plan.json").write_text(json.dumps({"replaced": replaced.name, "gone": []}))
    assert home.state(held) == "PENDING"
    assert not decided.exists()
    assert "finished a restore that was killed" in (home.path / "controller.log").read_text()


def test_verify_names_each_problem_and_exits_with_1(home: Home, tmp_path: Path) -> None:
    home.ok("up")
    submit(home, "--hold")
    home.ok("down")
    home.ok("backup", str(tmp_path / "x"))
    subprocess.run(
        [
            *(sys.executable, "-c"),
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
            "db.execute(\"UPDATE jobs SET data = X'c1'\"); db.commit()",
            str(home.path / "state.db"),
        ],
        check=True,
    )
    done = home.run("verify")
    assert done.returncode == 1
    assert "jobs 1: DecodeError" in done.stdout
    assert "salvage: the next read moves the row into the table set_aside" in done.stdout
    report = json.loads(home.run("verify", "--json").stdout)
    assert [(each["table"], each["key"]) for each in report["problems"]] == [("jobs", "1")]
    assert home.run("verify", str(tmp_path / "x")).returncode == 0


def test_wrong_arguments_are_named(home: Home, tmp_path: Path) -> None:
    assert "does not exist" in home.run("verify").stderr
    assert "does not exist" in home.run("backup", str(tmp_path / "x")).stderr
    assert "--keep needs a folder" in home.run("backup", "--keep", "2", str(tmp_path / "x")).stderr
    assert "No such file" in home.run("backup", str(tmp_path / "none" / "x")).stderr
    assert "No such file" in home.run("restore", str(tmp_path / "none")).stderr
    assert not list(tmp_path.glob("x*"))


SMALL = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
"""Mount a small disk in a mount namespace of its own, then run the command."""


def on_small_disk(home: Home, place: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "warpdeck.cli.main", *argv]
    return subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            SMALL,
            str(place),
            "sh",
            "-c",
            '"$@"; code=$?; ls -A "$0"; exit $code',
        ]
        + [str(place), *program],
        env=home.environ,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.lab
def test_a_backup_on_a_full_disk_names_it_and_leaves_nothing(home: Home, tmp_path: Path) -> None:
    home.ok("up")
    home.ok("down")
    place = tmp_path / "small"
    place.mkdir()
    done = on_small_disk(home, place, "backup", str(place / "x"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot back up" in done.stderr
    assert "full" in done.stderr or "No space left" in done.stderr


@pytest.mark.lab
def test_a_restore_on_a_full_disk_leaves_the_old_state(home: Home, tmp_path: Path) -> None:
    home.ok("up")
    home.ok("down")
    home.ok("backup", str(tmp_path / "x"))
    place = tmp_path / "small"
    place.mkdir()
    home.environ["WARPDECK_HOME"] = str(place)
    done = on_small_disk(home, place, "restore", str(tmp_path / "x"))
    home.environ["WARPDECK_HOME"] = str(home.path)
    assert (done.returncode, done.stdout) == (1, "controller.lock\n")
    assert "cannot restore" in done.stderr


READ_ONLY = """
mount -t tmpfs tmpfs "$0" && cp -a "$1"/. "$0" && rm -f "$0"/state.db-shm && mount -o remount,ro "$0" && shift && exec "$@"
"""


@pytest.mark.lab
def test_the_database_on_a_read_only_disk_is_backed_up_with_its_last_commits(
    home: Home, tmp_path: Path
) -> None:
    home.ok("up")
    jobs = [submit(home, "--hold") for _ in range(3)]
    home.kill_controller()
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    program = [sys.executable, "-m", "warpdeck.cli.main", "backup", str(tmp_path / "x")]
    subprocess.run(
        ["unshare", "--mount", "sh", "-c", READ_ONLY, str(place), str(home.path), *program],
        env={**home.environ, "WARPDECK_HOME": str(place)},
        check=True,
    )
    assert home.json("verify", str(tmp_path / "x"))["counters"]["jobs"] == len(jobs)


@pytest.mark.lab
def test_only_the_owner_of_a_home_backs_it_up_restores_it_or_checks_it(home: Home, short_tmp: Path) -> None:
    home.ok("up")
    home.ok("down")
    home.ok("backup", str(short_tmp / "x"))
    for folder in (short_tmp, home.path):
        folder.chmod(0o711)
    own = short_tmp / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    for words in (["backup", str(own / "x")], ["restore", str(own)], ["verify"]):
        done = as_nobody(home, *words)
        assert done.returncode == 1
        assert f"the home {home.path} belongs to root" in done.stderr
    assert "Permission denied" in as_nobody(home, "verify", str(short_tmp / "x")).stderr
    assert list(own.iterdir()) == []
    for words in (["backup", str(short_tmp / "y")], ["restore", str(short_tmp / "x")], ["verify"]):
        os.chown(home.path, NOBODY, NOBODY)
        done = home.run(*words)
        os.chown(home.path, 0, 0)
        assert "belongs to nobody" in done.stderr
    refused = home.run("backup", str(own / "x"))
    assert f"users other than root can change {own}" in refused.stderr
    own.chmod(0o700)
    os.chown(own, 0, 0)
    home.ok("backup", str(own / "x"))


def as_nobody(home: Home, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable,
            "-m",
            "warpdeck.cli.main",
            *argv,
        ],
        env={**home.environ, "PYTHONPATH": ":".join(sys.path), "HOME": "/"},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
