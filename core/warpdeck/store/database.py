"""Connections to the SQLite database file. Each connection runs whole functions in a thread of its own."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import aiosqlite

from warpdeck.base.errors import UserError

from .batch_log import Batch, BatchLog, RecordingConnection, write_position

FETCH_SIZE = 64
"""Number of rows that a cursor fetches at once. The value is aiosqlite's default and has no effect, because
our queries fetch all rows.
"""
STEPS_BETWEEN_CHECKS = 100_000
"""Number of SQLite virtual machine instructions between two checks of the clock. They take some
milliseconds.
"""

_T = TypeVar("_T")


class Database(aiosqlite.Connection):
    """An aiosqlite connection that runs a whole function in its thread.

    Each call of aiosqlite is one round trip to the thread, so a transaction is sent as one call.
    """

    batches: BatchLog | None = None
    """The log of all transactions, if there is one."""

    async def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` in the database's thread and return its result. Raises sqlite3.Error."""
        found: _T = await self._execute(lambda: work(self._conn))  # type: ignore[no-untyped-call]
        return found

    async def transact(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run `work` between BEGIN and COMMIT. If any of it fails, roll back and raise the error."""
        await self._execute(self._transact_in_thread, work)  # type: ignore[no-untyped-call]

    async def wait_for_standby(self) -> None:
        """Wait until the standby has all transactions so far, if commits wait for it."""
        if self.batches is not None and self.batches.waits_for_standby:
            await self.batches.wait_acknowledged(self.batches.position.number)

    def _transact_in_thread(self, work: Callable[[sqlite3.Connection], None]) -> None:
        db = self._conn
        try:
            db.execute("BEGIN IMMEDIATE")
            batch = self._recorded(db, work)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        if batch is not None and self.batches is not None:
            self.batches.append(batch)

    def _recorded(self, db: sqlite3.Connection, work: Callable[[sqlite3.Connection], None]) -> Batch | None:
        """Run `work`. With a log, write the position after it, and return it as a batch."""
        if self.batches is None:
            work(db)
            return None
        assert isinstance(db, RecordingConnection)
        with db.recording() as statements:
            work(db)
        if not statements:
            return None
        batch = self.batches.next_batch(statements)
        write_position(db, batch.position)
        return batch


async def open_database(path: str) -> Database:
    """Open the database file for reading and writing. Raises sqlite3.Error."""
    db = Database(
        lambda: sqlite3.connect(path, isolation_level=None, factory=RecordingConnection), FETCH_SIZE
    )
    await db
    return db


async def open_reader(path: str) -> Database:
    """Open the database file for reading only. Raises sqlite3.Error."""
    db = Database(lambda: sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True), FETCH_SIZE)
    await db
    return db


def run_within(db: sqlite3.Connection, most_s: float, work: Callable[[sqlite3.Connection], _T]) -> _T:
    """Run `work`, and raise UserError if it takes longer than `most_s` seconds.

    Runs in the database's thread.
    """
    until = time.monotonic() + most_s
    db.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_CHECKS)
    try:
        return work(db)
    except sqlite3.OperationalError as error:
        if time.monotonic() <= until:
            raise
        raise UserError("the search takes too long", "search for one user, account, or state") from error
    finally:
        db.set_progress_handler(None, 0)
