"""Rows that record the objects that requests have created; see `model.created_by_nonce`.

All functions run in the database's thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from warpdeck.model.created_by_nonce import CreatedObject

from .salvage import Salvage

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(CreatedObject)


def write(db: sqlite3.Connection, created: Iterable[CreatedObject], gone: Iterable[CreatedObject]) -> None:
    """Write the rows in `created` and delete the rows in `gone`."""
    rows = [(each.uid, each.request_id.nonce, each.at_unix, _ENCODER.encode(each)) for each in created]
    db.executemany("INSERT OR REPLACE INTO made VALUES (?, ?, ?, ?)", rows)
    keys = [(each.uid, each.request_id.nonce) for each in gone]
    db.executemany("DELETE FROM made WHERE uid = ? AND nonce = ?", keys)


def read(db: sqlite3.Connection, salvage: Salvage) -> list[CreatedObject]:
    """Return all records, the oldest first."""
    return list(salvage.read(db, "made", _DECODER, "ORDER BY at"))
