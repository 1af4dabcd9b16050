"""`scontrol create|update|delete reservation`: KEY=VALUE words become a reservation that is made at run time."""

from __future__ import annotations

import time
from typing import Any

from warpdeck.errors import UserError
from warpdeck.notation.hostlist import expand
from warpdeck.notation.moments import parse_moment
from warpdeck.notation.times import parse_limit
from warpdeck.slurm.people import uid_of

from .session import Failed, Session

KEYS = {
    "accounts": 1,
    "duration": 1,
    "endtime": 1,
    "flags": 2,
    "nodecnt": 5,
    "nodes": 1,
    "partitionname": 1,
    "reservationname": 1,
    "starttime": 1,
    "users": 1,
}
"""Key -> letters of it that must be written."""
REPEATS = ("hourly", "daily", "weekday", "weekend", "weekly")
"""model.reservation.Repeat; repeated because importing that costs msgspec."""
NO_EFFECT = frozenset({"IGNORE_JOBS", "SPEC_NODES", "PART_NODES", "OVERLAP", "ANY_NODES"})
"""Flags that say how it is here anyway, or nothing that counts."""
NOT_MADE = "No reservation created."
NO_WHO = "Either Users/Groups and/or Accounts must be specified.  "
NO_NODES = "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified.  "
WORDS = (
    ("has", "Requested reservation overlaps with another reservation"),
    ("already", "Duplicate event, or reservation of that name"),
    ("there is no node", "Invalid node name specified"),
    ("there is no account", "Invalid account or account/partition combination specified"),
    ("over before it begins", "Requested time limit is invalid (missing or exceeds some limit)"),
)


def create(session: Session, words: list[str]) -> None:
    """create [reservation] KEY=VALUE... Raises Failed."""
    kind = words[0].partition("=")[0].lower() if words else ""
    if kind.startswith("par"):
        raise Failed(
            "scontrol: error: partitions stand in config.toml: write [partitions.NAME], then `scontrol reconfigure`"
        )
    if not kind.startswith("res"):
        raise Failed(
            f"Invalid creation entity: {words[0]}" if words else "too few arguments for create keyword"
        )
    rest = words if "=" in words[0] else words[1:]
    given = _given([word.partition("=") for word in rest])
    session_user = session.console.user
    with session.connect() as client:
        made = _made(client, given, session_user)
        try:
            client.call("reservation_make", reservation=made)
        except UserError as error:
            raise Failed(f"Error creating the reservation: {_words_of(error)}") from error
    session.console.out.write(f"Reservation created: {made['name']}\n")


def change(session: Session, pairs: list[tuple[str, str]]) -> None:
    """update reservationname=NAME KEY=VALUE... with += and -= for users and accounts. Raises Failed."""
    given = _given([(key, "=", value) for key, value in pairs], signs=True)
    name = given.pop("reservationname", "")
    with session.connect() as client:
        rows = {row["name"]: row for row in client.call("reservations")["reservations"]}
        if name not in rows:
            raise Failed("Error updating the reservation: Requested reservation is invalid")
        try:
            client.call("reservation_make", reservation=_changed(rows[name], given), instead=True)
        except UserError as error:
            raise Failed(f"Error updating the reservation: {_words_of(error)}") from error
    session.console.out.write("Reservation updated.\n")


def delete(session: Session, words: list[str]) -> None:
    """delete reservationname=NAME. Raises Failed."""
    if not words:
        raise Failed("too few arguments for delete keyword")
    key, equals, name = words[0].partition("=")
    if not key.lower().startswith("res"):
        raise Failed(f"Invalid deletion entity: {words[0]}")
    shown = f"{key}={name}" if equals else key
    with session.connect() as client:
        try:
            client.call("reservation_rm", name=name)
        except UserError as error:
            raise Failed(
                f"delete_reservation {shown}: {_words_of(error, 'Requested reservation is invalid')}"
            ) from error


def _words_of(error: UserError, missing: str = "") -> str:
    if error.code == "not_found" and missing:
        return missing
    if "only the controller" in error.message:
        return "Access/permission denied"
    said = next((words for part, words in WORDS if part in error.message), "")
    return f"{said}\n{error.message}" if said else error.message


def _given(words: list[Any], *, signs: bool = False) -> dict[str, str]:
    """Full key (with its sign) -> value. Raises Failed."""
    found: dict[str, str] = {}
    for key, _, value in words:
        sign = key[-1] if signs and key[-1:] in ("+", "-") else ""
        lowered = key.rstrip("+-").lower()
        if lowered == "reservation":
            lowered = "reservationname"
        name = next(
            (each for each, least in KEYS.items() if len(lowered) >= least and each.startswith(lowered)), ""
        )
        if not name:
            raise Failed(f"Update of this parameter is not supported: {key}={value}\nRequest aborted")
        found[name + sign] = value
    return found


def _made(client: Any, given: dict[str, str], user: str) -> dict[str, Any]:
    if "starttime" not in given:
        raise Failed(f"scontrol: error: A start time must be given.  {NOT_MADE}")
    if "endtime" not in given and "duration" not in given:
        raise Failed(f"scontrol: error: An end time or duration must be given.  {NOT_MADE}")
    if "nodes" not in given and "nodecnt" not in given:
        raise Failed(f"scontrol: error: {NO_NODES}{NOT_MADE}")
    flags = _flags(given.get("flags", ""))
    if "users" not in given and "accounts" not in given and not flags["maintenance"]:
        raise Failed(f"scontrol: error: {NO_WHO}{NOT_MADE}")
    start = _moment(given["starttime"])
    whose = {"users": _users(given.get("users", "")), "accounts": _listed(given.get("accounts", ""))}
    if flags["maintenance"]:
        # Here one for maintenance is for nobody; Slurm wants somebody named, which is mostly root.
        whose = {"users": [], "accounts": []}
    return {
        "name": given.get("reservationname") or _free_name(client, given, user),
        "nodes": _nodes(client, given),
        "start_unix": start,
        "end_unix": _end(given, start),
        **whose,
        **flags,
    }


def _changed(row: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    start = _moment(given["starttime"]) if "starttime" in given else row["start"]
    end = row["end"]
    if "starttime" in given and end is not None and row["start"] is not None:
        end = start + (end - row["start"])
    if "endtime" in given or "duration" in given:
        end = _end(given, start)
    flags = {"maintenance": row["maintenance"], "repeat": row["repeat"]}
    if "flags" in given:
        flags = _flags(given["flags"])
    return {
        "name": row["name"],
        "nodes": expand(given["nodes"]) if "nodes" in given else expand(row["node_list"]),
        "start_unix": start,
        "end_unix": end,
        "users": _members(row["users"], given, "users"),
        "accounts": _members(row["accounts"], given, "accounts"),
        **flags,
    }


def _members(now: list[str], given: dict[str, str], key: str) -> list[str]:
    if key in given:
        return _users(given[key]) if key == "users" else _listed(given[key])
    more, less = _listed(given.get(f"{key}+", "")), _listed(given.get(f"{key}-", ""))
    return [name for name in dict.fromkeys([*now, *more]) if name not in less]


def _end(given: dict[str, str], start: float) -> float | None:
    if "endtime" in given:
        return _moment(given["endtime"])
    try:
        length_s = parse_limit(given["duration"])
    except UserError as error:
        raise Failed(f"Invalid duration: {given['duration']}\n{NOT_MADE}") from error
    return None if length_s is None else start + length_s


def _moment(text: str) -> float:
    try:
        return parse_moment(text, time.time())
    except UserError as error:
        raise Failed(f"Invalid time specification (pos=0): {text}\n{NOT_MADE}") from error


def _flags(text: str) -> dict[str, Any]:
    words = [word.upper() for word in _listed(text)]
    repeats = [word.lower() for word in words if word.lower() in REPEATS]
    unknown = [
        word for word in words if word not in NO_EFFECT and word != "MAINT" and word.lower() not in REPEATS
    ]
    if unknown:
        raise Failed(f"scontrol: error: Invalid flag: {unknown[0]}\n{NOT_MADE}")
    if len(repeats) > 1:
        raise Failed(f"scontrol: error: a reservation comes again in one way only\n{NOT_MADE}")
    return {"maintenance": "MAINT" in words, "repeat": repeats[0] if repeats else ""}


def _users(text: str) -> list[str]:
    names = _listed(text)
    for name in names:
        if uid_of(name) is None:
            raise Failed("Error creating the reservation: Invalid user id")
    return names


def _listed(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _free_name(client: Any, given: dict[str, str], user: str) -> str:
    """USER_1, as Slurm calls them: after the first user, or the first account."""
    there = {row["name"] for row in client.call("reservations")["reservations"]}
    base = next(iter([*_listed(given.get("users", "")), *_listed(given.get("accounts", "")), user]))
    return next(name for number in range(1, 10_000) if (name := f"{base}_{number}") not in there)


def _nodes(client: Any, given: dict[str, str]) -> list[str] | None:
    if given.get("nodes", "").upper() == "ALL":
        return None
    if "nodes" in given:
        return list(dict.fromkeys(expand(given["nodes"])))
    count = given["nodecnt"]
    if not count.isdecimal():
        raise Failed(f"scontrol: error: Invalid node count {count}\n{NOT_MADE}")
    rows = client.call("nodes")["nodes"]
    if "partitionname" in given:
        parts = client.call("partitions")["partitions"]
        own = next((expand(row["node_list"]) for row in parts if row["name"] == given["partitionname"]), None)
        if own is None:
            raise Failed("Error creating the reservation: Invalid partition name specified")
        rows = [row for row in rows if row["name"] in own]
    # Those that are idle first, so that the fewest jobs run into it.
    rows.sort(key=lambda row: (row["state"] != "idle", row["name"]))
    if len(rows) < int(count):
        raise Failed("Error creating the reservation: Requested node configuration is not available")
    return [row["name"] for row in rows[: int(count)]]
