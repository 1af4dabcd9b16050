"""The request for the audit log; part of the protocol."""

from __future__ import annotations

from typing import Annotated

import msgspec

from . import results
from .audit_rows import AuditOutcome
from .request_base import Names, RequestMessage

MAX_AUDIT_ENTRIES = 10_000
"""Maximum number of entries in one answer."""


class Audit(RequestMessage[results.AuditList], frozen=True, kw_only=True, tag="audit"):
    """Ask for the newest entries of the audit log that match, oldest first.

    An empty list filters nothing. Only administrators see the entries of other users; the others ask with `own`.
    `after` is the number of an entry: only later entries are sent, and then `limit` counts from the oldest one.

    Answer: {"entries": [audit_rows.AuditEntry], "problem": str}
    """

    own: bool = False
    users: Names = ()
    requests: Names = ()
    objects: Names = ()
    """Names of objects, such as a job, a node or a table of config.toml. An object below a named one matches, too."""
    outcomes: Annotated[tuple[AuditOutcome, ...], msgspec.Meta(max_length=4)] = ()
    since: float = 0.0
    until: float | None = None
    after: Annotated[int, msgspec.Meta(ge=0)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_AUDIT_ENTRIES)] = 100
