"""Reservations, licenses and statistics, as scontrol and sdiag print them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from warpdeck.model.reservation import Repeat, Replacement
from warpdeck.notation.values.licenses import parse_licenses
from warpdeck.protocol.site_rows import LicenseRow, ReservationRow

from . import values
from .marked_table import EMPTY
from .scontrol_text import OneLiner

RESERVATION = OneLiner(
    (
        *("ReservationName", "StartTime", "EndTime", "Duration", "Nodes", "NodeCnt", "CoreCnt", "Features"),
        *(
            "PartitionName",
            "AllowedPartitions",
            "Flags",
            "NodeName",
            "CoreIDs",
            "TRES",
            "QOS",
            "Users",
            "Groups",
        ),
        *("Accounts", "Licenses", "State", "BurstBuffer", "Watts", "MaxStartDelay", "Comment"),
    )
)
LICENSE = OneLiner(
    (
        "LicenseName",
        "Total",
        "Used",
        "Free",
        "Reserved",
        "Remote",
        "LastConsumed",
        "LastDeficit",
        "LastUpdate",
    )
)
FOREVER_S = 364 * 86_400
"""Slurm shows a reservation without an end as one of a year."""
_REPEATS: dict[str, Repeat] = {
    "HOURLY": "hourly",
    "DAILY": "daily",
    "WEEKDAY": "weekday",
    "WEEKEND": "weekend",
    "WEEKLY": "weekly",
}
_MICROSECONDS = 1e6
_MAIN_CYCLES = re.compile(r"Main schedule statistics(.*?)(?:\n\n|\Z)", re.DOTALL)
_COUNTER = re.compile(r"^\s*([A-Z][A-Za-z ]+?)\s*:\s+(\d+)\s*$", re.MULTILINE)
_SINCE = re.compile(r"^Data since .*\((\d+)\)$", re.MULTILINE)


def read_reservations(text: str, *, now: float) -> list[ReservationRow]:
    """Return the reservations, ordered by start time."""
    lines = [line for line in text.splitlines() if line.startswith("ReservationName=")]
    rows = [_reservation(RESERVATION.fields(line), now) for line in lines]
    return sorted(rows, key=lambda row: (row.start or 0.0, row.name))


def read_licenses(text: str) -> list[LicenseRow]:
    """Return the licenses by name."""
    found = [LICENSE.fields(line) for line in text.splitlines() if line.startswith("LicenseName=")]
    return [
        LicenseRow(
            name=each["LicenseName"],
            total=_number(each.get("Total", "")),
            used=_number(each.get("Used", "")),
            reserved=_number(each.get("Reserved", "")),
        )
        for each in found
    ]


def read_statistics(text: str) -> dict[str, object]:
    """Return what sdiag tells of Slurm's scheduler, by the fields of results.Diagnosis."""
    counters = {name: int(value) for name, value in _COUNTER.findall(text)}
    main = _MAIN_CYCLES.search(text)
    cycle = {name: int(value) for name, value in _COUNTER.findall(main[1] if main else "")}
    total = cycle.get("Total cycles", 0)
    found: dict[str, object] = {
        "jobs": {
            name: counters.get(f"Jobs {name}", 0)
            for name in ("submitted", "started", "completed", "canceled", "failed")
        },
        "passes": {
            "count": total,
            "total_s": total * cycle.get("Mean cycle", 0) / _MICROSECONDS,
            "most_s": cycle.get("Max cycle", 0) / _MICROSECONDS,
            "last_s": cycle.get("Last cycle", 0) / _MICROSECONDS,
        },
        "looked_at": total * cycle.get("Mean depth cycle", 0),
        "last_queue": cycle.get("Last queue length", 0),
    }
    if since := _SINCE.search(text):
        found["since"] = float(since[1])
    return found


def _reservation(fields: Mapping[str, str], now: float) -> ReservationRow:
    flags = fields.get("Flags", "").split(",")
    start, end = (values.unix_time(fields.get(name, "")) for name in ("StartTime", "EndTime"))
    users, denied_users = _sides(fields.get("Users", ""))
    accounts, denied_accounts = _sides(fields.get("Accounts", ""))
    chosen = "SPEC_NODES" not in flags
    purge = next((flag.partition("=")[2] for flag in flags if flag.startswith("PURGE_COMP")), None)
    replace: Replacement = "busy" if "REPLACE" in flags else "down" if "REPLACE_DOWN" in flags else ""
    lasts = start is not None and end is not None and end - start > FOREVER_S
    return ReservationRow(
        name=fields["ReservationName"],
        state="over" if end and end <= now else "future" if start and start > now else "active",
        node_list=fields.get("Nodes", ""),
        start=start,
        end=None if lasts else end,
        users=users,
        accounts=accounts,
        deny_users=denied_users,
        deny_accounts=denied_accounts,
        maintenance="MAINT" in flags,
        overlap="OVERLAP" in flags,
        repeat=next((_REPEATS[flag] for flag in flags if flag in _REPEATS), ""),
        magnetic="MAGNETIC" in flags,
        flex="FLEX" in flags,
        any_nodes="ANY_NODES" in flags,
        hold_jobs_after=not any(flag.startswith("NO_HOLD_JOBS_AFTER") for flag in flags),
        float_s=int(max(0.0, start - now)) if "TIME_FLOAT" in flags and start is not None else None,
        purge_after_s=None if purge is None else values.duration_s(purge) or 0,
        node_count=_number(fields.get("NodeCnt", "")) if chosen else 0,
        partition=fields.get("PartitionName", ""),
        replace=replace,
        static="STATIC" in flags or "STATIC_ALLOC" in flags,
        groups=tuple(name for name in fields.get("Groups", "").split(",") if name),
        features=fields.get("Features", ""),
        licenses=tuple(parse_licenses(fields["Licenses"])) if fields.get("Licenses") else (),
        first_cores="FIRST_CORES" in flags,
        burst_buffer=fields.get("BurstBuffer", ""),
        max_start_delay_s=values.duration_s(fields.get("MaxStartDelay", "")) or 0,
    )


def _sides(text: str) -> tuple[list[str], list[str]]:
    """Return the names that are allowed and those with a minus, which are denied."""
    names = [name for name in text.split(",") if name and name not in EMPTY]
    return [name for name in names if name[0] != "-"], [name[1:] for name in names if name[0] == "-"]


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
