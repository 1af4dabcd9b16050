"""Several login nodes that share the home folder of a user: one gateway acts, and the others name its machine.

Each fake login node has a host name and a boot identity of its own. Where the file system keeps locks local to a machine, the
lock file of another node is removed before its lock is tried, so that no lock of the kernel excludes it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.support.home import Home

from warpdeck.base import home_owner
from warpdeck.base.paths import Paths

pytestmark = pytest.mark.slurm
LOCKED = """
import socket, sys
from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.paths import SLURM, Paths
socket.sethostname("login2")
take_lock(Paths(sys.argv[1], wanted_engine=SLURM))
print("locked", flush=True)
sys.stdin.read()
"""
"""A gateway on another machine, as far as the lock tells it."""


def test_a_gateway_on_another_login_node_is_named_with_a_next_step(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", WARPDECK_ENGINE="slurm")
    home.path.mkdir(mode=0o700)
    (home.path / "engine").write_text("slurm\n")
    argv = ["unshare", "--uts", sys.executable, "-c", LOCKED, str(home.path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        for verb, told in (
            ("up", "another one with a folder of this machine"),
            ("down", "stop it on login2"),
        ):
            refused = home.run(verb)
            assert refused.returncode == 1, refused
            assert "runs on login2" in refused.stderr and told in " ".join(refused.stderr.split()), (
                refused.stderr
            )
        assert not (home.path / "state.db").exists(), "the record was not opened a second time"
        other.communicate("")


OWNER = """
import os, socket, sys
from warpdeck.base import home_owner
from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.errors import UserError
from warpdeck.base.paths import SLURM, Paths
home, name = sys.argv[1:3]
socket.sethostname(name)
with open(home + "/" + name, "w") as file:
    file.write(name)
home_owner.BOOT_FILE, home_owner.BEAT_S = file.name, 0.05
paths = Paths(home, wanted_engine=SLURM)
if os.path.exists(paths.lock):
    os.unlink(paths.lock)
take_lock(paths)
print("ready", flush=True)
sys.stdin.readline()
try:
    with home_owner.owned(paths):
        print("owned", flush=True)
        sys.stdin.read()
except UserError as error:
    print(error.message, flush=True)
"""
"""A gateway on a login node, as far as the folder tells it, with a file system that keeps locks local."""


@contextmanager
def login_node(home: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    argv = ["unshare", "--uts", sys.executable, "-c", OWNER, str(home), name]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert line_of(node) == "ready"
            yield node
        finally:
            node.kill()


def line_of(node: subprocess.Popen[str]) -> str:
    assert node.stdout is not None
    return node.stdout.readline().rstrip("\n")


def begin(node: subprocess.Popen[str]) -> None:
    assert node.stdin is not None
    node.stdin.write("\n")
    node.stdin.flush()


def let_time_pass(home: Path) -> None:
    """Make the record as old as if its owner had been silent for long."""
    long_ago = time.time() - 2 * home_owner.SILENT_S
    os.utime(home_owner.owner_path(Paths(str(home))), (long_ago, long_ago))


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "engine").write_text("slurm\n")
    return folder


def test_a_gateway_is_found_where_locks_are_local_to_a_machine(shared: Path) -> None:
    home = Home(shared, WARPDECK_ENGINE="slurm")
    with login_node(shared, "login2") as other:
        begin(other)
        assert line_of(other) == "owned"
        os.unlink(Paths(str(shared)).lock)
        for verb, told in (("up", "use warpdeck on login2"), ("down", "stop it on login2")):
            refused = home.run(verb)
            assert refused.returncode == 1 and "runs on login2" in refused.stderr, refused
            assert told in " ".join(refused.stderr.split())
        other.communicate("")
    assert not os.path.exists(home_owner.owner_path(Paths(str(shared)))), (
        "the owner has ended and left no record"
    )


def test_a_killed_owner_counts_as_running_until_it_was_silent_for_long(shared: Path) -> None:
    with (
        login_node(shared, "login1") as first,
        login_node(shared, "login2") as second,
        login_node(shared, "login3") as third,
    ):
        begin(first)
        assert line_of(first) == "owned"
        first.kill()
        first.wait()
        begin(second)
        assert line_of(second).endswith("runs on login1")
        let_time_pass(shared)
        begin(third)
        assert line_of(third) == "owned"


def test_an_owner_that_was_stopped_for_long_ends_when_it_continues(shared: Path) -> None:
    with login_node(shared, "login1") as first, login_node(shared, "login2") as second:
        begin(first)
        assert line_of(first) == "owned"
        os.kill(first.pid, signal.SIGSTOP)
        let_time_pass(shared)
        begin(second)
        assert line_of(second) == "owned"
        os.kill(first.pid, signal.SIGCONT)
        assert first.wait() == -signal.SIGTERM
        assert home_owner.owning_host(Paths(str(shared))) == "login2"


@pytest.mark.parametrize("before", ["no owner", "a silent owner"])
def test_of_many_machines_that_begin_at_once_one_becomes_the_owner(shared: Path, before: str) -> None:
    with ExitStack() as stack:
        if before == "a silent owner":
            killed = stack.enter_context(login_node(shared, "killed"))
            begin(killed)
            assert line_of(killed) == "owned"
            killed.kill()
            killed.wait()
            let_time_pass(shared)
        nodes = [stack.enter_context(login_node(shared, f"login{number}")) for number in range(5)]
        for node in nodes:
            begin(node)
        found = [line_of(node) for node in nodes]
        assert found.count("owned") == 1, found
        winner = f"login{found.index('owned')}"
        assert home_owner.owning_host(Paths(str(shared))) == winner
