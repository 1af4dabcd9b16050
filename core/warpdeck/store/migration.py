"""Bring a database to the schema of this version, in one transaction.

A migration that is killed or fails leaves the database as it was, so the earlier version of warpdeck can still
use it. A database with a newer schema is refused before anything is written.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from urllib.parse import quote

from warpdeck.base.errors import StoreError

from . import finished_jobs, request_parts
from .job_rows import JOIN, each_job
from .salvage import Salvage, quarantine
from .schema import MIGRATIONS

WITH_PARTS = 1 + next(at for at, script in enumerate(MIGRATIONS) if "request_parts" in script)
"""The first schema version with the large parts of requests in a table of their own."""
SCHEMA = len(MIGRATIONS)
"""The schema version of this version of warpdeck."""
FINISHED_FILLED = "past_filled"
"""Key in the table `meta`. Its row exists if the table of finished jobs is filled."""


def schema_version(db: sqlite3.Connection) -> int:
    """Return the schema version of the database. Raises sqlite3.Error."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def newer_schema(version: int) -> str:
    """Return the sentence about a database of a newer version, or "" if this version can use it."""
    if version <= SCHEMA:
        return ""
    return (
        f"its schema {version} is of a newer warpdeck (this one supports {SCHEMA}); install the newer version"
    )


def refuse_newer(path: str) -> None:
    """Raise StoreError if the schema of the database file is newer. The file is opened for reading only.

    Raises sqlite3.Error if it cannot be read.
    """
    if not os.path.getsize(path):
        return  # The file was just created.
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as db:
        if refusal := newer_schema(schema_version(db)):
            raise StoreError(refusal)


def needs_migration(db: sqlite3.Connection) -> bool:
    """Return whether `migrate` has anything to do."""
    if schema_version(db) < SCHEMA:
        return True
    return db.execute("SELECT 1 FROM meta WHERE key = ?", (FINISHED_FILLED,)).fetchone() is None


def migrate(db: sqlite3.Connection) -> None:
    """Apply all missing migrations. The caller has begun a transaction.

    The table of finished jobs is filled once, with the jobs that ended before the table existed. A million jobs
    take about a minute.
    """
    before = schema_version(db)
    for script in MIGRATIONS[before:]:
        for statement in script.split(";"):
            if statement.strip():
                db.execute(statement)
    db.execute(f"PRAGMA user_version = {SCHEMA}")
    if before < WITH_PARTS:
        request_parts.split_all(db)
    if db.execute("SELECT 1 FROM meta WHERE key = ?", (FINISHED_FILLED,)).fetchone() is None:
        _fill_search_records(db)


def _fill_search_records(db: sqlite3.Connection) -> None:
    salvage = Salvage()
    finished_jobs.write(db, each_job(db, f"{JOIN} WHERE finished = 1", (), salvage))
    quarantine(db, salvage.unreadable, time.time())
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (FINISHED_FILLED, "1"))
