"""Restore a home from a backup: all of it, or nothing if anything fails before the decision."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator

import msgspec

from warpdeck.base.controller_daemon import running_pid, take_lock
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.store.database_copy import Show

from .counters import compact, counters_of, forget_standby, raise_counters
from .create import reason_of
from .manifest import CONFIG, DATABASE, Counters
from .owner import check_owner
from .pending import NEW, SIDE_FILES, decide, finish_moves, write_plan
from .source import Source, stage
from .verify import Report, check_database


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """A finished restore."""

    source: str
    """The backup, or the folder of replaced state."""
    replaced: str
    """The folder that keeps the replaced state."""
    before: Counters | None
    """Counters of the replaced database, or None if there was none or it could not be read."""
    backup: Counters
    """Counters of the backup."""
    after: Counters
    """Counters of the restored database. Ids of jobs that were given out before are not given out again."""
    problems: int
    """Number of problems that the check found. A restore with problems needs `--force`."""


def restore(paths: Paths, source: str, *, force: bool = False, show: Show) -> Restored:
    """Replace the database and the configuration of the home by the files of the source. Raises UserError.

    The controller must be stopped. The state is replaced completely or not at all, whenever the process is killed.
    """
    check_owner(paths)
    try:
        with _locked_home(paths), _staged(paths.home) as folder:
            staged = stage(source, folder, show=show)
            report = check_database(folder, show=show)
            _refuse_problems(staged, report, force=force)
            return _replace(paths, folder, staged, problems=len(report.problems))
    except (OSError, sqlite3.Error) as error:
        raise UserError(
            f"cannot restore {source}: {reason_of(error)}", f"the state of {paths.home} is unchanged"
        ) from error


@contextlib.contextmanager
def _locked_home(paths: Paths) -> Iterator[None]:
    """Hold the lock of the home, so that no controller starts. Raises UserError if one runs."""
    os.makedirs(paths.home, mode=0o700, exist_ok=True)
    if pid := running_pid(paths):
        raise UserError(
            f"a controller runs in {paths.home} (pid {pid})",
            "stop it with `warpdeck down`, then restore; jobs keep running",
        )
    lock = take_lock(paths)
    try:
        finish_moves(paths.home)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def _staged(home: str) -> Iterator[str]:
    """Return the empty folder for the new files. It is deleted unless the restore is decided."""
    folder = os.path.join(home, NEW)
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder, mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_problems(source: Source, report: Report, *, force: bool) -> None:
    if report.problems and not force:
        count = len(report.problems)
        raise UserError(
            f"{source.path} has {count} problem{'' if count == 1 else 's'}; the first: {report.problems[0].sentence}",
            f"use another backup, see all problems with `warpdeck verify {source.path}`, or restore it with --force",
        )


def _replace(paths: Paths, folder: str, source: Source, *, problems: int) -> Restored:
    """Prepare the new files, decide, and move them. Raises OSError or sqlite3.Error, and then nothing has changed."""
    database = os.path.join(folder, DATABASE)
    before, backup = None, counters_of(database)
    forget_standby(database)
    with contextlib.suppress(sqlite3.DatabaseError):  # damaged pages, or no space: the copy stays as it is
        compact(database)
    with contextlib.suppress(sqlite3.Error, UserError):
        before = counters_of(paths.database)
        raise_counters(database, paths.database)
    after = counters_of(database)
    for suffix in SIDE_FILES[1:]:  # the last connection has emptied them
        with contextlib.suppress(FileNotFoundError):
            os.unlink(database + suffix)
    replaced = _new_folder(paths.home)
    is_new_config = os.path.exists(os.path.join(folder, CONFIG)) or source.manifest is None
    write_plan(folder, replaced=os.path.basename(replaced), gone=[] if is_new_config else [CONFIG])
    _sync_file(database)
    decide(paths.home)
    finish_moves(paths.home)
    return Restored(
        source=source.path, replaced=replaced, before=before, backup=backup, after=after, problems=problems
    )


def _new_folder(home: str) -> str:
    """Create the dated folder for the replaced state."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%SZ", time.gmtime())
    for suffix in ("", *(f"-{number}" for number in range(2, 100))):
        folder = os.path.join(home, f"replaced-{stamp}{suffix}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, mode=0o700)
            return folder
    raise UserError(f"{home} contains too many folders replaced-{stamp}", "delete some of them")


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
