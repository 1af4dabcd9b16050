"""Flags of a reservation as Slurm parses them: `scontrol create reservation flags=MAINT,DAILY`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import format_clock, parse_seconds


class Flag(NamedTuple):
    """A flag of a reservation."""

    name: str
    min_letters: int = 1
    """The number of letters that an abbreviation must have."""
    shown_as: str = ""
    """Its name in Slurm's output; "" is the name itself."""
    can_be_removed: bool = True
    """Whether an update may remove it with a minus sign."""


COPIED_FIELDS = (
    *("maintenance", "overlap", "repeat", "magnetic", "flex", "any_nodes", "hold_jobs_after", "float_s"),
    *("purge_after_s", "node_count", "partition", "replace", "static", "groups", "features", "licenses"),
    *("first_cores", "burst_buffer", "watts", "max_start_delay_s"),
)
"""Fields of `model.Reservation` that a row, a view and a recurrence of a reservation copy unchanged."""
REPEATS = ("HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY")
"""In lower case, these are the values of `model.reservation.Repeat`. They are repeated here because importing
that would load msgspec.
"""
_TABLE = (
    Flag("MAINTENANCE", 3, "MAINT"),
    Flag("OVERLAP", can_be_removed=False),
    Flag("FLEX"),
    Flag("IGNORE_JOBS"),
    *(Flag(name) for name in REPEATS),
    Flag("ANY_NODES"),
    Flag("LICENSE_ONLY", shown_as="ANY_NODES"),
    Flag("STATIC_ALLOC", shown_as="STATIC"),
    Flag("PART_NODES", 2),
    Flag("MAGNETIC", 3),
    Flag("PROMISCUOUS", 2, "MAGNETIC"),
    Flag("PURGE_COMP", 2),
    Flag("FIRST_CORES", can_be_removed=False),
    Flag("TIME_FLOAT", can_be_removed=False),
    Flag("REPLACE", can_be_removed=False),
    Flag("REPLACE_DOWN", 8, can_be_removed=False),
    Flag("NO_HOLD_JOBS_AFTER_END", can_be_removed=False),
)
"""The flags in the order in which abbreviations are resolved: the first flag with the prefix counts."""
FLAGS = tuple(dict.fromkeys(flag.shown_as or flag.name for flag in _TABLE))
"""Names in output. IGNORE_JOBS always applies: jobs that run on the nodes are left alone. PART_NODES means
the nodes of the partition.
"""
PURGE_S = 300
"""Seconds for PURGE_COMP without a time, or with an invalid one, as in Slurm."""


class BadFlags(Exception):
    """No flag has this prefix, or the flag cannot be removed."""


class ReservationFlags(NamedTuple):
    """Parsed flags: the name in output -> the value after its `=` ("" if none), and the flags to remove."""

    added: dict[str, str]
    removed: frozenset[str]


def parse_flags(text: str, *, sign: str = "") -> ReservationFlags:
    """Parse FLAG,... with an optional + or - before a flag. The sign also applies to the following flags.

    `sign` is the initial sign. Raises BadFlags.
    """
    added: dict[str, str] = {}
    removed = set()
    for word in filter(None, text.split(",")):
        sign, word = (word[0], word[1:]) if word[0] in "+-" else (sign, word)
        name, _, value = word.partition("=")
        letters = name.upper()
        flag = next(
            (flag for flag in _TABLE if len(letters) >= flag.min_letters and flag.name.startswith(letters)),
            None,
        )
        if flag is None or (sign == "-" and not flag.can_be_removed) or (sign and flag.name == "TIME_FLOAT"):
            raise BadFlags
        shown_as = flag.shown_as or flag.name
        if sign == "-":
            removed.add(shown_as)
        else:
            added[shown_as] = value
    return ReservationFlags(added, frozenset(removed))


def flag_fields(flags: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of `model.Reservation`. The caller handles TIME_FLOAT, because that needs the start.
    Raises UserError.
    """
    repeats = [name.lower() for name in flags if name in REPEATS]
    if len(repeats) > 1:
        raise UserError(f"a reservation cannot be both {' and '.join(repeats)}", "keep one of them")
    if repeats and "TIME_FLOAT" in flags:
        raise UserError(
            "a reservation with TIME_FLOAT cannot recur",
            f"leave out TIME_FLOAT or {repeats[0].upper()}",
            code="reservation_floats",
        )
    return {
        "maintenance": "MAINT" in flags,
        "overlap": "OVERLAP" in flags,
        "repeat": repeats[0] if repeats else "",
        "magnetic": "MAGNETIC" in flags,
        "flex": "FLEX" in flags,
        "any_nodes": "ANY_NODES" in flags,
        "hold_jobs_after": "NO_HOLD_JOBS_AFTER_END" not in flags,
        "purge_after_s": _purge_s(flags["PURGE_COMP"]) if "PURGE_COMP" in flags else None,
        "replace": "busy" if "REPLACE" in flags else "down" if "REPLACE_DOWN" in flags else "",
        "static": "STATIC" in flags,
        "first_cores": "FIRST_CORES" in flags,
    }


def format_flags(fields: Mapping[str, Any], *, named: str = "") -> list[str]:
    """Return the flags of a reservation with these fields, in Slurm's order and spelling. `named` is the flag
    for how its nodes were named.
    """
    purge_s = fields["purge_after_s"]
    flags = {
        "MAINT": fields["maintenance"],
        "FLEX": fields["flex"],
        "OVERLAP": fields["overlap"],
        "IGNORE_JOBS": named,
        fields["repeat"].upper(): fields["repeat"],
        named: named,
        "ANY_NODES": fields["any_nodes"],
        "STATIC": fields["static"],
        "FIRST_CORES": fields["first_cores"],
        "TIME_FLOAT": fields["float_s"] is not None,
        "REPLACE": fields["replace"] == "busy",
        "REPLACE_DOWN": fields["replace"] == "down",
        f"PURGE_COMP={format_clock(purge_s or 0)}": purge_s is not None,
        "NO_HOLD_JOBS_AFTER_END": not fields["hold_jobs_after"],
        "MAGNETIC": fields["magnetic"],
    }
    return [name for name, given in flags.items() if given]


def _purge_s(text: str) -> int:
    try:
        seconds = parse_seconds(text) if text else PURGE_S
    except UserError:
        return PURGE_S
    return PURGE_S if seconds is None else seconds
