"""The numbered log of the store's transactions. A standby applies it to its copy of the database.

While a standby is set up, each transaction of the store is one batch: its statements with their rows. The transaction
also writes its `Position` into the table meta. The chain in it is a hash over all batches so far. So two databases with
the same position have the same content, also if one of them was restored from an older copy.

`BatchLog.after` is the one decision: it returns the batches that a standby at some position lacks, or None if the
standby needs a full copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

META_KEY = "batch"
MAX_KEPT_BYTES = 256 * 1024 * 1024
"""Maximum size of the kept batches. A standby that lacks an older one gets a full copy."""
MAX_KEPT = 100_000
"""Maximum number of kept batches."""
_READS = ("SELECT", "WITH", "PRAGMA", "BEGIN", "COMMIT", "ROLLBACK")

Statement = tuple[str, list[tuple[Any, ...]]]
"""A statement, and the rows of values that it was executed for."""
_STATEMENTS = msgspec.msgpack.Decoder(list[tuple[str, list[list[Any]]]])


class Position(NamedTuple):
    """A point in the history of a database: the number of its last batch, and the hash over all batches."""

    number: int
    chain: str

    @property
    def text(self) -> str:
        return f"{self.number} {self.chain}"

    @classmethod
    def parse(cls, text: str) -> Position:
        number, _, chain = text.partition(" ")
        return cls(int(number), chain)

    def after(self, payload: bytes) -> Position:
        """Return the position after one more batch."""
        digest = hashlib.blake2b(self.chain.encode() + payload, digest_size=8)
        return Position(self.number + 1, digest.hexdigest())


class Batch(NamedTuple):
    """One transaction. `at` is the monotonic time of its commit."""

    position: Position
    payload: bytes
    at: float


class RecordingConnection(sqlite3.Connection):
    """A connection that can record the statements that change the database."""

    _statements: list[Statement] | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[list[Statement]]:
        """Return a context that records the statements that change the database."""
        statements: list[Statement] = []
        self._statements = statements
        try:
            yield statements
        finally:
            self._statements = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if self._statements is not None and not sql.lstrip().upper().startswith(_READS):
            self._statements.append((sql, [tuple(parameters)]))
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        if self._statements is None:
            return super().executemany(sql, parameters)
        rows = [tuple(row) for row in parameters]
        if rows:
            self._statements.append((sql, rows))
        return super().executemany(sql, rows)


def first_position() -> Position:
    """Return the position of a database that has no standby yet."""
    return Position(0, secrets.token_hex(8))


def read_position(db: sqlite3.Connection) -> Position | None:
    """Return the position of a database, or None if it has no log. Raises sqlite3.Error."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (META_KEY,)).fetchone()
    return Position.parse(row[0]) if row else None


def write_position(db: sqlite3.Connection, position: Position) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (META_KEY, position.text))


def execute_batch(db: sqlite3.Connection, payload: bytes) -> None:
    """Execute the statements of a batch. Raises sqlite3.Error, or msgspec.DecodeError."""
    for statement, rows in _STATEMENTS.decode(payload):
        db.executemany(statement, rows)


class BatchLog:
    """The last batches of a database, in memory, and the number of the last one that the standby has.

    The thread of the database appends. All other methods belong to the event loop.
    """

    def __init__(self, position: Position, loop: asyncio.AbstractEventLoop) -> None:
        self.position = position
        """The position after the last committed batch."""
        self.acknowledged = 0
        """The number of the last batch that is on the disk of the standby."""
        self.waits_for_standby = False
        """Whether commits wait until the standby has them."""
        self._loop = loop
        self._lock = threading.Lock()
        self._kept: deque[Batch] = deque()
        self._kept_bytes = 0
        self._base = position
        """The position before the oldest kept batch."""
        self._changed = asyncio.Event()

    def next_batch(self, statements: list[Statement]) -> Batch:
        """Return the batch of a transaction that is about to be committed."""
        payload = msgspec.msgpack.encode(statements)
        return Batch(self.position.after(payload), payload, time.monotonic())

    def append(self, batch: Batch) -> None:
        """Add a batch that was committed. The thread of the database calls this."""
        with self._lock:
            self.position = batch.position
            self._kept.append(batch)
            self._kept_bytes += len(batch.payload)
            while len(self._kept) > MAX_KEPT or self._kept_bytes > MAX_KEPT_BYTES:
                dropped = self._kept.popleft()
                self._base = dropped.position
                self._kept_bytes -= len(dropped.payload)
        with contextlib.suppress(RuntimeError):  # The loop was closed while the transaction was written.
            self._loop.call_soon_threadsafe(self._wake)

    def after(self, position: Position) -> list[Batch] | None:
        """Return the batches that a database at this position lacks, or None if it needs a full copy."""
        with self._lock:
            known = position.number - self._base.number
            if not 0 <= known <= len(self._kept):
                return None
            expected = self._kept[known - 1].position if known else self._base
            return list(islice(self._kept, known, None)) if position == expected else None

    def behind(self, now: float) -> tuple[int, float]:
        """Return the number of batches that the standby lacks, and the age in seconds of the oldest one."""
        with self._lock:
            missing = self.position.number - self.acknowledged
            if missing <= 0:
                return 0, 0.0
            oldest = self._kept[max(0, len(self._kept) - missing)].at if self._kept else now
        return missing, max(0.0, now - oldest)

    def acknowledge(self, number: int) -> None:
        """Note that the standby has all batches up to this one."""
        self.acknowledged = number
        self._wake()

    async def wait_changed(self) -> None:
        """Wait for the next batch, or for the next answer of the standby."""
        await self._changed.wait()

    async def wait_acknowledged(self, number: int) -> None:
        """Wait until the standby has this batch, or until commits no longer wait for it."""
        while self.waits_for_standby and self.acknowledged < number:
            await self._changed.wait()

    def stop_waiting(self) -> None:
        """Let all commits return at once, including commits that wait now."""
        self.waits_for_standby = False
        self._wake()

    def _wake(self) -> None:
        """Wake all waiting tasks. A new event replaces the old one, so that none of them misses it."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
