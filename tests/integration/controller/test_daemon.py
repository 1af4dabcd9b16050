"""The controller process: one per home, whatever files are left there, and one sentence if it cannot
start.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent import lock_holder
from tests.support.home import Home
from tests.support.processes import running
from tests.support.waiting import eventually

from warpdeck.daemon.home_process import MAX_LOG_BYTES

UP = [sys.executable, "-m", "warpdeck.cli.main", "up", "--no-local-node"]


@pytest.fixture
def quiet(short_tmp: Path) -> Iterator[Home]:
    """A home whose controller has no node, so that only the controller is started."""
    new_home = Home(short_tmp / "home")
    yield new_home
    new_home.close()


def up(home: Home) -> subprocess.CompletedProcess[str]:
    return home.run("up", "--no-local-node")


def controllers(home: Home) -> list[int]:
    """Return the pids of the controllers of this home."""
    return running("warpdeck.daemon.controller_process\0", f"\0--home\0{home.path}\0")


def test_simultaneous_starts_give_one_controller(quiet: Home) -> None:
    children = [
        subprocess.Popen(UP, env=quiet.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0] * 4, outputs
    eventually(
        lambda: controllers(quiet) == [quiet.controller_pid()], what="the other requests have finished"
    )


def test_repeated_up_and_down_are_no_errors(quiet: Home) -> None:
    assert "controller started" in up(quiet).stdout
    assert "already running" in up(quiet).stdout
    assert "controller stopped" in quiet.ok("down")
    assert "no controller is running" in quiet.ok("down")
    assert controllers(quiet) == []


def test_leftovers_of_a_killed_controller_do_not_prevent_a_start(quiet: Home) -> None:
    up(quiet)
    before = quiet.controller_pid()
    quiet.kill_controller()
    eventually(lambda: not controllers(quiet), what="the process has ended")
    assert (quiet.path / "warpdeck.sock").exists() and (quiet.path / "controller.lock").exists()
    assert quiet.run("status").returncode == 1
    assert quiet.ok("queue", "--json") == "[]\n"
    assert quiet.controller_pid() != before
    eventually(lambda: controllers(quiet) == [quiet.controller_pid()], what="a report exists")


def test_files_of_the_controller_are_private_to_its_user(quiet: Home) -> None:
    up(quiet)
    assert stat.S_IMODE(quiet.path.stat().st_mode) == 0o700
    for name in ("controller.log", "controller.lock", "state.db"):
        assert stat.S_IMODE((quiet.path / name).stat().st_mode) == 0o600, name


def test_the_path_of_a_home_can_be_longer_than_a_socket_address(short_tmp: Path) -> None:
    home = Home(short_tmp / ("long-" * 20) / ("longer-" * 10))
    home.path.parent.mkdir()
    try:
        assert up(home).returncode == 0
        assert home.json("status")["home"] == str(home.path)
        assert home.ok("queue", "--json") == "[]\n"
        home.kill_controller()
        assert home.json("queue") == []
    finally:
        home.close()


def test_the_log_is_bounded_while_it_runs(quiet: Home) -> None:
    quiet.path.mkdir(mode=0o700)
    log = quiet.path / "controller.log"
    log.write_bytes(b"x" * MAX_LOG_BYTES)
    up(quiet)
    eventually(lambda: log.stat().st_size < MAX_LOG_BYTES // 2, what="a new log file is started")
    assert (quiet.path / "controller.log.1").stat().st_size >= MAX_LOG_BYTES
    assert "serving on" in log.read_text()


def cannot_start(home: Home, *argv: str) -> None:
    """Check for one sentence with these words, a hint, exit code 1, and no running process."""
    done = up(home)
    assert (done.returncode, done.stdout) == (1, ""), done
    first, second = done.stderr.splitlines()
    for word in argv:
        assert word in done.stderr, done.stderr
    assert first.startswith("warpdeck: ") and second.startswith("  ")
    assert controllers(home) == []


def test_an_invalid_setting_is_reported_with_its_line(quiet: Home) -> None:
    quiet.path.mkdir()
    (quiet.path / "config.toml").write_text("\ngrace = 5\n")
    cannot_start(quiet, f"{quiet.path}/config.toml:2: grace: unknown key", "did you mean grace_s?")
    (quiet.path / "config.toml").write_text("grace_s = 5\n")
    assert up(quiet).returncode == 0


def test_a_file_that_is_no_database_is_reported(quiet: Home) -> None:
    quiet.path.mkdir()
    (quiet.path / "state.db").write_bytes(b"something else " * 1000)
    cannot_start(quiet, f"cannot use the database {quiet.path}/state.db", "not a database")


def test_an_empty_database_next_to_files_of_jobs_is_refused(quiet: Home) -> None:
    for name in ("agent", "trees", "outputs"):
        (quiet.path / name).mkdir(parents=True)
    up(quiet)
    quiet.ok("down")  # Empty folders do not count as left by jobs.
    (quiet.path / "trees" / "0").mkdir()
    for emptied in (lambda path: path.write_bytes(b""), Path.unlink):
        for suffix in ("-wal", "-shm"):
            (quiet.path / f"state.db{suffix}").unlink(missing_ok=True)
        emptied(quiet.path / "state.db")
        cannot_start(quiet, f"{quiet.path}/state.db is empty or missing", f"{quiet.path}/trees", "move these")
    (quiet.path / "trees" / "0").rmdir()
    assert up(quiet).returncode == 0


def test_an_unreadable_record_is_set_aside_and_reported(quiet: Home) -> None:
    up(quiet)
    for _ in range(3):
        quiet.ok("submit", "--no-snapshot", "--hold", "--wrap", "true")
    quiet.ok("down")
    with contextlib.closing(sqlite3.connect(quiet.path / "state.db")) as db:
        db.execute("UPDATE jobs SET data = x'c1c1c1' WHERE id = 2")
        db.commit()
    assert up(quiet).returncode == 0
    assert [row["id"] for row in quiet.json("queue")] == [1, 3]
    assert quiet.json("status")["unreadable"] == ["job 2"]
    assert "unreadable records, which state.db still contains: job 2;" in quiet.ok("status")
    assert "job 2 cannot be read and was set aside" in quiet.log()


def test_the_controller_raises_its_limit_of_open_files(quiet: Home) -> None:
    command = f"ulimit -S -n 256; exec {sys.executable} -m warpdeck.cli.main up"
    subprocess.run(["sh", "-c", command], env=quiet.environ, check=True, capture_output=True, timeout=60)
    soft, hard = resource.prlimit(quiet.controller_pid(), resource.RLIMIT_NOFILE)
    assert soft == hard > 256
    quiet.wait_for_idle_node()
    agent = lock_holder(quiet.path / "agent" / "agent.lock")
    assert resource.prlimit(agent, resource.RLIMIT_NOFILE)[0] == 256


def test_a_home_that_is_a_file_is_reported(quiet: Home) -> None:
    quiet.path.write_text("")
    cannot_start(quiet, f"cannot use {quiet.path}", "WARPDECK_HOME")
    quiet.path.unlink()


def test_a_socket_of_another_user_is_not_used(quiet: Home) -> None:
    quiet.path.mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(quiet.path / "warpdeck.sock"))
    assert up(quiet).returncode == 0
    assert quiet.json("status")["running"]


@pytest.mark.root
def test_a_read_only_home_and_a_full_disk_are_reported(short_tmp: Path) -> None:
    disk = short_tmp / "disk"
    disk.mkdir()
    home = Home(disk / "home")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    subprocess.run(mount, check=True)
    try:
        (disk / "filler").write_bytes(b"x" * (16 * 4096 - 4096))
        cannot_start(home, "the controller did not start", "full")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        cannot_start(home, f"cannot use {home.path}", "Read-only file system", "WARPDECK_HOME")
    finally:
        home.close()
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_an_ended_controller_does_not_count_as_stuck(quiet: Home) -> None:
    up(quiet)
    os.kill(quiet.controller_pid(), signal.SIGTERM)
    eventually(lambda: not controllers(quiet), what="the job has ended by itself")
    assert not (quiet.path / "warpdeck.sock").exists()
    assert "no controller is running" in quiet.ok("down")
