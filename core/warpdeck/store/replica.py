"""The database of a standby: a copy to which the batches of the controller are applied.

A batch is applied together with its position in one transaction, so after a kill at any moment the file says exactly
which batches it has. A full copy is written beside the database and replaces it when it is complete.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from warpdeck.base.errors import StoreError

from .batch_log import Batch, Position, execute_batch, read_position, write_position

_T = TypeVar("_T")
NOWHERE = Position(-1, "")
"""The position of a standby without a database."""
COPY_SUFFIX = ".copy"
REPLACED_SUFFIX = ".replaced"
"""End of the name of an earlier controller's database which a copy has replaced."""


class Replica:
    """The database file of a standby. The methods raise StoreError."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None
        self._copy = -1

    @property
    def _copy_path(self) -> str:
        return self._path + COPY_SUFFIX

    def position(self) -> Position:
        """Return the position of the database, or NOWHERE."""
        if not os.path.exists(self._path):
            return NOWHERE
        return _attempt(self._path, lambda: read_position(self._opened())) or NOWHERE

    def schema(self) -> int:
        """Return the version of the schema, or 0 without a database."""
        if not os.path.exists(self._path):
            return 0
        version: int = _attempt(
            self._path, lambda: self._opened().execute("PRAGMA user_version").fetchone()[0]
        )
        return version

    def apply(self, batches: Sequence[Batch]) -> None:
        """Apply batches that follow the present position in one transaction."""
        _attempt(self._path, lambda: self._apply(batches))

    def begin_copy(self) -> None:
        """Begin a full copy, and drop an unfinished one."""
        self._drop_copy()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._copy = _attempt(self._copy_path, lambda: os.open(self._copy_path, flags, 0o600))

    def add_to_copy(self, piece: bytes) -> None:
        """Write the next piece of the full copy."""

        def write() -> None:
            view = memoryview(piece)
            while view:
                view = view[os.write(self._copy, view) :]

        _attempt(self._copy_path, write)

    def finish_copy(self, size_bytes: int) -> None:
        """Put the full copy in place of the database."""
        _attempt(self._path, lambda: self._finish_copy(size_bytes))

    def close(self) -> None:
        """Close the database, and drop an unfinished copy."""
        self._drop_copy()
        if self._db is not None:
            self._db.close()
            self._db = None

    def set_aside(self) -> None:
        """Rename the database of an earlier controller, and keep it."""
        self.close()
        _attempt(self._path, lambda: os.replace(self._path, self._path + REPLACED_SUFFIX))
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(self._path + suffix, self._path + REPLACED_SUFFIX + suffix)

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            db = sqlite3.connect(self._path, isolation_level=None)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            self._db = db
        return self._db

    def _apply(self, batches: Sequence[Batch]) -> None:
        db = self._opened()
        try:
            db.execute("BEGIN IMMEDIATE")
            present = read_position(db)
            for batch in batches:
                if present is None or present.after(batch.payload) != batch.position:
                    raise StoreError(
                        f"batch {batch.position.number} does not follow the state of {self._path}"
                    )
                execute_batch(db, batch.payload)
                present = batch.position
            if present is not None:
                write_position(db, present)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _finish_copy(self, size_bytes: int) -> None:
        written = os.fstat(self._copy).st_size
        if written != size_bytes:
            raise StoreError(f"the copy of the database has {written} bytes instead of {size_bytes}")
        os.fsync(self._copy)
        os.close(self._copy)
        self._copy = -1
        if (
            self._db is not None
        ):  # This writes the rest of the log into the old database, and removes the log.
            self._db.close()
            self._db = None
        for suffix in ("-wal", "-shm"):
            if os.path.exists(self._path + suffix):
                raise StoreError(f"{self._path} is still in use")
        os.replace(self._copy_path, self._path)
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _drop_copy(self) -> None:
        if self._copy >= 0:
            os.close(self._copy)
            self._copy = -1
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._copy_path)


def _attempt(path: str, work: Callable[[], _T]) -> _T:
    """Run `work`, and raise its errors as StoreError."""
    try:
        return work()
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write {path}: {error}") from error
