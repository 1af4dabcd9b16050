"""The nonces of requests that create something: what marks the event, so that a request that comes again creates nothing more."""

from __future__ import annotations

import hashlib

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Outcome, Submitted
from warpdeck.model import Job, Request
from warpdeck.model.created_by_nonce import Mark
from warpdeck.protocol.request_base import Creating
from warpdeck.protocol.requests import Submit


def mark_of(message: Creating) -> Mark | None:
    """None from a client that sent no nonce. The numbers of its streams, and what it was asked to add later, tell nothing."""
    if not message.nonce:
        return None
    added: dict[str, object] = {"files": {}, "writes": None, "errors": 0}
    same = {name: value for name, value in added.items() if hasattr(message, name)}
    alike = msgspec.structs.replace(message, id=0, nonce="", **same)
    if isinstance(alike, Submit):
        requests = [_timeless(each) for each in (alike.request, *alike.components)]
        alike = msgspec.structs.replace(alike, request=requests[0], components=tuple(requests[1:]))
    return Mark(message.nonce, hashlib.sha256(msgspec.json.encode(alike)).hexdigest())


def _timeless(request: Request) -> Request:
    """Without the moments that are counted from when its words were read: "now+1hour" is read anew each time."""
    return msgspec.structs.replace(request, begin_at_unix=None, deadline_unix=None, code_due_unix=None)


def marked(event: Submitted, message: Creating) -> Submitted:
    """The event with the mark of its request."""
    return msgspec.structs.replace(event, mark=mark_of(message))


def known_job(outcome: Outcome) -> Job:
    """The job that the request has made. Raises UserError for one that was made before and has left the memory since."""
    if outcome.job is None:
        label = outcome.made.label if outcome.made is not None else ""
        raise UserError(f"job {label} has ended already", "see `warpdeck show`", code="not_found")
    return outcome.job
