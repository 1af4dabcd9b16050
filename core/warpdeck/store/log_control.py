"""Begins and ends the numbered log of a database, and copies the database while it is in use."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable

from warpdeck.base.errors import StoreError, UserError

from .batch_log import META_KEY, BatchLog, first_position, read_position, write_position
from .database import Database
from .database_copy import copy_database


class LogControl:
    """The numbered log of one database. See `batch_log`."""

    def __init__(self, db: Database, path: str) -> None:
        self._db = db
        self._path = path

    @property
    def batches(self) -> BatchLog | None:
        """The log, or None while no standby is set up."""
        return self._db.batches

    async def start(self) -> BatchLog:
        """Number the transactions from now on, unless they already are. Raises StoreError."""
        loop = asyncio.get_running_loop()

        def begin(db: sqlite3.Connection) -> None:
            if self._db.batches is None:
                position = first_position()
                write_position(db, position)
                self._db.batches = BatchLog(position, loop)

        await self._run(begin)
        assert self._db.batches is not None
        return self._db.batches

    async def stop(self) -> None:
        """Stop numbering. A standby that is set up later begins with a full copy. Raises StoreError."""
        log = self._db.batches

        def end(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM meta WHERE key = ?", (META_KEY,))
            self._db.batches = None

        await self._run(end)
        if log is not None:
            log.stop_waiting()

    async def resume(self) -> None:
        """Number the transactions if they were numbered before this process opened the database. Raises sqlite3.Error."""
        position = await self._db.read(read_position)
        if position is not None:
            self._db.batches = BatchLog(position, asyncio.get_running_loop())

    async def copy_to(self, path: str) -> None:
        """Copy the whole database to a file while it is in use. Raises StoreError."""
        try:
            await asyncio.to_thread(_copy_anew, self._path, path)
        except (OSError, UserError, sqlite3.Error) as error:
            raise StoreError(f"cannot copy {self._path} to {path}: {error}") from error

    async def _run(self, work: Callable[[sqlite3.Connection], None]) -> None:
        try:
            await self._db.read(work)
        except sqlite3.Error as error:
            raise StoreError(f"cannot write {self._path}: {error}") from error


def _copy_anew(source: str, target: str) -> None:
    """Copy a database over an earlier copy. Raises OSError, UserError or sqlite3.Error."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    copy_database(source, target, show=lambda text: None)
