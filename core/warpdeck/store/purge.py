"""Delete old ended jobs from the database in small transactions, and keep the sums of their costs.

A submission is purged as a whole, when all of its jobs have ended before the limit. One transaction adds the costs of
its jobs to the table `purged`, whose `end_at` is the last second of their day (UTC), and deletes their rows. Charged
usage has a table of its own and does not change, so fair share stays the same.

With an archive, the rows are first written to a database file of the same schema, one file per month of the end. A
purge that is killed between the two writes archives the same rows again, which changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, TypeVar

from warpdeck.base.errors import StoreError, UserError
from warpdeck.model import Job

from .database import Database
from .database_copy import open_for_reading
from .finished_jobs import COSTS
from .migration import migrate, needs_migration, refuse_newer

BATCH_JOBS = 40
"""Number of jobs after which a transaction ends. It takes about 20 ms, and commits of jobs wait for it."""
SCAN = 500
"""Number of submissions that one query reads."""
VACUUM_PAGES = 1024
"""Largest number of free pages that the file loses after a transaction (4 MiB)."""
ARCHIVE_KEY = "archive"
"""Key in the table `meta` of an archive. Its usage and nodes are elsewhere."""
DAY_S = 86_400
KEEP_READ_S = 60.0
"""A job is not purged for this number of seconds after it was read, because an order for it may wait in the queue of events."""
MAX_READ = 10_000
"""Maximum number of remembered reads. Older ones are forgotten."""
_IDS = "(SELECT id FROM jobs WHERE array_job_id = ?1)"
CONDITIONS = {
    **dict.fromkeys(("steps", "curves", "journal"), f"job_id IN {_IDS}"),
    "requests": f"""
    array_job_id IN (SELECT COALESCE(request_key, array_job_id) FROM jobs WHERE array_job_id = ?1
    UNION SELECT COALESCE(request_key, array_job_id) FROM runs WHERE job_id IN {_IDS})
    """,
    "runs": f"job_id IN {_IDS}",
    "past": f"id IN {_IDS}",
    "jobs": "array_job_id = ?1",
}
"""Table -> the condition of the rows of a submission, in the order of their deletion. Each condition uses an index."""
_HAS_PARTS = f"SELECT 1 FROM requests WHERE parts IS NOT NULL AND {CONDITIONS['requests']}"
_PARTS = f"sha256 IN (SELECT parts FROM requests WHERE {CONDITIONS['requests']})"
_COPY_PARTS = f"SELECT uid, sha256, size, content FROM request_parts WHERE {_PARTS}"
_PUT_PARTS = "INSERT OR IGNORE INTO request_parts (uid, sha256, size, content) VALUES (?, ?, ?, ?)"
_DROP_PARTS = f"""
DELETE FROM request_parts WHERE {_PARTS} AND NOT EXISTS (
    SELECT 1 FROM requests WHERE parts = request_parts.sha256 AND NOT ({CONDITIONS["requests"]})
)
"""
"""The large parts of a submission's requests, if no other submission has the same ones."""
_SUBMISSIONS = "SELECT DISTINCT array_job_id FROM jobs WHERE array_job_id > ? ORDER BY array_job_id LIMIT ?"
_MEMBERS = "SELECT COUNT(*), MIN(finished), MAX(COALESCE(end_at, 0)) FROM jobs WHERE array_job_id = ?"
_MEMBER_IDS = "SELECT id FROM jobs WHERE array_job_id = ?"
_ADD_COSTS = f"""
INSERT INTO purged
SELECT (CAST(end_at / {DAY_S} AS INTEGER) + 1) * {DAY_S} - 1 AS day, user, account, partition, qos, state, reason,
{COSTS} FROM past WHERE {CONDITIONS["past"]} GROUP BY day, user, account, partition, qos, state, reason
ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs, failed = failed + excluded.failed, cpu_s = cpu_s + excluded.cpu_s,
gpu_s = gpu_s + excluded.gpu_s, measured_s = measured_s + excluded.measured_s, used_s = used_s + excluded.used_s,
wasted_s = wasted_s + excluded.wasted_s
"""

_T = TypeVar("_T")


class Batch(NamedTuple):
    """Submissions that one transaction purges."""

    submissions: tuple[int, ...]
    next_after: int | None
    """The submission after which the next batch begins, or None if there is none."""


class EndLimit(NamedTuple):
    """The limit of a purge: the time before which jobs have ended, and the number of ended jobs that are kept."""

    ended_before_unix: float
    most_jobs: int = 0
    """All but so many of the newest ended jobs are purged, also later ones; 0 sets no such limit."""

    def unix(self, db: sqlite3.Connection) -> float:
        """Return the time before which jobs must have ended to be purged. Raises sqlite3.Error."""
        if not self.most_jobs:
            return self.ended_before_unix
        query = "SELECT end_at FROM past ORDER BY end_at DESC LIMIT 1 OFFSET ?"
        found = db.execute(query, (self.most_jobs - 1,)).fetchone()
        return self.ended_before_unix if found is None else max(self.ended_before_unix, float(found[0]))


class RecentReads:
    """Submissions that were read lately. An order on an ended job reads it first, and changes it a moment later.

    All methods run in the thread of the database, where the purge runs, too.
    """

    def __init__(self) -> None:
        self._read_at: dict[int, float] = {}

    def noted(self, jobs: list[Job]) -> list[Job]:
        """Return the jobs, and keep their submissions from being purged for KEEP_READ_S."""
        if len(self._read_at) > MAX_READ:
            self._read_at = {each: at for each, at in self._read_at.items() if _is_recent(at)}
        self._read_at.update((job.array_job_id, time.monotonic()) for job in jobs)
        return jobs

    def has(self, array_job_id: int) -> bool:
        at = self._read_at.get(array_job_id)
        return at is not None and _is_recent(at)


def _is_recent(at: float) -> bool:
    return time.monotonic() - at < KEEP_READ_S


def find_batch(db: sqlite3.Connection, *, after: int, limit_unix: float, needed: Collection[int]) -> Batch:
    """Return the next submissions to purge after the submission `after`. Raises sqlite3.Error.

    A submission is left out if it or one of its jobs is in `needed`.
    """
    found: list[int] = []
    jobs = 0
    ids = [row[0] for row in db.execute(_SUBMISSIONS, (after, SCAN))]
    for array_job_id in ids:
        count = _purgeable(db, array_job_id, limit_unix)
        if count and array_job_id not in needed:
            found.append(array_job_id)
            jobs += count
        if jobs >= BATCH_JOBS:
            return Batch(tuple(found), array_job_id)
    return Batch(tuple(found), ids[-1] if len(ids) == SCAN else None)


def _purgeable(db: sqlite3.Connection, array_job_id: int, limit_unix: float) -> int:
    """Return the number of the submission's jobs, or 0 if it must stay."""
    count, finished, end_at = db.execute(_MEMBERS, (array_job_id,)).fetchone()
    return int(count) if finished and end_at < limit_unix else 0


def delete(db: sqlite3.Connection, submissions: Iterable[int], *, limit_unix: float) -> int:
    """Purge the submissions that have not changed meanwhile, in the caller's transaction. Return the number of jobs."""
    purged = 0
    for array_job_id in submissions:
        count = _purgeable(db, array_job_id, limit_unix)
        if not count:
            continue
        purged += count
        db.execute(_ADD_COSTS, (array_job_id,))
        if db.execute(_HAS_PARTS, (array_job_id,)).fetchone():  # few submissions have any
            db.execute(_DROP_PARTS, (array_job_id,))
        for table, condition in CONDITIONS.items():
            db.execute(f"DELETE FROM {table} WHERE {condition}", (array_job_id,))
    return purged


def shrink(db: sqlite3.Connection) -> None:
    """Give some free pages back to the disk. A database that was made before this was possible keeps them."""
    # The pragma frees one page for each row that is read, and `execute` reads one row only.
    db.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")


def archive(path: str, folder: str, submissions: Sequence[int]) -> None:
    """Copy all rows of the submissions from the database file to the archives of their months.

    Raises OSError, sqlite3.Error, StoreError or UserError.
    """
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with closing(open_for_reading(path)) as db:
        db.execute("BEGIN")
        for file, members in _by_month(db, submissions).items():
            with _opened_archive(os.path.join(folder, file)) as target:
                _copy(db, target, members)


def _by_month(db: sqlite3.Connection, submissions: Sequence[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for array_job_id in submissions:
        end_at = db.execute(_MEMBERS, (array_job_id,)).fetchone()[2]
        month = datetime.fromtimestamp(end_at, UTC).strftime("%Y-%m")
        found.setdefault(f"jobs-{month}.db", []).append(array_job_id)
    return found


@contextlib.contextmanager
def _opened_archive(path: str) -> Iterator[sqlite3.Connection]:
    """Open or create an archive. All that is written in the context is durable at its end, or nothing is."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    refuse_newer(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        if needs_migration(db):
            migrate(db)
        yield db
        db.execute("COMMIT")


def _copy(db: sqlite3.Connection, target: sqlite3.Connection, submissions: Sequence[int]) -> None:
    kept = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('controller_id', 'next_job_id')"))
    for key, value in {**kept, ARCHIVE_KEY: "1"}.items():
        target.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
    for array_job_id in submissions:
        if db.execute(_HAS_PARTS, (array_job_id,)).fetchone():
            target.executemany(_PUT_PARTS, db.execute(_COPY_PARTS, (array_job_id,)))
        target.executemany("DELETE FROM journal WHERE job_id = ?", db.execute(_MEMBER_IDS, (array_job_id,)))
        for table, condition in CONDITIONS.items():
            columns = _columns(db, table)
            rows = db.execute(f"SELECT {columns} FROM {table} WHERE {condition}", (array_job_id,))
            marks = ", ".join("?" * (columns.count(",") + 1))
            target.executemany(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", rows)


def _columns(db: sqlite3.Connection, table: str) -> str:
    """Return the columns of a table without `seq`, the number of a row, which may be given again after a purge."""
    names = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    return ", ".join(name for name in names if name != "seq")


class Purger:
    """Purges ended jobs of one database while it is in use."""

    def __init__(self, db: Database, path: str, recent: RecentReads) -> None:
        self._db = db
        self._path = path
        self._recent = recent

    async def purge(
        self, *, limit: EndLimit, archive_folder: str, needed: Callable[[], Collection[int]]
    ) -> AsyncGenerator[int, None]:
        """Purge in small transactions, and yield the number of jobs after each one.

        `needed` returns the submissions that must stay. The caller may wait between the transactions. Raises
        StoreError, and then the last transaction has not taken place.
        """
        after: int | None = 0
        try:
            limit_unix = await asyncio.to_thread(self._read, limit.unix)
            while after is not None:
                find = partial(find_batch, after=after, limit_unix=limit_unix, needed=needed())
                batch: Batch = await asyncio.to_thread(self._read, find)
                if archive_folder and batch.submissions:
                    await asyncio.to_thread(archive, self._path, archive_folder, batch.submissions)
                yield await self._delete(set(batch.submissions).difference(needed()), limit_unix)
                after = batch.next_after
        except (OSError, UserError, sqlite3.Error) as error:
            raise StoreError(f"cannot purge ended jobs: {error}") from error

    def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Read over a connection of its own, so that commits do not wait."""
        with closing(open_for_reading(self._path)) as db:
            return work(db)

    async def _delete(self, submissions: Collection[int], limit_unix: float) -> int:
        if not submissions:
            return 0
        counts: list[int] = []

        def work(db: sqlite3.Connection) -> None:
            unread = (each for each in sorted(submissions) if not self._recent.has(each))
            counts.append(delete(db, unread, limit_unix=limit_unix))

        await self._db.transact(work)
        await self._db.wait_for_standby()
        await self._db.read(shrink)
        return counts[-1]
