"""The durable store: SQLite in WAL mode with synchronous=FULL, one transaction per batch of the controller.

When a commit returns, its data is on disk. A commit that fails (for example because the disk is full) is
rolled back completely and raises StoreError. Rows contain the model's structs as msgpack. The other columns
serve queries as filters. A job's request is stored once per submission and joined when jobs are read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import msgspec

from warpdeck.base.errors import StoreError
from warpdeck.model import Condition, Job, JobCurve, JobId, Node, Request, Reservation
from warpdeck.model.finished_jobs import FinishedQuery, GroupCost
from warpdeck.model.step import Step
from warpdeck.ports.store import (
    LAST_RUNS,
    Changes,
    FinishedPage,
    JournalEntry,
    Loaded,
    UnreadableRow,
    UsageRecord,
    Waits,
)

from . import conditions, created_objects, finished_jobs, request_parts
from . import starts as start_rows
from .database import Database, open_database, open_reader, run_within
from .job_rows import JOB, JOIN, NO_REQUEST, each_job
from .log_control import LogControl
from .migration import migrate, needs_migration, refuse_newer
from .purge import Purger, RecentReads
from .salvage import Salvage, job_ids, quarantine, quarantined_rows
from .schema import WHOLE_JOB

log = logging.getLogger(__name__)

MAX_VALUES = 900
"""Maximum number of values in one query. Older versions of SQLite accept 999."""
MAX_SEARCH_S = 20.0
"""Maximum number of seconds for a query about finished jobs. A query over a million rows takes one second."""

_T = TypeVar("_T")
Connect = Callable[[str], Awaitable[Database]]
"""Opens a database file for reading and writing. Raises sqlite3.Error."""
_NODE = msgspec.msgpack.Decoder(Node)
_RESERVATION = msgspec.msgpack.Decoder(Reservation)
_STEP = msgspec.msgpack.Decoder(Step)
_USAGE = msgspec.msgpack.Decoder(UsageRecord)
_CURVE = msgspec.msgpack.Decoder(JobCurve)
_ENCODER = msgspec.msgpack.Encoder()

_PUT_META = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_JOIN_RUNS = """
SELECT runs.job_id, runs.restarts, runs.data, requests.array_job_id, requests.data FROM runs
JOIN requests ON requests.array_job_id = COALESCE(runs.request_key, runs.array_job_id)
"""

_ENDED_USERS = """
WITH RECURSIVE names (name) AS (
    SELECT MIN(user) FROM jobs WHERE finished = 1
    UNION ALL
    SELECT (SELECT MIN(user) FROM jobs WHERE finished = 1 AND user > name) FROM names WHERE name IS NOT NULL
) SELECT name FROM names WHERE name IS NOT NULL
"""
_LATELY_ENDED_STEPS = """
WHERE finished = 1 AND job_id IN (SELECT id FROM jobs WHERE finished = 0) ORDER BY job_id, number
"""
"""Finished steps of unfinished jobs. An srun that lost an answer may still request such a step."""
_LAST_OF_USER = "WHERE finished = 1 AND user = ? ORDER BY end_at DESC LIMIT ?"


class SqliteStore:
    """Store over one database file. Create it with `SqliteStore.open`."""

    def __init__(self, db: Database, path: str) -> None:
        self._db = db
        self._path = path
        self._reader: asyncio.Task[Database] | None = None
        self._recent = RecentReads()

    @classmethod
    async def open(cls, path: str, *, connect: Connect = open_database, is_durable: bool = True) -> Self:
        """Open or create the database (mode 0600), and migrate it. Raises StoreError.

        If `is_durable` is false, commits do not wait for the disk.
        """
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            refuse_newer(path)
            db = await connect(path)
        except OSError as error:
            raise StoreError(f"cannot open the database {path}: {error}") from error
        except (sqlite3.Error, StoreError) as error:
            raise StoreError(f"cannot use the database {path}: {error}") from error
        store = cls(db, path)
        try:
            await db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect on a new database only
            await db.execute("PRAGMA journal_mode = WAL")
            await db.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'OFF'}")
            if await db.read(needs_migration):
                await db.transact(migrate)
            await store.log.resume()
        except (sqlite3.Error, StoreError) as error:
            await db.close()
            raise StoreError(f"cannot use the database {path}: {error}") from error
        return store

    async def close(self) -> None:
        await self._db.close()
        if self._reader is not None:
            await (await self._reader).close()

    async def load(self, *, finished_since_unix: float) -> Loaded:
        """Return all data that the controller needs at its start.

        The jobs are the unfinished jobs, and the jobs that ended at or after `finished_since_unix`.
        """
        controller_id = await self.controller_id()
        jobs = await self._jobs(
            f"{JOIN} WHERE finished = 0 OR (finished = 1 AND end_at >= ?) ORDER BY id",
            (finished_since_unix,),
        )
        nodes = await self._all("nodes", _NODE, "ORDER BY name")
        reserved = await self._all("reservations", _RESERVATION, "ORDER BY name")
        usage = await self._all("usage", _USAGE)
        ended = await self._all("steps", _STEP, _LATELY_ENDED_STEPS)
        running = await self._all("steps", _STEP, "WHERE finished = 0 ORDER BY job_id, number")
        last_runs = await self._read(_last_runs)
        last_conditions = await self._read(
            lambda db, salvage: conditions.read(db, sys.float_info.max, salvage)
        )
        created_rows = await self._read(created_objects.read)
        unreadable = await self._read(lambda db, salvage: quarantined_rows(db))
        known_starts = await self.starts()
        known = {job.id for job in jobs}
        return Loaded(
            controller_id=controller_id,
            next_job_id=await self._next_job_id(unreadable),
            jobs=tuple(jobs),
            nodes=tuple(nodes),
            usage=tuple(usage),
            waits=_waits(await self._meta("waits") or "{}"),
            reservations=tuple(reserved),
            last_runs=tuple(last_runs),
            steps=tuple(step for step in (*ended, *running) if step.job_id in known),
            created=tuple(created_rows),
            conditions=tuple(last_conditions),
            unreadable=tuple(unreadable),
            start=known_starts.start,
            fenced_by=known_starts.fenced_by,
            recovery=known_starts.recovery,
        )

    async def _next_job_id(self, unreadable: Sequence[UnreadableRow]) -> int:
        """Return the next id that no job has had.

        It is larger than every job id in the database, even if the stored counter is wrong or unreadable.
        """
        stored = await self._meta("next_job_id") or "1"
        highest = await self._rows("SELECT MAX(id) FROM jobs")
        last = max(highest[0][0] or 0, *job_ids(unreadable), 0)
        return max(int(stored) if stored.isdecimal() else 1, last + 1)

    async def controller_id(self) -> str:
        """Return the random id of this controller. It stays the same as long as the database exists."""
        known = await self._meta("controller_id")
        if known is None:
            known = secrets.token_hex(16)
            await self._set_meta("controller_id", known)
        return known

    async def starts(self) -> start_rows.KnownStarts:
        """Return the last start of the controller, and the one that has fenced it."""
        return await self._read(lambda db, salvage: start_rows.read(db))

    async def site_secret(self) -> str:
        """Return the random secret of this site. It is made once and never leaves the controller."""
        return await self._read(lambda db, salvage: start_rows.secret(db))

    async def commit(self, changes: Changes) -> None:
        """Write the changes in one durable transaction. Raises StoreError, and then no change is kept."""
        if changes.is_empty():
            return
        try:
            await self._db.transact(lambda db: _write(db, changes))
        except sqlite3.Error as error:
            raise StoreError(f"cannot write {self._path}: {error}") from error
        await self._db.wait_for_standby()

    @property
    def log(self) -> LogControl:
        """The switch of the numbered log of all transactions."""
        return LogControl(self._db, self._path)

    @property
    def purger(self) -> Purger:
        """Deletes old ended jobs."""
        return Purger(self._db, self._path, self._recent)

    async def job(self, job_id: JobId) -> Job | None:
        """Return one job of any age, or None."""
        found = await self._jobs_to_change(f"{JOIN} WHERE id = ?", (job_id,))
        return found[0] if found else None

    async def parts(self, uid: int, sha256: str) -> bytes | None:
        """Return large parts of a request of this user, or None if they are not stored any more."""
        return await self._read(lambda db, salvage: request_parts.read(db, uid, sha256))

    async def named(self, number: JobId) -> list[Job]:
        """Return all jobs of one submission ordered by id, or the array task with that id."""
        members = await self._jobs_to_change(f"{JOIN} WHERE jobs.array_job_id = ? ORDER BY id", (number,))
        return members or await self._jobs_to_change(f"{JOIN} WHERE id = ?", (number,))

    async def jobs(self, numbers: Sequence[JobId]) -> list[Job]:
        """Return the jobs with these ids, ordered by id. Unknown ids are skipped."""
        found = []
        for some in _chunks(numbers):
            found += await self._jobs_to_change(
                f"{JOIN} WHERE id IN ({_marks(some)}) ORDER BY id", tuple(some)
            )
        return found

    async def ended_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        """Return the ids of finished jobs of these users, in ascending order.

        The jobs were submitted by `until_unix` and ended at `since_unix` or later.
        """
        query = "SELECT id FROM jobs WHERE finished = 1 {} AND end_at >= ? AND submit_at <= ? ORDER BY id"
        return await self._ids_in_time(query, users, since_unix, until_unix)

    async def run_ids(self, *, users: Sequence[str], since_unix: float, until_unix: float) -> list[JobId]:
        query = (
            "SELECT DISTINCT job_id FROM runs WHERE 1 {} AND end_at >= ? AND submit_at <= ? ORDER BY job_id"
        )
        return await self._ids_in_time(query, users, since_unix, until_unix)

    async def _ids_in_time(
        self, query: str, users: Sequence[str], since_unix: float, until_unix: float
    ) -> list[JobId]:
        of_users = f"AND user IN ({_marks(users)})" if users else ""
        values = (*users, since_unix, min(until_unix, sys.float_info.max))
        return [JobId(row[0]) for row in await self._rows(query.format(of_users), values)]

    async def runs_of(self, numbers: Sequence[JobId]) -> list[Job]:
        """Return the earlier starts of these jobs, grouped by job."""
        found = []
        for some in _chunks(numbers):
            query = f"{_JOIN_RUNS} WHERE job_id IN ({_marks(some)}) ORDER BY job_id, restarts"
            found += await self._jobs(query, tuple(some))
        return found

    async def search_finished(self, query: FinishedQuery, *, counted: bool) -> FinishedPage:
        return await self._read_separately(lambda db: finished_jobs.page(db, query, counted=counted))

    async def finished_costs(self, query: FinishedQuery) -> list[GroupCost]:
        return await self._read_separately(lambda db: finished_jobs.costs(db, query))

    async def _read_separately(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Read over a separate connection, because a query may read a million rows and commits must not wait
        for it.
        """
        try:
            if self._reader is None:
                self._reader = asyncio.create_task(open_reader(self._path))
            reader = await asyncio.shield(self._reader)
            return await reader.read(lambda db: run_within(db, MAX_SEARCH_S, work))
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self._path}: {error}") from error

    async def steps_of(self, numbers: Sequence[JobId]) -> list[Step]:
        """Return the steps of these jobs, grouped by job."""
        found = []
        for some in _chunks(numbers):
            clause = f"WHERE job_id IN ({_marks(some)}) ORDER BY job_id, restarts, number"
            found += await self._all("steps", _STEP, clause, tuple(some))
        return found

    async def finished_jobs(self, *, user: str | None, limit: int) -> list[Job]:
        """Return the last `limit` finished jobs of a user, or of all users if `user` is None, oldest
        first.
        """
        where = "finished = 1" if user is None else "finished = 1 AND user = ?"
        values: tuple[Any, ...] = (limit,) if user is None else (user, limit)
        found = await self._jobs(f"{JOIN} WHERE {where} ORDER BY end_at DESC LIMIT ?", values)
        return found[::-1]

    async def journal(self, job_id: JobId) -> list[JournalEntry]:
        """Return a job's history, oldest first."""
        rows = await self._rows("SELECT at, text FROM journal WHERE job_id = ? ORDER BY seq", (job_id,))
        return [JournalEntry(at_unix=row[0], job_id=job_id, text=row[1]) for row in rows]

    async def last_entries(self, limit: int) -> list[JournalEntry]:
        """Return the latest journal entries of all jobs, newest first."""
        rows = await self._rows("SELECT at, job_id, text FROM journal ORDER BY seq DESC LIMIT ?", (limit,))
        return [JournalEntry(at_unix=row[0], job_id=JobId(row[1]), text=row[2]) for row in rows]

    async def steps(self, job_id: JobId) -> list[Step]:
        """Return all steps of a job, ordered by start and step number."""
        return await self._all("steps", _STEP, "WHERE job_id = ? ORDER BY restarts, number", (job_id,))

    async def conditions(self, at_unix: float) -> list[Condition]:
        """Return the state of each node at that time."""
        return await self._read_separately(lambda db: conditions.read(db, at_unix, Salvage()))

    async def conditions_between(self, since_unix: float, until_unix: float) -> list[Condition]:
        """Return the conditions that began in this range, and for each node the one at its begin."""
        return await self._read_separately(
            lambda db: conditions.read_between(db, since_unix, until_unix, Salvage())
        )

    async def curves(self, job_id: JobId, *, step: int | None = None) -> list[JobCurve]:
        """Return the usage curves of a job or of one of its steps, one per node."""
        values = (job_id, WHOLE_JOB if step is None else step)
        return await self._all("curves", _CURVE, "WHERE job_id = ? AND step = ? ORDER BY node", values)

    async def _jobs(self, query: str, values: tuple[Any, ...]) -> list[Job]:
        return await self._read(lambda db, salvage: list(each_job(db, query, values, salvage)))

    async def _jobs_to_change(self, query: str, values: tuple[Any, ...]) -> list[Job]:
        """Return jobs that the caller may be about to change, so they are not purged for a while."""
        return await self._read(
            lambda db, salvage: self._recent.noted(list(each_job(db, query, values, salvage)))
        )

    async def _all(
        self, table: str, decoder: msgspec.msgpack.Decoder[_T], clause: str = "", values: tuple[Any, ...] = ()
    ) -> list[_T]:
        return await self._read(lambda db, salvage: list(salvage.read(db, table, decoder, clause, values)))

    async def _read(self, work: Callable[..., _T]) -> _T:
        """Return the result of `work`.

        If `work` finds rows that cannot be decoded, these rows are set aside and the read is repeated.
        """
        try:
            while True:
                salvage = Salvage()
                found = await self._db.read(partial(work, salvage=salvage))
                if not salvage.unreadable:
                    return found
                await self._db.transact(
                    partial(quarantine, unreadable=salvage.unreadable, now_unix=time.time())
                )
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self._path}: {error}") from error

    async def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            return list(await self._db.execute_fetchall(query, values))
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self._path}: {error}") from error

    async def _meta(self, key: str) -> str | None:
        rows = await self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return str(rows[0][0]) if rows else None

    async def _set_meta(self, key: str, value: str) -> None:
        def write(db: sqlite3.Connection) -> None:
            db.execute(_PUT_META, (key, value))

        await self._db.transact(write)


def _chunks(numbers: Sequence[JobId]) -> Iterator[Sequence[JobId]]:
    for at in range(0, len(numbers), MAX_VALUES):
        yield numbers[at : at + MAX_VALUES]


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _waits(text: str) -> Waits:
    """Return the recorded waiting times of jobs. If the record cannot be read, start from the beginning."""
    try:
        return msgspec.json.decode(text, type=Waits)
    except msgspec.MsgspecError as error:
        log.error("the recorded waiting times of jobs cannot be read: %s", error)
        return Waits()


def _last_runs(db: sqlite3.Connection, salvage: Salvage) -> list[Job]:
    """Return the last jobs of each user.

    The query follows the index user by user, so its cost depends on the number of users and not on the number
    of jobs.
    """
    found: list[Job] = []
    for (user,) in db.execute(_ENDED_USERS).fetchall():
        found += reversed(list(salvage.read(db, "jobs", JOB, _LAST_OF_USER, (user, LAST_RUNS))))
    return found


_WRITES: tuple[tuple[str, str, Callable[[Any], tuple[Any, ...]]], ...] = (
    (
        "requests",
        "INSERT OR REPLACE INTO requests VALUES (?, ?, ?)",
        lambda pair: _request_row(*pair),
    ),
    ("jobs", "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", lambda job: _job_row(job)),
    ("runs", "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", lambda job: _run_row(job)),
    ("gone_jobs", "DELETE FROM jobs WHERE id = ?", lambda job_id: (job_id,)),
    ("nodes", "INSERT OR REPLACE INTO nodes VALUES (?, ?)", lambda node: (node.name, _ENCODER.encode(node))),
    ("gone_nodes", "DELETE FROM nodes WHERE name = ?", lambda name: (name,)),
    (
        "journal",
        "INSERT INTO journal (at, job_id, text) VALUES (?, ?, ?)",
        lambda entry: (entry.at_unix, entry.job_id, entry.text),
    ),
    (
        "curves",
        "INSERT OR REPLACE INTO curves VALUES (?, ?, ?, ?)",
        lambda each: (
            *(each.job_id, WHOLE_JOB if each.step is None else each.step, each.node),
            _ENCODER.encode(each),
        ),
    ),
    (
        "reservations",
        "INSERT OR REPLACE INTO reservations VALUES (?, ?)",
        lambda each: (each.name, _ENCODER.encode(each)),
    ),
    ("gone_reservations", "DELETE FROM reservations WHERE name = ?", lambda name: (name,)),
    (
        "usage",
        "INSERT OR REPLACE INTO usage VALUES (?, ?, ?, ?)",
        lambda row: (*row.key, _ENCODER.encode(row)),
    ),
    (
        "steps",
        "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?)",
        lambda step: (step.job_id, step.restarts, step.number, int(step.is_finished), _ENCODER.encode(step)),
    ),
)
"""(field of Changes, statement, row of one of its items), in the order in which they are written."""


def _write(db: sqlite3.Connection, changes: Changes) -> None:
    """Write all rows of one transaction. Runs in the database's thread."""
    for name, statement, row in _WRITES:
        if items := getattr(changes, name):
            db.executemany(statement, map(row, items))
    if changes.parts:
        request_parts.write(db, changes.parts)
    if changes.jobs:
        finished_jobs.write(db, changes.jobs)
    if changes.gone_nodes:
        conditions.drop(db, changes.gone_nodes)
    if changes.conditions:
        conditions.write(db, changes.conditions)
    if changes.created or changes.gone_created:
        created_objects.write(db, changes.created, changes.gone_created)
    if changes.waits is not None:
        db.execute(_PUT_META, ("waits", msgspec.json.encode(changes.waits).decode()))
    if changes.next_job_id is not None:
        db.execute(_PUT_META, ("next_job_id", str(changes.next_job_id)))
    start_rows.write(db, changes)


def _request_row(key: JobId, request: Request) -> tuple[Any, ...]:
    return key, _ENCODER.encode(request), None if request.parts is None else request.parts.sha256


def _run_row(job: Job) -> tuple[Any, ...]:
    number, array_job_id, user, _, _, submit_at, end_at, data, request_key = _job_row(job)
    return number, job.restarts, array_job_id, request_key, user, submit_at, end_at or 0.0, data


def _job_row(job: Job) -> tuple[Any, ...]:
    data = _ENCODER.encode(msgspec.structs.replace(job, request=NO_REQUEST))
    return (
        job.id,
        job.array_job_id,
        job.user,
        job.state.value,
        int(job.is_finished),
        job.submit_at_unix,
        job.end_at_unix,
        data,
        job.request_key or None,
    )
