"""The conditions under which a submitter is started."""

from __future__ import annotations

import os
from pathlib import Path

from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import RETRY_S, ensure, folder_of, listens, log_of
from warpdeck.submitter.request_fifos import Slots, lock_folder


def test_a_submitter_that_has_just_failed_is_not_restarted(short_tmp: Path) -> None:
    paths = Paths(str(short_tmp))
    log = Path(log_of(paths))
    log.parent.mkdir()
    log.write_text("a bug")
    ensure(paths)
    assert log.read_text() == "a bug"
    long_ago = log.stat().st_mtime - 2 * RETRY_S
    os.utime(log, (long_ago, long_ago))
    ensure(paths)  # finds no controller, and exits
    assert log.read_text() == ""


def test_a_listening_submitter_is_recognized_despite_stale_files(short_tmp: Path) -> None:
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


def test_each_home_and_user_has_a_separate_folder(short_tmp: Path) -> None:
    ours, other = Paths("/one"), Paths("/other")
    assert folder_of(ours) != folder_of(other)
    assert f"-{os.getuid()}." in folder_of(ours)
