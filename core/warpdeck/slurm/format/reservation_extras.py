"""Reservation settings for burst buffers, power and start delays.

Burst buffers and power are stored and displayed for compatibility; no plug-in uses them. MaxStartDelay
applies to jobs with --signal=R:, which start after a reservation here.
"""

from __future__ import annotations

import re
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import parse_seconds

from .reservation_keys import ReservationRefused, ReservationSyntaxError

INFINITE = 2**32 - 1
NONE = ("", "n/a", "none", "0")
UNITS = {"": 1, "k": 1000, "m": 1_000_000}
_WATTS = re.compile(r"(\d{1,18})([kKmM]?)")


def extras(given: dict[str, str]) -> dict[str, Any]:
    """Return the reservation fields that the given keys set. Raises ReservationSyntaxError."""
    found: dict[str, Any] = {}
    if "burstbuffer" in given:
        found["burst_buffer"] = given["burstbuffer"]
    if "watts" in given:
        found["watts"] = parse_watts(given["watts"])
    if "maxstartdelay" in given:
        found["max_start_delay_s"] = _delay_s(given["maxstartdelay"])
    return found


def parse_watts(text: str) -> int:
    """Parse a number of watts, with an optional suffix K or M. 0 means none and INFINITE means all.

    Raises ReservationSyntaxError.
    """
    if text.lower() in NONE:
        return 0
    if text.lower() in ("infinite", "-1"):
        return INFINITE
    match = _WATTS.fullmatch(text)
    if match is None:
        raise ReservationSyntaxError(f"Invalid Watts value: {text}", alone=True)
    return int(match[1]) * UNITS[match[2].lower()] % 2**32


def watts_text(watts: int) -> str:
    """Format watts with the largest unit that represents them exactly: 1500, 2K, 3M."""
    if watts == INFINITE:
        return "INFINITE"
    for letter, unit in (("M", UNITS["m"]), ("K", UNITS["k"])):
        if watts and watts % unit == 0:
            return f"{watts // unit}{letter}"
    return str(watts) if watts else "n/a"


def _delay_s(text: str) -> int:
    try:
        seconds = parse_seconds(text) if text else None
    except UserError:
        seconds = None
    if seconds is None:
        raise ReservationSyntaxError(f"Invalid duration maxstartdelay={text}.")
    return seconds


def check_power(given: dict[str, str], fields: dict[str, Any]) -> None:
    """Check the power settings of a new reservation, which may reserve no other resources.

    Raises ReservationSyntaxError or ReservationRefused.
    """
    if "watts" not in given:
        return
    other = ("nodes", "nodecnt", "corecnt", "cpucnt", "tres", "licenses", "partitionname", "features")
    if any(given.get(key) for key in other):
        raise ReservationSyntaxError("A power reservation must be empty and set the LICENSE_ONLY flag.")
    if fields.get("any_nodes") and not (parse_watts(given["watts"]) or given.get("burstbuffer")):
        raise ReservationRefused("Requested reservation is invalid\nno watts are requested")
