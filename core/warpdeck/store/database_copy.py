"""Copy the database of a running or stopped controller with SQLite's backup API.

The copy is read in one read transaction, so it shows the database at one moment, however much the controller
writes meanwhile. In WAL mode a reader does not delay commits. The copy is made in small steps so that its
writes do not fill the disk's queue. Until the copy is complete, SQLite cannot shorten the -wal file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from urllib.parse import quote

from warpdeck.base.errors import UserError

STEP_PAGES = 128
"""Pages of one step. With pages of 4 KiB these are 512 KiB, which a disk writes in a few milliseconds."""
PAUSE_S = 0.002
"""Pause after a step, so that commits of the controller get their turn on a slow disk."""
BUSY_S = 10.0

Show = Callable[[str], None]
"""Gets text about the progress, such as "database 12 %"."""


def check_exists(path: str) -> None:
    """Raise UserError if there is no such database."""
    if not os.path.exists(path):
        raise UserError(
            f"{path} does not exist", "set WARPDECK_HOME to a home with a database, or name a backup"
        )


def open_for_reading(path: str) -> sqlite3.Connection:
    """Open a database file without any right to change it. Raises UserError or sqlite3.Error."""
    check_exists(path)
    return sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_S)


def copy_database(source: str, target: str, *, show: Show) -> None:
    """Copy the database file `source` to the new file `target`. Raises UserError, OSError or sqlite3.Error."""
    check_exists(source)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if _is_on_read_only_disk(source):
        _copy_files(source, target)
        return

    def progress(_status: int, remaining: int, total: int) -> None:
        show(f"database {100 * (total - remaining) // max(1, total)} %")
        time.sleep(PAUSE_S)

    with closing(open_for_reading(source)) as reader, closing(sqlite3.connect(target)) as writer:
        writer.execute("PRAGMA journal_mode = OFF")
        writer.execute("PRAGMA synchronous = OFF")  # the archive is made durable, not this copy
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()  # begins the read transaction
        reader.backup(writer, pages=STEP_PAGES, progress=progress, sleep=0.0)
        reader.execute("ROLLBACK")


def _is_on_read_only_disk(path: str) -> bool:
    """Return whether SQLite cannot read the database because it cannot create the -shm file beside it."""
    is_read_only = os.statvfs(os.path.dirname(os.path.abspath(path))).f_flag & os.ST_RDONLY
    return bool(is_read_only) and not os.path.exists(f"{path}-shm")


def _copy_files(source: str, target: str) -> None:
    """Copy the files of a database that nobody can write, with the commits that are only in the -wal file."""
    shutil.copyfile(source, target)
    if os.path.exists(f"{source}-wal"):
        shutil.copyfile(f"{source}-wal", f"{target}-wal")
    with closing(sqlite3.connect(target, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
