"""Connections to the SQLite database file. Each connection runs whole functions in a thread of its own."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import aiosqlite

from warpdeck.base.errors import UserError

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

    async def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` in the database's thread and return its result. Raises sqlite3.Error."""
        found: _T = await self._execute(lambda: work(self._conn))  # type: ignore[no-untyped-call]
        return found

    async def transact(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` between BEGIN and COMMIT, and return its result.

        If any of it fails, roll back and raise the error.
        """
        made: _T = await self._execute(self._transact_in_thread, work)  # type: ignore[no-untyped-call]
        return made

    def _transact_in_thread(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        db = self._conn
        try:
            db.execute("BEGIN IMMEDIATE")
            made = work(db)
            db.execute("COMMIT")
            return made
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


async def open_database(path: str) -> Database:
    """Open the database file for reading and writing. Raises sqlite3.Error."""
    db = Database(lambda: sqlite3.connect(path, isolation_level=None), FETCH_SIZE)
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
