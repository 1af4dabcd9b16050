"""A reservation as it is written: nodes, start, duration, for whom, flags; and the command line that makes it."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from warpdeck.errors import UserError

from .hostlist import expand
from .moments import parse_moment
from .times import parse_limit

FLAGS = {
    "MAINT": "",
    "OVERLAP": "",
    "IGNORE_JOBS": "",
    "HOURLY": "hourly",
    "DAILY": "daily",
    "WEEKDAY": "weekday",
    "WEEKEND": "weekend",
    "WEEKLY": "weekly",
}
"""Flag -> how the reservation comes again. IGNORE_JOBS is how it always is: jobs that run there are left alone."""


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
    return {
        "name": wish.name,
        "nodes": nodes,
        "start_unix": start,
        "end_unix": None if duration_s is None else start + duration_s,
        "users": names(wish.users),
        "accounts": names(wish.accounts),
        "maintenance": "MAINT" in flags,
        "overlap": "OVERLAP" in flags,
        "repeat": next((FLAGS[flag] for flag in flags if FLAGS[flag]), ""),
    }


def wish_command(wish: Wish, *, instead: bool = False) -> str:
    """`warpdeck reservation create ...`; what is as it is without being said is left out. `instead`: of that of its name."""
    words = ["warpdeck", "reservation", "create", wish.name or "NAME", "--nodes", wish.nodes or "LIST"]
    usual = Wish("")
    for field in ("start", "duration", "users", "accounts", "flags"):
        value = getattr(wish, field)
        if value and value != getattr(usual, field):
            words += [f"--{field}", value]
    return shlex.join([*words, *(["--instead"] if instead else [])])


def names(text: str) -> list[str]:
    """Of a list with commas."""
    return [name for name in text.split(",") if name]


def _flags(text: str) -> list[str]:
    flags = [flag.upper() for flag in names(text)]
    unknown = next((flag for flag in flags if flag not in FLAGS), "")
    if unknown:
        raise UserError(f"reservations have no flag {unknown} here", f"there are: {', '.join(FLAGS)}")
    if sum(bool(FLAGS[flag]) for flag in flags) > 1:
        raise UserError("a reservation comes again in one way only", f"take one of {', '.join(flags)}")
    return flags
