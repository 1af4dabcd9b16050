"""The active forwards. Each belongs to one client and leads to one port of a job.

Forwards are not stored on disk, because each exists only as long as its client. The page to which a forward
leads may contain a token. It is sent only to the forward's own user, and only on request.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.ports.caller import NOT_YOURS, Principal
from warpdeck.protocol.job_rows import ForwardRow

_BEHIND = re.compile(r"[?#].*", re.DOTALL)
_VALUE = re.compile(r"(?<==)[^&#]+")


class KeptForward:
    """One forward. Calling `end` tells its client that the forward has ended."""

    def __init__(self, row: ForwardRow, uid: int, end: Callable[[str], None]) -> None:
        self.page = row.page or "/"
        self.row = msgspec.structs.replace(row, page=masked(self.page))
        self.uid = uid
        self.end = end
        self.connections = 0


class ForwardTable:
    """All forwards, by number."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._kept: dict[int, KeptForward] = {}

    def add(self, row: ForwardRow, *, uid: int, end: Callable[[str], None]) -> int:
        """Add a forward and return its number."""
        number = next(self._ids)
        self._kept[number] = KeptForward(msgspec.structs.replace(row, number=number), uid, end)
        return number

    def drop(self, number: int) -> None:
        """Remove a forward after its client has disconnected."""
        self._kept.pop(number, None)

    def own(self, who: Principal, number: int) -> KeptForward | None:
        """Return the forward with that number if it belongs to this user, else None."""
        kept = self._kept.get(number)
        return kept if kept is not None and kept.uid == who.uid else None

    def rows(self, who: Principal) -> list[ForwardRow]:
        """Return the user's own forwards, oldest first. An admin gets the forwards of all users."""
        return [
            msgspec.structs.replace(kept.row, connections=kept.connections)
            for _, kept in sorted(self._kept.items())
            if who.admin or kept.uid == who.uid
        ]

    def page(self, who: Principal, number: int) -> str:
        """Return the part of the forward's URL after the host, with its token. Raises UserError."""
        kept = self.own(who, number)
        if kept is None:
            raise _missing(number)
        return kept.page

    def end(self, who: Principal, number: int) -> None:
        """End a forward. Raises UserError."""
        kept = self._kept.get(number)
        if kept is None or not (who.admin or kept.uid == who.uid):
            raise _missing(number)
        kept.end("stopped by its user")


def masked(page: str) -> str:
    """Return the page with the values after its path masked, such as "/lab?token=…"."""
    return _BEHIND.sub(lambda found: _VALUE.sub("…", found[0]), page)


def _missing(number: int) -> UserError:
    return UserError(f"you have no forward {number}", "see `warpdeck forward --list`", code=NOT_YOURS)
