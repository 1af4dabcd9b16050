"""The disk of a simulated controller: the real SQLite store on a file system in memory, with faults.

A transaction can take long, find the disk full after its last statement, or kill the controller: before it, between its last
statement and its COMMIT, or after it. A kill copies the files of the database as they are at that moment, including the
write-ahead log, and the next controller opens the copy. So each start of a controller recovers the log as after a `kill -9`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

from warpdeck.ports.store import Changes
from warpdeck.store.batch_log import RecordingConnection
from warpdeck.store.database import FETCH_SIZE, Database
from warpdeck.store.sqlite import SqliteStore

from .faults import MOST_DELAY_S, Faults

MEMORY = "/dev/shm"
FILES = ("state.db", "state.db-wal")
"""The files that a kill leaves. SQLite makes the third one, state.db-shm, anew."""
FULL = "simulated: no space left on the disk"


class Killed(BaseException):
    """The controller is killed inside a transaction."""


class SimDisk:
    """A disk that outlives the controllers."""

    def __init__(self, faults: Faults, rng: random.Random) -> None:
        self.faults = faults
        self.rng = rng
        self.crashed = asyncio.Event()
        """Set when the controller has died in a commit. `SimCluster.run_until_crash` then ends the controller and clears the event."""
        self._folder = tempfile.mkdtemp(prefix="warpdeck-sim", dir=MEMORY if os.path.isdir(MEMORY) else None)
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._generation = 0

    @property
    def path(self) -> str:
        """The database of the present controller, or of the next one after a kill."""
        return f"{self._folder}/{self._generation}/{FILES[0]}"

    def kill(self) -> None:
        """Keep the files as they are now for the next controller. Later writes of the present one are lost."""
        old = os.path.dirname(self.path)
        self._generation += 1
        new = os.path.dirname(self.path)
        os.mkdir(new)
        for name in FILES:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{old}/{name}", f"{new}/{name}")

    async def open_store(self) -> SimStore:
        """Open the database for a controller."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        store = await SimStore.open(self.path, connect=_open_inline)
        store.disk = self
        return store

    def kill_inside(self) -> None:
        """Kill the controller inside a transaction."""
        self.kill()
        self.crashed.set()
        raise Killed

    async def die(self) -> None:
        """Kill the controller. This never returns; the cluster cancels the task."""
        if not self.crashed.is_set():
            self.kill()
        self.crashed.set()
        await asyncio.Event().wait()


def fill() -> None:
    """Fail as SQLite does on a full disk."""
    raise sqlite3.OperationalError(FULL)


class InlineDatabase(Database):
    """A database that runs each function at once, because a loop with virtual time waits for no thread."""

    def __init__(self, path: str) -> None:
        super().__init__(_no_connector, FETCH_SIZE)
        # A garbage collection in any thread may delete the database of a killed controller.
        self._connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, factory=RecordingConnection
        )
        self.before_commit: Callable[[], None] = _nothing
        """Called after the last statement of the next transaction."""

    async def transact(self, work: Callable[[sqlite3.Connection], None]) -> None:
        fault, self.before_commit = self.before_commit, _nothing

        def work_and_fail(db: sqlite3.Connection) -> None:
            work(db)
            fault()

        await super().transact(work_and_fail)

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    async def close(self) -> None:
        self.__del__()

    def __del__(self) -> None:
        """Close the file. aiosqlite would warn."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _nothing() -> None:
    """Let the transaction commit."""


def _no_connector() -> sqlite3.Connection:
    raise AssertionError("an inline database is connected from its begin")


async def _open_inline(path: str) -> Database:
    return InlineDatabase(path)


class SimStore(SqliteStore):
    """The store of one controller."""

    disk: SimDisk

    async def commit(self, changes: Changes) -> None:
        if changes.is_empty():
            return
        disk, db = self.disk, self._db
        assert isinstance(db, InlineDatabase)
        faults, rng = disk.faults, disk.rng
        if rng.random() < faults.slow:
            await asyncio.sleep(rng.uniform(0.0, MOST_DELAY_S))
        if self._path != disk.path:  # The controller was killed, and its tasks are about to be canceled.
            await asyncio.Event().wait()
        is_full = rng.random() < faults.full
        dies_before, dies_after = rng.random() < faults.crash, rng.random() < faults.crash
        if dies_before and rng.random() < 0.5:
            await disk.die()
        if dies_before:
            db.before_commit = disk.kill_inside
        elif is_full:
            db.before_commit = fill
        try:
            await super().commit(changes)
        except Killed:
            await disk.die()
        if dies_after:
            await disk.die()

    async def commit_safely(self, changes: Changes) -> None:
        """Commit without faults."""
        await super().commit(changes)
