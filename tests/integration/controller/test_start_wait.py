"""`warpdeck up` waits for a controller that is slow, and not for one that hangs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpdeck.base import controller_daemon
from warpdeck.base.controller_daemon import wait_for_start
from warpdeck.base.errors import UserError
from warpdeck.base.paths import OWN, Paths

LIMIT_S = 0.5
WORK_S = 2.0
"""Several times LIMIT_S."""
WORKS = """
import signal, socket, sys, time
until = time.process_time() + float(sys.argv[2])
while time.process_time() < until:
    pass
link = socket.socket(socket.AF_UNIX)
link.bind(sys.argv[1])
link.listen()
signal.pause()
"""
HANGS = "import signal; signal.pause()"


@contextlib.contextmanager
def child_of(program: str, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", program, *argv], stderr=subprocess.PIPE) as child:
        try:
            yield child
        finally:
            child.kill()


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(controller_daemon.START_S, OWN, LIMIT_S)


def test_a_start_that_works_longer_than_the_limit_is_awaited(short_tmp: Path) -> None:
    paths = Paths(str(short_tmp))
    began = time.monotonic()
    with child_of(WORKS, paths.socket, str(WORK_S)) as child:
        wait_for_start(paths, child)
    assert time.monotonic() - began >= WORK_S


def test_a_start_that_hangs_is_reported(short_tmp: Path) -> None:
    with child_of(HANGS) as child, pytest.raises(UserError, match="the controller does not answer"):
        wait_for_start(Paths(str(short_tmp)), child)


def test_a_start_that_works_for_ever_is_reported(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_daemon, "LONGEST_START_S", 2 * LIMIT_S)
    with (
        child_of("while True: pass") as child,
        pytest.raises(UserError, match="the controller does not answer"),
    ):
        wait_for_start(Paths(str(short_tmp)), child)
