"""Records of the objects that requests have created, by the nonces of the requests.

A repeated request gets the same answer. A record is committed in the transaction that creates its object, so
neither exists without the other.
"""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError

KEPT_S = 86_400.0
"""Seconds for which a record is kept. Clients repeat requests for minutes."""
MAX_PER_USER = 10_000
"""Maximum number of records per user. Beyond it, a new record replaces the oldest one."""


class RequestId(msgspec.Struct, frozen=True):
    """Identifies a request by the client's nonce and a digest of the rest of the request."""

    nonce: str
    digest: str


class CreatedObject(msgspec.Struct, frozen=True, kw_only=True):
    """The object that a user's request has created, and the answer to the request.

    It is a submission or, if `job_id` is 0, the node or reservation with the name `label`.
    """

    uid: int
    request_id: RequestId = msgspec.field(name="mark")
    at_unix: float
    job_id: int
    label: str
    tasks: int = 1
    notes: tuple[str, ...] = ()


CreatedTable = dict[int, dict[str, CreatedObject]]
"""Records by uid and nonce. The records of each user are ordered by age, oldest first."""


def find_created(table: CreatedTable, uid: int, request_id: RequestId | None) -> CreatedObject | None:
    """Return the record of an earlier copy of this request, or None.

    Raises UserError if a different request has used the nonce.
    """
    found = table.get(uid, {}).get(request_id.nonce) if request_id is not None else None
    if found is not None and request_id is not None and found.request_id.digest != request_id.digest:
        raise UserError(
            f"the nonce of this request was used by another request, which created {'job ' if found.job_id else ''}{found.label}",
            "create a new nonce for each request",
            code="nonce",
        )
    return found


def upsert_created(table: CreatedTable, created: CreatedObject) -> list[CreatedObject]:
    """Insert a record, and return the records that were removed because they are too old or too many."""
    of_user = table.setdefault(created.uid, {})
    of_user[created.request_id.nonce] = created
    gone = []
    for each in list(of_user.values())[: max(1, len(of_user) - MAX_PER_USER)]:
        if len(of_user) > MAX_PER_USER or each.at_unix < created.at_unix - KEPT_S:
            gone.append(of_user.pop(each.request_id.nonce))
    return gone
