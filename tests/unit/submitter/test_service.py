"""The end of a submitter process."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.submitter.request_fifos import Slots, lock_folder
from warpdeck.submitter.service import Submitter


@contextmanager
def submitter(folder: Path, *, linger_s: float) -> Iterator[tuple[Submitter, socket.socket]]:
    """Return a submitter that has not run yet, and the controller's end of its connection."""
    held = lock_folder(str(folder))
    ours, theirs = socket.socketpair()
    with theirs, SyncClient.greeted(ours, {"user": "me"}) as controller:
        yield Submitter(Paths("/nowhere"), Slots(str(folder)), controller, linger_s=linger_s), theirs
    os.close(held)


@pytest.mark.parametrize("end", ["its controller goes", "nobody asks"])
def test_a_submitter_ends_and_removes_its_folder(short_tmp: Path, end: str) -> None:
    folder = short_tmp / "requests"
    with submitter(folder, linger_s=0.0 if end == "nobody asks" else 1000.0) as (serving, controller):
        if end == "its controller goes":
            controller.close()
        serving.run()
    assert not folder.exists()


def test_a_request_is_turned_away_if_no_controller_answers(short_tmp: Path) -> None:
    folder = short_tmp / "requests"
    with submitter(folder, linger_s=1000.0) as (serving, _):
        slot = next(folder.glob("*.slot"))
        reading = os.open(slot, os.O_RDONLY | os.O_NONBLOCK)
        writing = os.open(folder / "ask", os.O_WRONLY)
        os.write(writing, f"{os.getpid()} 0 {slot.name}\n".encode())
        serving.run()  # a worker finds no controller at /nowhere and exits
        assert os.read(reading, 100) == b""
        os.close(reading)
        os.close(writing)
