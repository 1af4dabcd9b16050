"""The large parts of requests as rows: written once per user and content, and removed when nothing needs them.

Requests in databases of earlier schemas contain their parts; `split_all` converts them.

The parts of ended jobs are part of the history. They are kept until the parts of a user take MAX_KEPT_BYTES.
Then the oldest parts that no unfinished job needs are removed, down to KEPT_AFTER_BYTES. Their jobs remain in
the history with the extracts in their requests.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence

import msgspec

from warpdeck.controller.state.request_revision import MAX_REVISIONS
from warpdeck.model import Request
from warpdeck.notation.request.large_parts import MIN_BYTES, split
from warpdeck.ports.store import PartsBlob

from .job_rows import JOB

log = logging.getLogger(__name__)

MAX_KEPT_BYTES = 4 * 1024**3
"""Maximum size of the parts of one user, if most of them belong to ended jobs."""
KEPT_AFTER_BYTES = MAX_KEPT_BYTES * 3 // 4
"""Size after a removal. The difference lets most commits avoid the search for parts that are in use."""
BATCH = 100
"""Number of requests that are converted at once. Each may have several megabytes."""

FIRST_KEY = -(2**63)
"""Key before all requests. Changed requests have negative keys."""
_REQUEST = msgspec.msgpack.Decoder(Request)
_ENCODER = msgspec.msgpack.Encoder()
_PUT = "INSERT OR IGNORE INTO request_parts (uid, sha256, size, content) VALUES (?, ?, ?, ?)"
_USER_BYTES = "SELECT SUM(size) FROM request_parts WHERE uid = ?"
_OLDEST = "SELECT seq, sha256, size FROM request_parts WHERE uid = ? ORDER BY seq"
_IN_USE = """
SELECT DISTINCT requests.parts FROM jobs
JOIN requests ON requests.array_job_id = COALESCE(jobs.request_key, jobs.array_job_id)
WHERE jobs.finished = 0 AND requests.parts IS NOT NULL
"""
_WHOLE = """
SELECT array_job_id, data FROM requests
WHERE parts IS NULL AND array_job_id > ? AND length(data) >= ? ORDER BY array_job_id LIMIT ?
"""


def write(db: sqlite3.Connection, blobs: Sequence[PartsBlob]) -> None:
    """Store the blobs that are not stored yet, and remove old ones of users that have too many bytes."""
    db.executemany(_PUT, [(each.uid, each.sha256, len(each.content), each.content) for each in blobs])
    new = frozenset(each.sha256 for each in blobs)
    for uid in {each.uid for each in blobs}:
        surplus_bytes = db.execute(_USER_BYTES, (uid,)).fetchone()[0] - MAX_KEPT_BYTES
        if surplus_bytes > 0:
            remove_oldest(db, uid, surplus_bytes + MAX_KEPT_BYTES - KEPT_AFTER_BYTES, keep=new)


def remove_oldest(db: sqlite3.Connection, uid: int, size_bytes: int, *, keep: frozenset[str]) -> None:
    """Remove the oldest parts of a user with this total size. Parts that unfinished jobs need are kept."""
    needed = keep | {row[0] for row in db.execute(_IN_USE)}
    gone = []
    for seq, sha256, size in db.execute(_OLDEST, (uid,)):
        if size_bytes <= 0:
            break
        if sha256 not in needed:
            gone.append((seq,))
            size_bytes -= size
    db.executemany("DELETE FROM request_parts WHERE seq = ?", gone)
    log.info("removed the scripts and environments of %d ended submissions of uid %d", len(gone), uid)


def read(db: sqlite3.Connection, uid: int, sha256: str) -> bytes | None:
    """Return the parts with this key."""
    row = db.execute(
        "SELECT content FROM request_parts WHERE uid = ? AND sha256 = ?", (uid, sha256)
    ).fetchone()
    return None if row is None else bytes(row[0])


def split_all(db: sqlite3.Connection) -> None:
    """Store the large parts of all requests of an earlier schema apart from them."""
    after: int | None = FIRST_KEY
    while after is not None:
        after = _split_batch(db, after)


def _split_batch(db: sqlite3.Connection, after: int) -> int | None:
    """Store the large parts of some requests.

    Begins behind the request `after`. Returns the key of the last request, or None if there are no more.
    Requests that cannot be read are left as they are.
    """
    last = None
    for key, data in db.execute(_WHOLE, (after, MIN_BYTES, BATCH)).fetchall():
        last = int(key)
        try:
            request, content = split(_REQUEST.decode(data))
            uid = _uid_of(db, last) if content is not None else None
        except (msgspec.MsgspecError, ValueError) as error:
            log.warning("request %d: %s", key, error)
            continue
        if uid is None or content is None or request.parts is None:
            continue
        db.execute(_PUT, (uid, request.parts.sha256, len(content), content))
        db.execute(
            "UPDATE requests SET data = ?, parts = ? WHERE array_job_id = ?",
            (_ENCODER.encode(request), request.parts.sha256, key),
        )
    return last


def _uid_of(db: sqlite3.Connection, key: int) -> int | None:
    """Return the user of the jobs that have the request with this key. Raises msgspec.MsgspecError."""
    number = key if key > 0 else -key // MAX_REVISIONS
    row = db.execute(
        "SELECT data FROM jobs WHERE id = ? OR array_job_id = ? LIMIT 1", (number, number)
    ).fetchone()
    return None if row is None else JOB.decode(row[0]).uid
