"""Copy the database of a running or stopped controller with SQLite's backup API.

The copy is read in one read transaction, so it shows the database at one moment, however much the controller
writes meanwhile. In WAL mode a reader does not delay commits. The copy is made in small steps so that its
writes do not fill the disk's queue. Until the copy is complete, SQLite cannot shorten the -wal file.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from urllib.parse import quote

import msgspec

from warpdeck.backup.manifest import Counters
from warpdeck.base.errors import UserError

STEP_PAGES = 128
"""Pages of one step. With pages of 4 KiB these are 512 KiB, which a disk writes in a few milliseconds."""
PAUSE_S = 0.002
"""Pause after a step, so that commits of the controller get their turn on a slow disk."""
BUSY_S = 10.0
NEXT_JOB_ID, START = "next_job_id", "start"
"""Keys in the table `meta`. The last start of the controller is a JSON object with its epoch."""

_PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"

Show = Callable[[str], None]
"""Gets text about the progress, such as "database 12 %"."""


class _Start(msgspec.Struct, frozen=True):
    epoch: int = 0


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
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

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


def read_counters(db: sqlite3.Connection) -> Counters:
    """Return the counters of a database of any schema. Raises sqlite3.Error."""
    meta = dict(db.execute("SELECT key, value FROM meta"))
    jobs, highest = db.execute("SELECT COUNT(*), COALESCE(MAX(id), 0) FROM jobs").fetchone()
    return Counters(
        schema=int(db.execute("PRAGMA user_version").fetchone()[0]),
        controller_id=str(meta.get("controller_id", "")),
        jobs=jobs,
        highest_job_id=highest,
        next_job_id=_number(meta.get(NEXT_JOB_ID)) or 1,
        epoch=_epoch(meta.get(START)),
    )


def counters_of(path: str) -> Counters:
    """Return the counters of a database file. Raises UserError or sqlite3.Error."""
    with closing(open_for_reading(path)) as db:
        return read_counters(db)


def raise_counters(path: str, replaced: str) -> Counters:
    """Raise the counters of a copy to those of the database that it replaces, and return them.

    Ids of jobs that were given out once are then never given out again, and the agents obey the controller. Nothing
    is raised if the databases belong to different sites. Raises UserError or sqlite3.Error.
    """
    with closing(open_for_reading(replaced)) as old:
        known, start = (
            read_counters(old),
            old.execute("SELECT value FROM meta WHERE key = ?", (START,)).fetchone(),
        )
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        found = read_counters(db)
        if found.controller_id != known.controller_id:
            return found
        next_job_id = max(known.next_job_id, known.highest_job_id + 1)
        if next_job_id > found.next_job_id:
            db.execute(_PUT_META, (NEXT_JOB_ID, str(next_job_id)))
        if (known.epoch or 0) > (found.epoch or 0):
            db.execute(_PUT_META, (START, start[0]))
        return read_counters(db)


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() else None


def _epoch(text: object) -> int | None:
    """Return the epoch in the record of a start, or None if there is none or it cannot be read."""
    if not isinstance(text, str):
        return None
    try:
        return msgspec.json.decode(text, type=_Start).epoch
    except msgspec.MsgspecError:
        return None
