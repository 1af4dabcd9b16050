"""The moves of a restore that was decided: old files into the dated folder, new files to their places.

Each move is skipped if it was done before, so the moves can be repeated after a kill at any moment. The controller
finishes them at its start, so this module imports little.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil

from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths

from .manifest import DATABASE, TREES
from .staging import sync_folder

NEW, DECIDED = "restore.new", "restore"
"""Folders of the home: the new files while they are written, and after the decision."""
PLAN = "plan.json"
SIDE_FILES = ("", "-wal", "-shm")
"""Suffixes of the files of one SQLite database. They belong together."""


def write_plan(folder: str, *, replaced: str, gone: list[str]) -> None:
    """Write the plan of a restore into the folder of its new files.

    `replaced` is the name of the dated folder, and `gone` are the files that the new state does not have. Raises
    OSError.
    """
    with open(os.path.join(folder, PLAN), "w", encoding="utf-8") as file:
        json.dump({"replaced": replaced, "gone": gone}, file)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def decide(home: str) -> None:
    """Make the new state the state of the home. Raises OSError, and then nothing has changed."""
    os.rename(os.path.join(home, NEW), os.path.join(home, DECIDED))
    sync_folder(home)


def finish_restore(paths: Paths) -> None:
    """Finish the moves of a restore that was killed, unless a controller runs, which finishes them itself.

    Raises UserError or OSError.
    """
    if not os.path.isdir(os.path.join(paths.home, DECIDED)):
        return
    with contextlib.suppress(UserError):
        lock = take_lock(paths)
        try:
            finish_moves(paths.home)
        finally:
            os.close(lock)


def finish_moves(home: str) -> bool:
    """Do all moves that are left, and return whether there were any. The caller has the home's lock. Raises OSError."""
    folder = os.path.join(home, DECIDED)
    if not os.path.isdir(folder):
        return False
    with contextlib.suppress(FileNotFoundError):  # without a plan, all moves are done
        with open(os.path.join(folder, PLAN), encoding="utf-8") as file:
            plan = json.load(file)
        _do_moves(home, folder, os.path.join(home, plan["replaced"]), plan["gone"])
        os.unlink(os.path.join(folder, PLAN))
    shutil.rmtree(folder)
    sync_folder(home)
    return True


def _do_moves(home: str, folder: str, replaced: str, gone: list[str]) -> None:
    os.makedirs(replaced, mode=0o700, exist_ok=True)
    for name in gone:
        _set_aside(home, name, replaced)
    for name in sorted(os.listdir(folder)):
        if name == TREES:
            _merge_trees(os.path.join(folder, TREES), os.path.join(home, TREES))
        elif name != PLAN:
            _set_aside(home, name, replaced)
            os.rename(os.path.join(folder, name), os.path.join(home, name))
    sync_folder(home)
    sync_folder(folder)


def _set_aside(home: str, name: str, replaced: str) -> None:
    """Move an old file into the dated folder. A database is moved with its side files, which would spoil a new one."""
    for suffix in SIDE_FILES if name == DATABASE else ("",):
        with contextlib.suppress(FileNotFoundError):
            os.rename(os.path.join(home, name + suffix), os.path.join(replaced, name + suffix))
    sync_folder(replaced)
    sync_folder(home)


def _merge_trees(new: str, trees: str) -> None:
    """Move the packed snapshots that the home lacks. They are named by their contents, so none is replaced."""
    os.makedirs(trees, mode=0o700, exist_ok=True)
    for folder, _, names in os.walk(new):
        place = os.path.normpath(os.path.join(trees, os.path.relpath(folder, new)))
        os.makedirs(place, mode=0o700, exist_ok=True)
        for name in names:
            if not os.path.exists(os.path.join(place, name)):
                os.rename(os.path.join(folder, name), os.path.join(place, name))
        sync_folder(place)
