"""The folder of request FIFOs between shells and a submitter, from the submitter's side."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpdeck.submitter.request_fifos import (
    LEAST_READY,
    MAX_LINE_BYTES,
    READY,
    SWEEP_S,
    ShellRequest,
    Slots,
    lock_folder,
)
from warpdeck.submitter.service import PATIENCE_S, RequestQueue


@pytest.fixture
def folder(short_tmp: Path) -> Iterator[Path]:
    made = short_tmp / "requests"
    held = lock_folder(str(made))
    yield made
    os.close(held)


@pytest.fixture
def slots(folder: Path) -> Iterator[Slots]:
    made = Slots(str(folder))
    yield made
    made.close()


def send(folder: Path, text: str) -> None:
    with open(folder / "ask", "w", encoding="ascii") as fifo:
        fifo.write(text)


def ready(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.slot")]


def test_the_folder_and_its_fifos_are_private(folder: Path, slots: Slots) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {(stat.S_IFMT(path.stat().st_mode), path.stat().st_mode & 0o777) for path in folder.iterdir()}
    assert modes == {(stat.S_IFIFO, 0o600)}
    assert len(ready(folder)) == READY


def test_a_folder_has_one_submitter(folder: Path) -> None:
    with pytest.raises(BlockingIOError):
        lock_folder(str(folder))


def test_closing_removes_the_folder(folder: Path) -> None:
    Slots(str(folder)).close()
    assert not folder.exists()


def test_a_folder_removed_before_it_is_locked_is_not_held(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, lock = short_tmp / "requests", fcntl.flock

    def after_it_went(descriptor: int, how: int) -> None:
        made.rmdir()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", after_it_went)
    with pytest.raises(BlockingIOError, match="removed"):
        lock_folder(str(made))


def test_files_created_by_early_shells_are_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell that has a slot creates a file for its request if there is none."""
    os.mkfifo(folder / "old.slot")
    forget, make = os.unlink, os.mkfifo

    def late_shell(path: str) -> None:
        forget(path)
        (folder / "ask").touch()

    def early_shell(path: str, mode: int) -> None:
        make(path, mode)
        if ready(folder):
            (folder / "ask").touch()

    monkeypatch.setattr(os, "unlink", late_shell)
    monkeypatch.setattr(os, "mkfifo", early_shell)
    slots = Slots(str(folder))
    monkeypatch.undo()
    send(folder, f"17 3 {ready(folder)[0]}\n")
    (found,) = slots.requests()
    found.slot.close()
    slots.close()
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777])
def test_a_folder_that_others_can_access_is_refused(short_tmp: Path, mode: int) -> None:
    (short_tmp / "open").mkdir()
    (short_tmp / "open").chmod(mode)
    with pytest.raises(PermissionError, match="not this user's alone"):
        lock_folder(str(short_tmp / "open"))


def test_a_link_to_a_folder_is_refused(short_tmp: Path) -> None:
    (short_tmp / "mine").mkdir(mode=0o700)
    (short_tmp / "link").symlink_to("mine")
    with pytest.raises(NotADirectoryError):
        lock_folder(str(short_tmp / "link"))


def test_each_slot_serves_one_request(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    send(folder, f"17 3 {name}\n17 3 {name}\n")
    (found,) = slots.requests()
    assert (found.pid, found.words) == (17, 3)
    found.slot.close()
    assert name not in ready(folder)
    send(folder, f"17 3 {name}\n")
    assert slots.requests() == []


@pytest.mark.parametrize(
    "line",
    ["", "x", "1 2", "1 2 3", "-1 2 {}", "1 -2 {}", "1 2 ../{}", "1 2 {} more", "9" * 40, "1 2 ask", "\0 2 {}", "1  2 {}"],
)  # fmt: skip
def test_invalid_requests_are_ignored(folder: Path, slots: Slots, line: str) -> None:
    name = ready(folder)[0]
    send(folder, line.format(name) + f"\n5 0 {name}\n")
    assert [request.pid for request in slots.requests()] == [5]


def test_a_line_without_an_end_is_discarded(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    send(folder, "9" * (MAX_LINE_BYTES + 1))
    assert slots.requests() == []
    send(folder, f"5 0 {name}\n")
    assert [request.pid for request in slots.requests()] == [5]


def test_a_request_may_arrive_in_two_pieces(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    send(folder, f"5 0 {name[:4]}")
    assert slots.requests() == []
    send(folder, f"{name[4:]}\n")
    assert [request.pid for request in slots.requests()] == [5]


def test_slots_are_refilled_before_they_run_out(folder: Path, slots: Slots) -> None:
    used = ready(folder)[: READY - LEAST_READY]
    send(folder, "".join(f"1 0 {name}\n" for name in used))
    for request in slots.requests():
        request.slot.close()
    slots.refill(LEAST_READY)
    assert len(ready(folder)) == LEAST_READY
    slots.refill()
    assert len(ready(folder)) == READY and not set(used) & set(ready(folder))


def test_a_slot_that_was_taken_but_not_used_is_removed(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    (folder / f"{name}.taken").touch()
    now = time.monotonic()
    slots.sweep(now)
    assert name in ready(folder), "its shell may be about to send its request"
    slots.sweep(now + SWEEP_S / 2)
    assert name in ready(folder)
    slots.sweep(now + SWEEP_S)
    assert name not in ready(folder) and not list(folder.glob("*.taken"))


def test_marks_of_shells_that_found_their_slot_used_up_are_removed(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    (folder / f"{name}.taken").touch()
    (folder / "used-1.slot.taken").touch()
    slots.sweep(time.monotonic())
    assert [path.name for path in folder.glob("*.taken")] == [f"{name}.taken"]


def test_leftovers_of_a_killed_submitter_are_removed(folder: Path) -> None:
    for name in ("old-1.slot", "ask"):
        os.mkfifo(folder / name)
    (folder / "old-1.slot.taken").touch()
    made = Slots(str(folder))
    assert "old-1.slot" not in ready(folder) and not list(folder.glob("*.taken"))
    made.close()


def test_an_answer_that_does_not_fit_is_an_error(folder: Path, slots: Slots) -> None:
    send(folder, f"5 0 {ready(folder)[0]}\n")
    (request,) = slots.requests()
    with pytest.raises(BlockingIOError):
        request.slot.say("1" + "x" * (1 << 20) + "\n")
    request.slot.close()


def test_overdue_requests_are_removed_oldest_first(folder: Path, slots: Slots) -> None:
    send(folder, "".join(f"{number} 0 {name}\n" for number, name in enumerate(ready(folder)[:3])))
    waiting = RequestQueue()
    requests = slots.requests()
    for number, request in enumerate(requests):
        request.since = number
        waiting.put(request)
    assert waiting.overdue(PATIENCE_S) == []
    assert [request.pid for request in waiting.overdue(1.5 + PATIENCE_S)] == [0, 1]
    last: ShellRequest | None = waiting.take()
    assert last is not None and last.pid == 2
    waiting.close()
    assert waiting.take() is None
    for request in requests:
        request.slot.close()
