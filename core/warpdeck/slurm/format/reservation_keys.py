"""Keys of `scontrol create|update reservation`, their parsers and their error messages."""

from __future__ import annotations

import time
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.notation.filters.reservation_flags import COPIED_FIELDS
from warpdeck.notation.values.durations import parse_limit
from warpdeck.notation.values.time_points import parse_moment
from warpdeck.slurm.console.command_options import INVALID_TIME

KEYS = {
    "accounts": 1,
    "burstbuffer": 2,
    "corecnt": 5,
    "cpucnt": 5,
    "duration": 1,
    "endtime": 1,
    "features": 2,
    "flags": 2,
    "groups": 1,
    "licenses": 1,
    "maxstartdelay": 2,
    "nodecnt": 5,
    "nodes": 1,
    "partitionname": 1,
    "reservationname": 1,
    "starttime": 1,
    "tres": 1,
    "users": 1,
    "watts": 1,
}
"""Key -> number of its letters that must be written at least."""
MAX_COUNT_DIGITS = 6
HOLDING = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
"""States of jobs that keep a reservation from being deleted."""
IN_USE = "Requested reservation is in use"
SIGNED = frozenset({"users", "groups", "accounts", "flags", "duration"})
"""Keys that an update may extend with += or reduce with -=."""
NO_ACCOUNT = "Invalid account or account/partition combination specified"
NO_WHO = "Either Users/Groups and/or Accounts must be specified."
BOTH_WHO = "Users and Groups are mutually exclusive.  You can have one or the other, but not both."
EITHER_WHO = "Reservations can't have users and groups specified, only one or the other"
NO_NODES = "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified."
NOT_SUPPORTED = "Requested operation not supported on this system"
ACCESS = ("users", "accounts", "deny_users", "deny_accounts")
"""Fields that say who may use a reservation."""
AS_IT_IS = (*ACCESS, *COPIED_FIELDS)
"""Fields of a reservation that an update keeps unless it sets them."""
WORDS = {
    "reservation_busy": "Requested nodes are busy",
    "reservation_counts": "Core count for reservation node list is not consistent!",
    "Licenses": "Invalid license specification",
    "reservation_overlaps": "Requested reservation overlaps with another reservation",
    "reservation_exists": "Duplicate event, or reservation of that name",
    "InvalidNode": "Invalid node name specified",
    "InvalidAccount": NO_ACCOUNT,
    "reservation_over": "Invalid time specified",
    "reservation_floats": NOT_SUPPORTED,
    "reservation_cores": NOT_SUPPORTED,
    "reservation_for_nobody": "Reservation request lacks users, groups or accounts",
    "not_admin": "Invalid user id",
}
"""Error code of the controller -> Slurm's message."""


class ReservationSyntaxError(Exception):
    """An error in the command line that scontrol finds itself.

    Its message is one sentence; `before` may hold a line to print first.
    """

    def __init__(self, sentence: str, *, before: str = "", alone: bool = False) -> None:
        """Create the error. With `alone`, the message does not end with "No reservation created." """
        super().__init__(sentence)
        self.before = before
        self._alone = alone

    def tail(self, done: str) -> str:
        """Return the end of the message: "No reservation created." or "" if the message stands alone."""
        return "" if self._alone else f"  No reservation {done}."


class ReservationRefused(Exception):
    """An error in the words of Slurm's controller. Our own message may follow on a second line."""


def given_keys(words: list[Any], *, signs: bool = False) -> dict[str, str]:
    """Return the parsed keys: full key name, with its + or - if any -> value. Raises ReservationSyntaxError."""
    found: dict[str, str] = {}
    for key, equals, value in words:
        if not equals:
            raise ReservationSyntaxError(
                f"Misformatted parameter '{key}', most options have a parameter after '='."
            )
        sign = key[-1] if signs and key[-1:] in ("+", "-") else ""
        lowered = (key[:-1] if sign else key).lower()
        if lowered == "reservation":
            lowered = "reservationname"
        name = next(
            (each for each, least in KEYS.items() if len(lowered) >= least and each.startswith(lowered)), ""
        )
        if not name:
            raise ReservationSyntaxError(f"Unknown parameter {key}={value}.")
        if sign and name not in SIGNED:
            raise ReservationSyntaxError(f"The +=/-= notation is not supported when updating {name}.")
        found[name + sign] = value
    return found


def words_of(error: UserError, missing: str = "") -> str:
    if error.code == "not_found" and missing:
        return missing
    said = WORDS.get(error.code, "")
    if error.code == "not_admin":
        return said
    return f"{said}\n{error.message}" if said else error.message


def length_s(text: str) -> float | None:
    try:
        return parse_limit(text)
    except UserError as error:
        raise ReservationSyntaxError(f"Invalid duration duration={text}.") from error


def moment(text: str, what: str) -> float:
    try:
        return parse_moment(text, time.time())
    except UserError as error:
        raise ReservationSyntaxError(f"Invalid {what}.", before=f"{INVALID_TIME}{text}\n") from error
