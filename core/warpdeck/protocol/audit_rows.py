"""The entries of the audit log, as they stand in its file and in the answers to clients."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class AuditOutcome(StrEnum):
    """The outcome of a request."""

    DONE = "done"
    REFUSED = "refused"
    """The caller had no right to it."""
    FAILED = "failed"
    """It was not possible for another reason, and changed nothing."""
    UNCERTAIN = "uncertain"
    """The caller left before the answer, or a bug ended the request. It may have been carried out."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that changed something, or was refused."""

    number: int
    """Number of the entry. The numbers have no gaps, so that missing entries are noticed."""
    at: float
    """Time of the answer, in Unix seconds."""
    user: str
    uid: int
    origin: str = ""
    """Where the request came from: "pid 812 sbatch", "job 12 on gpu01", or "signal"."""
    request: str
    """Tag of the request, such as "cancel"; "connect" for a refused connection."""
    objects: list[str] = []
    details: dict[str, Any] = {}
    outcome: AuditOutcome
    reason: str = ""
    """Message of the refusal or of the failure."""
    code: str = ""
    omitted: int = 0
    """Number of refused requests of this user before this one that have no entries, because there were too many."""
