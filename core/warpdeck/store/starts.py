"""The starts of the controller in the database: the last one, the one that has fenced it, and a recovery that is needed.

They are rows of the table `meta`, in JSON. The standby and a restored backup have them, too.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from typing import TypeVar

import msgspec

from warpdeck.model.recovery import Recovery
from warpdeck.ports.store import Changes
from warpdeck_agent.wire.epochs import ControllerStart

log = logging.getLogger(__name__)

START, FENCED_BY, RECOVERY, SECRET = "start", "fenced_by", "recovery", "site_secret"
_T = TypeVar("_T")
SECRET_BYTES = 32
_GET = "SELECT value FROM meta WHERE key = ?"
_PUT = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_DROP = "DELETE FROM meta WHERE key = ?"


class KnownStarts(msgspec.Struct, frozen=True, kw_only=True):
    """The last start of the controller, and the start that has fenced it."""

    start: ControllerStart = ControllerStart()
    fenced_by: ControllerStart | None = None
    recovery: Recovery = Recovery()


def read(db: sqlite3.Connection) -> KnownStarts:
    """Return the starts in the database. A database of an earlier version has none."""
    return KnownStarts(
        start=_read(db, START, ControllerStart) or ControllerStart(),
        fenced_by=_read(db, FENCED_BY, ControllerStart),
        recovery=_read(db, RECOVERY, Recovery) or Recovery(),
    )


def write(db: sqlite3.Connection, changes: Changes) -> None:
    """Write a new start, which ends a fence, or a fence."""
    if changes.start is not None:
        db.execute(_PUT, (START, msgspec.json.encode(changes.start).decode()))
        db.execute(_DROP, (FENCED_BY,))
    if changes.fenced_by is not None:
        db.execute(_PUT, (FENCED_BY, msgspec.json.encode(changes.fenced_by).decode()))
    if changes.recovery is not None:
        db.execute(_PUT, (RECOVERY, msgspec.json.encode(changes.recovery).decode()))


def secret(db: sqlite3.Connection) -> str:
    """Return the secret of the site. It is made when it is first needed."""
    found = db.execute(_GET, (SECRET,)).fetchone()
    if found is not None:
        return str(found[0])
    made = secrets.token_hex(SECRET_BYTES)
    db.execute(_PUT, (SECRET, made))
    return made


def _read(db: sqlite3.Connection, key: str, kind: type[_T]) -> _T | None:
    """Return a record, or None if there is none. One that cannot be read is empty.

    A start then has the epoch 0, so that the agents refuse the next start, and a fence stays. A person decides with
    `warpdeck takeover`.
    """
    found = db.execute(_GET, (key,)).fetchone()
    if found is None:
        return None
    try:
        return msgspec.json.decode(found[0], type=kind)
    except msgspec.MsgspecError as error:
        log.error("the record %s of the controller's starts cannot be read: %s", key, error)
        return kind()
