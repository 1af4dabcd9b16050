"""Handling of rows that cannot be decoded: they are skipped and then moved into the table `set_aside`.

A disk that lost a page, or a bug of an earlier version, may leave an unreadable row. The controller must
start in spite of it, and no data may be lost. The whole row is therefore kept with the reason until an admin
has examined it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from warpdeck.model import JobId, Node, NodeName
from warpdeck.ports.store import UnreadableRow

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
"""The primary key columns of each table with encoded data."""
PLACEHOLDER_REASON = "Its record in the database could not be read. Remove the node and add it again."
_FAULTS = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
_OF_REQUEST = {
    "jobs": "COALESCE(request_key, array_job_id) = ?",
    "runs": "COALESCE(request_key, array_job_id) = ?",
}

_T = TypeVar("_T")
Key = tuple[str, tuple[Any, ...]]


class Salvage:
    """The rows that one read could not decode: (table, key) -> the reason."""

    def __init__(self) -> None:
        self.unreadable: dict[Key, str] = {}

    def decode(
        self, decoder: msgspec.msgpack.Decoder[_T], data: Any, table: str, key: tuple[Any, ...]
    ) -> _T | None:
        """Return the decoded data of the row, or None if it cannot be decoded."""
        try:
            return decoder.decode(data)
        except _FAULTS as error:
            self.unreadable[table, key] = f"{type(error).__name__}: {error}"
            return None

    def read(
        self,
        db: sqlite3.Connection,
        table: str,
        decoder: msgspec.msgpack.Decoder[_T],
        clause: str = "",
        values: Sequence[Any] = (),
    ) -> Iterator[_T]:
        """Yield the table's rows that can be decoded.

        `clause` is the end of the query, after the table name.
        """
        columns = ", ".join(KEYS[table])
        for data, *key in db.execute(f"SELECT data, {columns} FROM {table} {clause}", values):
            found = self.decode(decoder, data, table, tuple(key))
            if found is not None:
                yield found


def quarantine(db: sqlite3.Connection, unreadable: dict[Key, str], now_unix: float) -> None:
    """Move these rows into the table `set_aside`.

    The jobs of an unreadable request are moved too, because they cannot be used without it.
    """
    for (table, key), reason in unreadable.items():
        where = " AND ".join(f"{column} = ?" for column in KEYS[table])
        _move(db, table, where, key, reason, now_unix)
        if table == "nodes":
            _put_placeholder(db, NodeName(key[0]))
        if table == "requests":
            for dependent, condition in _OF_REQUEST.items():
                _move(db, dependent, condition, key, "the request of this job cannot be read", now_unix)


def _put_placeholder(db: sqlite3.Connection, name: NodeName) -> None:
    """Insert a drained, unreachable node of this name in place of an unreadable one.

    Without this node, the jobs that run on it would be regarded as finished.
    """
    node = Node(name=name, target=f"{name}.invalid", drained=True, reason=PLACEHOLDER_REASON)
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
            "%s cannot be read and was set aside: %s", UnreadableRow(table=table, key=key).description, reason
        )
        whole = msgspec.msgpack.encode(by_name)
        db.execute(
            "INSERT INTO set_aside (at, source, key, reason, row) VALUES (?, ?, ?, ?, ?)",
            (now_unix, table, key, reason, whole),
        )
    db.execute(f"DELETE FROM {table} WHERE {where}", values)


def quarantined_rows(db: sqlite3.Connection) -> list[UnreadableRow]:
    """Return all rows that were set aside so far, the oldest first."""
    query = "SELECT source, key, reason FROM set_aside ORDER BY seq"
    return [UnreadableRow(table=row[0], key=row[1], reason=row[2]) for row in db.execute(query)]


def job_ids(rows: Sequence[UnreadableRow]) -> frozenset[JobId]:
    """Return the ids of the jobs among these rows."""
    return frozenset(JobId(int(row.key)) for row in rows if row.table == "jobs")
