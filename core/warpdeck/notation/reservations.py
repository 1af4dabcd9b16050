"""A reservation as it is written: nodes, start, duration, for whom, flags; and the command line that makes it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warpdeck.errors import UserError

from .hostlist import expand
from .moments import parse_moment
from .reservationflags import FLAGS, BadFlags, flag_fields, parse_flags
from .times import parse_limit


class Wish(NamedTuple):
    """The words for one reservation, as a form or a command line has them."""

    name: str
    nodes: str = ""
    start: str = "now"
    duration: str = "UNLIMITED"
    users: str = ""
    accounts: str = ""
    flags: str = ""


def parse_wish(wish: Wish, now: float) -> dict[str, object]:
    """model.Reservation's fields, which the controller checks. Plain, so that command lines need no msgspec. Raises UserError."""
    if not wish.name:
        raise UserError("the reservation has no name", "give it one of letters, digits, dots and dashes")
    flags = _flags(wish.flags)
    start = parse_moment(wish.start or "now", now)
    duration_s = parse_limit(wish.duration or "UNLIMITED")
    nodes = None if wish.nodes.upper() == "ALL" else list(dict.fromkeys(expand(wish.nodes)))
    if nodes == []:
        raise UserError("--nodes names no node", "write names such as gpu[01-04], or ALL")
    if "REPLACE" in flags or "REPLACE_DOWN" in flags:
        raise UserError(
            "nodes that are named are not replaced", "ask for so many: scontrol create reservation nodecnt="
        )
    return {
        "name": wish.name,
        "nodes": nodes,
        "start_unix": start,
        "end_unix": None if duration_s is None else start + duration_s,
        **whose("users", wish.users),
        **whose("accounts", wish.accounts),
        **flag_fields(flags),
        **floating(flags, start, now, duration_s),
    }


def whose(key: str, text: str) -> dict[str, list[str]]:
    """NAME,... or -NAME,..., all of them or none. Raises UserError."""
    words = names(text)
    denied = [word[1:] for word in words if word.startswith("-")]
    if denied and len(denied) < len(words):
        raise UserError(
            f"some of the {key} have a - and others have none",
            f"write {key} that may, or -{key} that may not",
        )
    return {key: [] if denied else words, f"deny_{key}": denied}


def floating(
    flags: Mapping[str, str], start: float, now: float, duration_s: float | None
) -> dict[str, int | None]:
    """How far ahead of now it stays, with TIME_FLOAT. Raises UserError."""
    if "TIME_FLOAT" not in flags:
        return {"float_s": None}
    if duration_s is None:
        raise UserError("a reservation that floats needs a duration", "give one, such as 2:00:00")
    return {"float_s": max(0, round(start - now))}


def wish_command(wish: Wish, *, instead: bool = False) -> str:
    """`warpdeck reservation create ...`; what is as it is without being said is left out. `instead`: of that of its name."""
    words = ["warpdeck", "reservation", "create", wish.name or "NAME", "--nodes", wish.nodes or "LIST"]
    usual = Wish("")
    for field in ("start", "duration", "users", "accounts", "flags"):
        value = getattr(wish, field)
        if value and value != getattr(usual, field):
            words += [f"--{field}", value]
    return shlex.join([*words, *(["--instead"] if instead else [])])


def for_whom(fields: Mapping[str, Any]) -> str:
    """In words."""
    if fields["float_s"] is not None:
        return "nobody: it floats"
    accounts = [f"account {name}" for name in fields["accounts"]]
    denied = [f"account {name}" for name in fields["deny_accounts"]]
    parts = [", ".join(accounts), _but(denied), ", ".join(fields["users"]), _but(fields["deny_users"])]
    named = " and ".join(filter(None, parts)) or "nobody"
    return f"{named}: maintenance" if fields["maintenance"] else named


def _but(denied: Sequence[str]) -> str:
    return f"all but {', '.join(denied)}" if denied else ""


def names(text: str) -> list[str]:
    """Of a list with commas."""
    return [name for name in text.split(",") if name]


def _flags(text: str) -> dict[str, str]:
    try:
        return parse_flags(text).more
    except BadFlags as error:
        raise UserError(
            f"reservations have no such flags: {text}", f"there are: {', '.join(FLAGS)}"
        ) from error
