"""The counters of a database, and their values after a restore."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import msgspec

from warpdeck.model.recovery import Recovery
from warpdeck.store.batch_log import META_KEY
from warpdeck.store.database_copy import open_for_reading
from warpdeck.store.starts import RECOVERY, SECRET, START

from .manifest import Counters

NEXT_JOB_ID = "next_job_id"
"""Key in the table `meta`. Other keys are those of `store.starts`."""
INCREMENTAL = 2
"""The value of SQLite's auto_vacuum that `purge.shrink` needs."""


class _Start(msgspec.Struct, frozen=True):
    epoch: int = 0


def read_counters(db: sqlite3.Connection) -> Counters:
    """Return the counters of a database of any schema. Raises sqlite3.Error."""
    meta = _meta(db)
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
    """Raise the counters of a copy to the counters of the database that it replaces, and return them.

    Ids of jobs that were given out once are then never given out again. They are recorded as lost, so that the
    controller does not end launches with these ids as outdated ones (`model.recovery`). The epoch and the secret of the site, without
    which agents refuse the controller, are kept as well. Nothing is changed if the databases belong to different sites.
    Raises UserError or sqlite3.Error.
    """
    with closing(open_for_reading(replaced)) as old:
        known, meta = read_counters(old), _meta(old)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        found, has = read_counters(db), _meta(db)
        if found.controller_id != known.controller_id:
            return found
        next_job_id = max(known.next_job_id, known.highest_job_id + 1)
        kept = {}
        if next_job_id > found.next_job_id:
            kept[NEXT_JOB_ID] = str(next_job_id)
            kept[RECOVERY] = _with_lost_ids(has.get(RECOVERY), found.next_job_id, next_job_id - 1)
        if (known.epoch or 0) > (found.epoch or 0):
            kept[START] = meta[START]
        if SECRET in meta and SECRET not in has:
            kept[SECRET] = meta[SECRET]
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", kept.items())
        return read_counters(db)


def _with_lost_ids(recovery: str | None, first: int, last: int) -> str:
    """Return the record of a recovery with one more range of ids that the lost part of the database may have given."""
    try:
        known = msgspec.json.decode(recovery or "{}", type=Recovery)
    except msgspec.MsgspecError:
        known = Recovery()
    return msgspec.json.encode(known.with_lost_ids(first, last)).decode()


def _meta(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT key, value FROM meta"))


def compact(path: str) -> None:
    """Rewrite a copy without free pages, in the form that can shrink later. Raises sqlite3.Error."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        if db.execute("PRAGMA auto_vacuum").fetchone()[0] != INCREMENTAL:
            db.execute("PRAGMA journal_mode = DELETE")  # a controller sets its mode at its start
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("VACUUM")


def forget_standby(path: str) -> None:
    """Delete the position in the log of transactions, so that a standby begins with a full copy. Raises sqlite3.Error.

    The position stands for a content, and `raise_counters` changes the content.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DELETE FROM meta WHERE key = ?", (META_KEY,))


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
