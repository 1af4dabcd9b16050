"""Rows that cannot be decoded: a reading passes over them, and then they are moved into the table `set_aside`.

A disk that lost a page, or a bug of an earlier version, may leave one row that nothing can read. The controller must not stay
down for it, and nothing may be lost: the row is kept whole, with the reason, until an admin has looked at it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from warpdeck.model import JobId, Node, NodeName
from warpdeck.ports.ports import UnreadableRow

log = logging.getLogger(__name__)

KEYS = {
    "jobs": ("id",),
    "runs": ("job_id", "restarts"),
    "requests": ("array_job_id",),
    "nodes": ("name",),
    "reservations": ("name",),
    "usage": ("account", "user", "qos"),
    "steps": ("job_id", "restarts", "number"),
    "curves": ("job_id", "step", "node"),
    "conditions": ("node", "at"),
    "made": ("uid", "nonce"),
}
"""The columns that name a row, for each table with encoded data."""
STAND_IN_REASON = "Its record in the database could not be read. Remove the node and add it again."
_FAULTS = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
_OF_REQUEST = {
    "jobs": "COALESCE(request_key, array_job_id) = ?",
    "runs": "COALESCE(request_key, array_job_id) = ?",
}

_T = TypeVar("_T")
Key = tuple[str, tuple[Any, ...]]


class Salvage:
    """The rows that one reading could not decode: (table, key) -> the reason."""

    def __init__(self) -> None:
        self.met: dict[Key, str] = {}

    def decode(
        self, decoder: msgspec.msgpack.Decoder[_T], data: Any, table: str, key: tuple[Any, ...]
    ) -> _T | None:
        """The row's data decoded, or None if that cannot be done."""
        try:
            return decoder.decode(data)
        except _FAULTS as error:
            self.met[table, key] = f"{type(error).__name__}: {error}"
            return None

    def read(
        self,
        db: sqlite3.Connection,
        table: str,
        decoder: msgspec.msgpack.Decoder[_T],
        rest: str = "",
        values: Sequence[Any] = (),
    ) -> Iterator[_T]:
        """The table's rows that can be decoded; `rest` is what follows FROM in the query."""
        columns = ", ".join(KEYS[table])
        for data, *key in db.execute(f"SELECT data, {columns} FROM {table} {rest}", values):
            found = self.decode(decoder, data, table, tuple(key))
            if found is not None:
                yield found


def set_aside(db: sqlite3.Connection, met: dict[Key, str], now_unix: float) -> None:
    """Move these rows into `set_aside`. An unreadable request takes its jobs along, which cannot be read without it."""
    for (table, key), reason in met.items():
        where = " AND ".join(f"{column} = ?" for column in KEYS[table])
        _move(db, table, where, key, reason, now_unix)
        if table == "nodes":
            _put_stand_in(db, NodeName(key[0]))
        if table == "requests":
            for of_it, condition in _OF_REQUEST.items():
                _move(db, of_it, condition, key, "the request of this job cannot be read", now_unix)


def _put_stand_in(db: sqlite3.Connection, name: NodeName) -> None:
    """Keep the node known, drained and out of reach, so that nobody takes the jobs that it runs for ended."""
    node = Node(name=name, target=f"{name}.invalid", drained=True, reason=STAND_IN_REASON)
    db.execute("INSERT INTO nodes VALUES (?, ?)", (name, msgspec.msgpack.encode(node)))


def _move(
    db: sqlite3.Connection, table: str, where: str, values: Sequence[Any], reason: str, now_unix: float
) -> None:
    cursor = db.execute(f"SELECT * FROM {table} WHERE {where}", values)
    names = [column[0] for column in cursor.description]
    for row in cursor.fetchall():
        by_name = dict(zip(names, row, strict=True))
        key = " ".join(str(by_name[column]) for column in KEYS[table])
        log.error(
            "%s cannot be read and was set aside: %s", UnreadableRow(table=table, key=key).words, reason
        )
        whole = msgspec.msgpack.encode(by_name)
        db.execute(
            "INSERT INTO set_aside (at, source, key, reason, row) VALUES (?, ?, ?, ?, ?)",
            (now_unix, table, key, reason, whole),
        )
    db.execute(f"DELETE FROM {table} WHERE {where}", values)


def rows_set_aside(db: sqlite3.Connection) -> list[UnreadableRow]:
    """What was set aside until now, the oldest first."""
    query = "SELECT source, key, reason FROM set_aside ORDER BY seq"
    return [UnreadableRow(table=row[0], key=row[1], reason=row[2]) for row in db.execute(query)]


def job_ids(rows: Sequence[UnreadableRow]) -> frozenset[JobId]:
    """The jobs among these rows."""
    return frozenset(JobId(int(row.key)) for row in rows if row.table == "jobs")
