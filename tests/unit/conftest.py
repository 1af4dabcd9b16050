"""Unit tests start no process and open no socket. An audit hook fails a test that does."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

FORBIDDEN = frozenset(
    (
        "subprocess.Popen",
        "os.posix_spawn",
        "os.fork",
        "os.exec",
        "os.system",
        "pty.spawn",
        "socket.bind",
        "socket.connect",
    )
)
_guarded = [False]


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event in FORBIDDEN and _guarded[0]:
        raise AssertionError(f"a unit test did {event}: move it to tests/integration")


sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def no_process_and_no_socket() -> Iterator[None]:
    """Watch each unit test."""
    _guarded[0] = True
    yield
    _guarded[0] = False
