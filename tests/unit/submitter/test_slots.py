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
    made = short_tmp / "asked"
    held = lock_folder(str(made))
    yield made
    os.close(held)


@pytest.fixture
def slots(folder: Path) -> Iterator[Slots]:
    made = Slots(str(folder))
    yield made
    made.close()


def ask(folder: Path, text: str) -> None:
    with open(folder / "ask", "w", encoding="ascii") as asking:
        asking.write(text)


def ready(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("*.slot")]


def test_all_of_it_is_the_users_alone(folder: Path, slots: Slots) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    modes = {(stat.S_IFMT(path.stat().st_mode), path.stat().st_mode & 0o777) for path in folder.iterdir()}
    assert modes == {(stat.S_IFIFO, 0o600)}
    assert len(ready(folder)) == READY


def test_a_folder_is_served_once(folder: Path) -> None:
    with pytest.raises(BlockingIOError):
        lock_folder(str(folder))


def test_nothing_is_left_of_it(folder: Path) -> None:
    Slots(str(folder)).close()
    assert not folder.exists()


def test_a_folder_that_goes_before_it_is_held_is_not_held(
    short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, lock = short_tmp / "asked", fcntl.flock

    def after_it_went(descriptor: int, how: int) -> None:
        made.rmdir()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", after_it_went)
    with pytest.raises(BlockingIOError, match="removed"):
        lock_folder(str(made))


def test_what_shells_open_too_early_is_in_nobodys_way(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ask(folder, f"17 3 {ready(folder)[0]}\n")
    (found,) = slots.requests()
    found.slot.close()
    slots.close()
    assert not folder.exists()


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777])
def test_a_folder_that_others_reach_is_refused(short_tmp: Path, mode: int) -> None:
    (short_tmp / "open").mkdir()
    (short_tmp / "open").chmod(mode)
    with pytest.raises(PermissionError, match="not this user's alone"):
        lock_folder(str(short_tmp / "open"))


def test_a_link_to_a_folder_is_refused(short_tmp: Path) -> None:
    (short_tmp / "mine").mkdir(mode=0o700)
    (short_tmp / "link").symlink_to("mine")
    with pytest.raises(NotADirectoryError):
        lock_folder(str(short_tmp / "link"))


def test_a_question_is_asked_once_with_each_slot(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    ask(folder, f"17 3 {name}\n17 3 {name}\n")
    (found,) = slots.requests()
    assert (found.pid, found.words) == (17, 3)
    found.slot.close()
    assert name not in ready(folder)
    ask(folder, f"17 3 {name}\n")
    assert slots.requests() == []


@pytest.mark.parametrize(
    "line",
    ["", "x", "1 2", "1 2 3", "-1 2 {}", "1 -2 {}", "1 2 ../{}", "1 2 {} more", "9" * 40, "1 2 ask", "\0 2 {}", "1  2 {}"],
)  # fmt: skip
def test_what_is_no_question_is_passed_over(folder: Path, slots: Slots, line: str) -> None:
    name = ready(folder)[0]
    ask(folder, line.format(name) + f"\n5 0 {name}\n")
    assert [request.pid for request in slots.requests()] == [5]


def test_a_line_that_has_no_end_is_forgotten(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    ask(folder, "9" * (MAX_LINE_BYTES + 1))
    assert slots.requests() == []
    ask(folder, f"5 0 {name}\n")
    assert [request.pid for request in slots.requests()] == [5]


def test_a_question_in_two_pieces_is_one(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    ask(folder, f"5 0 {name[:4]}")
    assert slots.requests() == []
    ask(folder, f"{name[4:]}\n")
    assert [request.pid for request in slots.requests()] == [5]


def test_slots_are_made_anew_before_there_are_none(folder: Path, slots: Slots) -> None:
    used = ready(folder)[: READY - LEAST_READY]
    ask(folder, "".join(f"1 0 {name}\n" for name in used))
    for request in slots.requests():
        request.slot.close()
    slots.refill(LEAST_READY)
    assert len(ready(folder)) == LEAST_READY
    slots.refill()
    assert len(ready(folder)) == READY and not set(used) & set(ready(folder))


def test_a_slot_that_was_taken_and_never_asked_with_goes(folder: Path, slots: Slots) -> None:
    name = ready(folder)[0]
    (folder / f"{name}.taken").touch()
    now = time.monotonic()
    slots.sweep(now)
    assert name in ready(folder), "its shell may be about to ask"
    slots.sweep(now + SWEEP_S / 2)
    assert name in ready(folder)
    slots.sweep(now + SWEEP_S)
    assert name not in ready(folder) and not list(folder.glob("*.taken"))


def test_who_was_killed_left_nothing_that_counts(folder: Path) -> None:
    for name in ("old-1.slot", "ask"):
        os.mkfifo(folder / name)
    (folder / "old-1.slot.taken").touch()
    made = Slots(str(folder))
    assert "old-1.slot" not in ready(folder) and not list(folder.glob("*.taken"))
    made.close()


def test_an_answer_that_has_no_room_is_an_error(folder: Path, slots: Slots) -> None:
    ask(folder, f"5 0 {ready(folder)[0]}\n")
    (request,) = slots.requests()
    with pytest.raises(BlockingIOError):
        request.slot.say("1" + "x" * (1 << 20) + "\n")
    request.slot.close()


def test_who_waits_too_long_is_taken_out_again_oldest_first(folder: Path, slots: Slots) -> None:
    ask(folder, "".join(f"{number} 0 {name}\n" for number, name in enumerate(ready(folder)[:3])))
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
