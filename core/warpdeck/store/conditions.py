"""History of node states in SQL.

A row is written at each change. Only the latest `MAX_CONDITIONS` rows of a node are kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from warpdeck.model import Condition, NodeName
from warpdeck.ports.store import MAX_CONDITIONS

from .salvage import Salvage

_CONDITION = msgspec.msgpack.Decoder(Condition)
_ENCODER = msgspec.msgpack.Encoder()
_PUT = "INSERT OR REPLACE INTO conditions VALUES (?, ?, ?)"
_DROP = "DELETE FROM conditions WHERE node = ?"
_BOUND = """
DELETE FROM conditions WHERE node = ?1 AND at <= (
    SELECT at FROM conditions WHERE node = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2
)
"""
_NODES = """
WITH RECURSIVE names (node) AS (
    SELECT MIN(node) FROM conditions
    UNION ALL
    SELECT (SELECT MIN(node) FROM conditions WHERE node > names.node) FROM names WHERE node IS NOT NULL
) SELECT node FROM names WHERE node IS NOT NULL
"""
_BETWEEN = "WHERE node = ? AND at > ? AND at <= ?"
_THEN = "WHERE node = ? AND at <= ? ORDER BY at DESC LIMIT 1"


def write(db: sqlite3.Connection, changed: Iterable[Condition]) -> None:
    """Write the rows of one transaction, and delete the oldest rows of the same nodes beyond the limit."""
    rows = [(each.node, each.at_unix, _ENCODER.encode(each)) for each in changed]
    db.executemany(_PUT, rows)
    db.executemany(_BOUND, [(node, MAX_CONDITIONS) for node, _, _ in rows])


def drop(db: sqlite3.Connection, nodes: Iterable[NodeName]) -> None:
    """Delete the rows of removed nodes."""
    db.executemany(_DROP, [(node,) for node in nodes])


def read(db: sqlite3.Connection, at_unix: float, salvage: Salvage) -> list[Condition]:
    """Return the state of each node at `at_unix`, ordered by node name.

    The query uses the index, so its cost does not depend on the number of rows.
    """
    names = [row[0] for row in db.execute(_NODES)]
    return [
        found
        for name in names
        for found in salvage.read(db, "conditions", _CONDITION, _THEN, (name, at_unix))
    ]


def read_between(
    db: sqlite3.Connection, since_unix: float, until_unix: float, salvage: Salvage
) -> list[Condition]:
    """Return the conditions that began in this range, and for each node the one at its begin, in order of time."""
    found = read(db, since_unix, salvage)
    for (name,) in db.execute(_NODES).fetchall():
        found += salvage.read(db, "conditions", _CONDITION, _BETWEEN, (name, since_unix, until_unix))
    return sorted(found, key=lambda each: (each.at_unix, each.node))
