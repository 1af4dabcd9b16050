"""What a reservation says of burst buffers, power and delays. Slurm keeps it for plug-ins that neither site has, and shows it; so do
we. MaxStartDelay is about jobs with --signal=R:, which here start after a reservation."""

from __future__ import annotations

import re
from typing import Any

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import parse_seconds

from .reservation_keys import Misread, Refused

INFINITE = 2**32 - 1
NONE = ("", "n/a", "none", "0")
UNITS = {"": 1, "k": 1000, "m": 1_000_000}
_WATTS = re.compile(r"(\d{1,18})([kKmM]?)")


def extras(given: dict[str, str]) -> dict[str, Any]:
    """The fields that the words name. Raises Misread."""
    found: dict[str, Any] = {}
    if "burstbuffer" in given:
        found["burst_buffer"] = given["burstbuffer"]
    if "watts" in given:
        found["watts"] = parse_watts(given["watts"])
    if "maxstartdelay" in given:
        found["max_start_delay_s"] = _delay_s(given["maxstartdelay"])
    return found


def parse_watts(text: str) -> int:
    """0 is none, INFINITE all there is. Raises Misread."""
    if text.lower() in NONE:
        return 0
    if text.lower() in ("infinite", "-1"):
        return INFINITE
    match = _WATTS.fullmatch(text)
    if match is None:
        raise Misread(f"Invalid Watts value: {text}", alone=True)
    return int(match[1]) * UNITS[match[2].lower()] % 2**32


def watts_text(watts: int) -> str:
    """1500, 2K, 3M; as large a unit as says it exactly."""
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
        raise Misread(f"Invalid duration maxstartdelay={text}.")
    return seconds


def check_power(given: dict[str, str], fields: dict[str, Any]) -> None:
    """Of one that is made: power is reserved alone. Raises Misread, Refused."""
    if "watts" not in given:
        return
    other = ("nodes", "nodecnt", "corecnt", "cpucnt", "tres", "licenses", "partitionname", "features")
    if any(given.get(key) for key in other):
        raise Misread("A power reservation must be empty and set the LICENSE_ONLY flag.")
    if fields.get("any_nodes") and not (parse_watts(given["watts"]) or given.get("burstbuffer")):
        raise Refused("Requested reservation is invalid\nno watts are asked for")
