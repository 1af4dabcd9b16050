"""Parsers, checks and tests for the values of sacct's filter options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import existing_gid, existing_uid, group_of
from warpdeck.notation.values.time_points import parse_moment
from warpdeck.slurm.console.command_options import INVALID_TIME, WordsError, split_list
from warpdeck.slurm.console.console import CommandError
from warpdeck.slurm.fields.job_states import CODES
from warpdeck.slurm.format.named_columns import parse_step_ids
from warpdeck_agent.wire.hostnames import HostlistError, expand

UNRECORDED = frozenset(
    [
        "COMPLETING",
        "CONFIGURING",
        "RESV_DEL_HOLD",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "SIGNALING",
        "SPECIAL_EXIT",
        "STAGE_OUT",
        "STOPPED",
    ]
)
"""Job states that Slurm's accounting does not record."""
UNITS = "KMGTP"
_MANY = re.compile(r"(\d*)([kKmM]?)(?:(-)(\d*)([kKmM]?))?")
_TIMES = {"": 1, "k": 1024, "m": 1024**2}
_MOST = 2**31 - 1


def check(name: str, value: str, now: float) -> None:
    """Validate an option's value, even if a later option overrides it. Raises CommandError or WordsError."""
    test = _CHECKS.get(name)
    if test is not None:
        test(value)
    elif name in ("starttime", "endtime"):
        moment_of(value, now)


def moment_of(text: str, now: float) -> float:
    """Parse a time; an empty text means now. Raises WordsError."""
    try:
        return parse_moment(text, now, past=True) if text else now
    except UserError as error:
        raise WordsError(f"{INVALID_TIME}{text}") from error


def in_range(count: int, text: str, what: str) -> bool:
    """Check if the count equals a number or lies in a range such as 2-8.

    An empty text and 0 match any count. Raises CommandError.
    """
    if text[:1] in ("", "*"):
        return True
    found = _MANY.fullmatch(text.removeprefix("+"))
    if found is None or not found[1] or (found[3] and not int(found[4] or 0)):
        raise CommandError(f'Invalid numeric value "{text}" for requested {what} range.')
    low = int(found[1] or 0) * _TIMES[found[2].lower()]
    high = int(found[4]) * _TIMES[found[5].lower()] if found[3] else low
    for number in (low, high):
        if number > _MOST:
            raise CommandError(f"Numeric argument ({number}) to big for requested {what} range.")
    return not high or low <= count <= high


def in_limits(limit_s: int | None, low: str, high: str) -> bool:
    """Check a job's time limit against -k and -K. Raises WordsError.

    -k alone means exactly that limit; together with -K it is the lower bound.
    """
    least, most = _limit(low), _limit(high)
    return least <= (limit_s or _NO_LIMIT) <= most


_NO_LIMIT = float("inf")


def _limit(text: str) -> float:
    from warpdeck.notation.values.durations import parse_limit

    try:
        found = parse_limit(text)
    except UserError:
        found = 0
    # parse_limit returns None (no limit) for 0, but sacct rejects 0.
    if found == 0 or (found is None and not text.isalpha()):
        raise WordsError("sacct: fatal: Invalid time limit specification")
    return found or _NO_LIMIT


def in_group(uid: int, text: str) -> bool:
    """Check if the user's primary group is one of the given groups (names or numbers).

    Raises CommandError.
    """
    return group_of(uid)[1] in _groups(text)


def _groups(text: str) -> list[int]:
    return _people(text, "group", existing_gid)


def _users(text: str) -> None:
    if text != "-1":  # -1 means all users.
        _people(text, "user", existing_uid)


def _people(text: str, kind: str, number_of: Callable[[str], int | None]) -> list[int]:
    found = []
    for word in split_list(text):
        number = number_of(word)
        if number is None:
            raise CommandError(f"Invalid {kind} id: {word}")
        found.append(number)
    if not found:
        raise CommandError(f"no {kind} is named")
    return found


def state_named(word: str) -> str:
    """Return the state with this name or code, in any case.

    Raises WordsError for an unknown state, or one that is not recorded.
    """
    for state, code in CODES.items():
        if word.upper() in (state, code):
            if state in UNRECORDED:
                raise WordsError(f"sacct: fatal: job state {word} is not supported / accounted")
            return state
    raise WordsError(f"sacct: fatal: unrecognized job state value '{word}'")


def nodes_of(text: str) -> list[str]:
    """Return the node names of a host list. Raises CommandError."""
    try:
        return expand(text)
    except HostlistError as error:
        raise CommandError(str(error)) from None


def unit_of(text: str) -> str:
    """Return the letter of a size unit. Raises WordsError."""
    unit = text[:1].upper()
    if not unit or unit not in UNITS:
        possible = f"Invalid unit type '{text[:1]}'. Possible options are '{UNITS}'"
        raise WordsError(f"sacct: error: {possible}\nsacct: fatal: Invalid unit type")
    return unit


def whole_hetjob(text: str | None) -> str:
    """Return the value of --whole-hetjob as "yes" or "no", or "" if it was not given. Raises CommandError."""
    if text is None:
        return ""
    if text.lower() not in ("", "y", "yes", "n", "no"):
        raise CommandError(f'Invalid --whole-hetjob value "{text}". Valid values: [yes|no].')
    return "no" if text.lower().startswith("n") else "yes"


_CHECKS: dict[str, Callable[[str], Any]] = {
    "jobs": lambda text: parse_step_ids("sacct", text),
    "nodelist": lambda text: nodes_of(text),
    "state": lambda text: [state_named(word) for word in split_list(text)],
    "units": unit_of,
    "timelimit-min": _limit,
    "timelimit-max": _limit,
    "nnodes": lambda text: in_range(0, text, "node"),
    "ncpus": lambda text: in_range(0, text, "cpu"),
    "gid": _groups,
    "group": _groups,
    "uid": _users,
    "user": _users,
    "whole-hetjob": whole_hetjob,
    "whetjob": whole_hetjob,
}
