"""The key by which an engine recognizes a repeated request that creates something."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from warpdeck.model import Request
from warpdeck.model.created_by_nonce import RequestId

from .request_base import Creating
from .submit_requests import Submit


def mark_of(message: Creating[Any]) -> RequestId | None:
    """Return the mark of a request, or None if the client sent no nonce.

    The mark has the nonce and a digest of the request. The digest leaves out stream numbers and data that the
    client was asked to add later.
    """
    if not message.nonce:
        return None
    added: dict[str, object] = {"files": {}, "writes": None, "errors": 0}
    same = {name: value for name, value in added.items() if hasattr(message, name)}
    alike = msgspec.structs.replace(message, id=0, nonce="", **same)
    if isinstance(alike, Submit):
        requests = [_timeless(each) for each in (alike.request, *alike.components)]
        alike = msgspec.structs.replace(alike, request=requests[0], components=tuple(requests[1:]))
    return RequestId(message.nonce, hashlib.sha256(msgspec.json.encode(alike)).hexdigest())


def _timeless(request: Request) -> Request:
    """Return the request without times that are relative to the moment of parsing.

    For example, "now+1hour" gives another time whenever it is parsed.
    """
    return msgspec.structs.replace(request, begin_at_unix=None, deadline_unix=None, code_due_unix=None)
