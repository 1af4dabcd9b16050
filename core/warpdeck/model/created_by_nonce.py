"""What requests have made, by the nonces that their clients chose: a request that comes again gets the same answer.

An entry is committed in the transaction of what it tells of, so that one is never there without the other.
"""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError

KEPT_S = 86_400.0
"""How long an entry is kept. Clients ask again for minutes."""
MOST_OF_USER = 10_000
"""Entries of one user; the oldest goes when one more comes."""


class Mark(msgspec.Struct, frozen=True):
    """What tells requests apart: the client's nonce, and the digest of all else that it says."""

    nonce: str
    digest: str


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a request of this user's has made, and what it was answered: a submission, or (`job_id` 0) the node or reservation that
    `label` names."""

    uid: int
    mark: Mark
    at_unix: float
    job_id: int
    label: str
    tasks: int = 1
    notes: tuple[str, ...] = ()


MadeTable = dict[int, dict[str, Made]]
"""By uid and nonce; of each user the oldest first."""


def find_made(table: MadeTable, uid: int, mark: Mark | None) -> Made | None:
    """What this request has made before. Raises UserError where another one had its nonce."""
    found = table.get(uid, {}).get(mark.nonce) if mark is not None else None
    if found is not None and mark is not None and found.mark.digest != mark.digest:
        raise UserError(
            f"the nonce of this request belongs to another, which made {'job ' if found.job_id else ''}{found.label}",
            "make a new nonce for each request",
            code="nonce",
        )
    return found


def place_made(table: MadeTable, made: Made) -> list[Made]:
    """Puts the entry into the table and takes those out that need not be kept: they are the value."""
    of_user = table.setdefault(made.uid, {})
    of_user[made.mark.nonce] = made
    gone = []
    for each in list(of_user.values())[: max(1, len(of_user) - MOST_OF_USER)]:
        if len(of_user) > MOST_OF_USER or each.at_unix < made.at_unix - KEPT_S:
            gone.append(of_user.pop(each.mark.nonce))
    return gone
