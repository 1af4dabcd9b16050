"""The conditions under which a submitter is started."""

from __future__ import annotations

import os
from pathlib import Path

from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import AGAIN_S, ensure, folder_of, listens, log_of
from warpdeck.submitter.request_fifos import Slots, lock_folder


def test_one_that_has_just_failed_is_not_started_again(short_tmp: Path) -> None:
    paths = Paths(str(short_tmp))
    log = Path(log_of(paths))
    log.parent.mkdir()
    log.write_text("a bug")
    ensure(paths)
    assert log.read_text() == "a bug"
    long_ago = log.stat().st_mtime - 2 * AGAIN_S
    os.utime(log, (long_ago, long_ago))
    ensure(paths)  # finds no controller, and exits
    assert log.read_text() == ""


def test_whether_one_listens_is_seen_also_beside_what_a_killed_one_left(short_tmp: Path) -> None:
    paths = Paths(str(short_tmp))
    folder = folder_of(paths)
    assert not listens(paths)
    held = lock_folder(folder)
    slots = Slots(folder)
    assert listens(paths)
    slots.close()
    os.close(held)
    os.mkdir(folder)
    os.mkfifo(f"{folder}/ask")
    assert not listens(paths)
    os.unlink(f"{folder}/ask")
    Path(f"{folder}/ask").touch()
    assert not listens(paths)
    os.unlink(f"{folder}/ask")
    os.rmdir(folder)


def test_homes_and_users_have_folders_of_their_own(short_tmp: Path) -> None:
    ours, other = Paths("/one"), Paths("/other")
    assert folder_of(ours) != folder_of(other)
    assert f"-{os.getuid()}." in folder_of(ours)
