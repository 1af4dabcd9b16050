"""`scontrol create|update|delete reservation`: KEY=VALUE words become a reservation that is made at run time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from warpdeck.cluster import ALL_NODES
from warpdeck.errors import UserError
from warpdeck.notation.hostlist import expand
from warpdeck.notation.moments import parse_moment
from warpdeck.notation.reservationflags import AS_ASKED, Asked, BadFlags, flag_fields, parse_flags, told_flags
from warpdeck.notation.reservations import floating, whose
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
    "tres": 1,
    "users": 1,
}
"""Key -> letters of it that must be written."""
MAX_COUNT_DIGITS = 6
HOLDING = ("PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
"""States of jobs for which a reservation stays."""
IN_USE = "Requested reservation is in use"
SIGNED = frozenset({"users", "accounts", "flags", "duration"})
"""Keys that an update may add to and take from."""
KEYS_NOT_HERE = (
    "burstbuffer",
    "corecnt",
    "cpucnt",
    "features",
    "groups",
    "licenses",
    "maxstartdelay",
    "watts",
)
"""Slurm's other keys."""
NO_ACCOUNT = "Invalid account or account/partition combination specified"
NO_WHO = "Either Users/Groups and/or Accounts must be specified."
NO_NODES = "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified."
NOT_SUPPORTED = "Requested operation not supported on this system"
AS_IT_IS = ("users", "accounts", "deny_users", "deny_accounts", *AS_ASKED)
"""Fields of a row that a change leaves, but for those that it names."""
WORDS = (
    ("has", "Requested reservation overlaps with another reservation"),
    ("already", "Duplicate event, or reservation of that name"),
    ("there is no node", "Invalid node name specified"),
    ("there is no account", NO_ACCOUNT),
    ("over before it begins", "Invalid time specified"),
    ("floats does not come again", NOT_SUPPORTED),
    ("is for somebody or", "Reservation request lacks users, groups or accounts"),
)


class Misread(Exception):
    """What scontrol itself finds wrong: one sentence, which may follow a line of its own."""

    def __init__(self, sentence: str, *, before: str = "") -> None:
        super().__init__(sentence)
        self.before = before


class Refused(Exception):
    """What Slurm's controller would say; ours may follow on a second line."""


def create(session: Session, words: list[str]) -> None:
    """create [reservation] KEY=VALUE... Raises Failed."""
    kind = words[0].partition("=")[0].lower() if words else ""
    if kind.startswith("par"):
        from .partitions import create as create_partition

        create_partition(session, words)
        return
    if not kind.startswith("res"):
        raise Failed(
            f"scontrol: error: Invalid creation entity: {words[0]}"
            if words
            else "too few arguments for create keyword"
        )
    rest = words if "=" in words[0] else words[1:]
    with session.connect() as client:
        try:
            made = _made(client, _given([word.partition("=") for word in rest]), session.console.user)
            _make(client, made)
        except Misread as error:
            raise Failed(f"{error.before}scontrol: error: {error}  No reservation created.") from error
        except Refused as error:
            raise Failed(f"Error creating the reservation: {error}") from error
    session.console.out.write(f"Reservation created: {made['name']}\n")


def change(session: Session, pairs: list[tuple[str, str]]) -> None:
    """update reservationname=NAME KEY=VALUE... with += and -= for what has several. Raises Failed."""
    with session.connect() as client:
        try:
            given = _given([(key, "=", value) for key, value in pairs], signs=True)
            name = given.pop("reservationname", "")
            rows = {row["name"]: row for row in client.call("reservations")["reservations"]}
            if name not in rows:
                raise Refused("Requested reservation is invalid")
            _make(client, _changed(client, rows[name], given), instead=True)
        except Misread as error:
            said = f"{error.before}scontrol: error: {error}  No reservation update.\nslurm_update error: No error"
            raise Failed(said) from error
        except Refused as error:
            words = str(error).partition("\n")[0]
            raise Failed(f"Error updating the reservation: {error}\nslurm_update error: {words}") from error
    session.console.out.write("Reservation updated.\n")


def delete(session: Session, words: list[str]) -> None:
    """delete reservationname=NAME, or reservationname NAME. Raises Failed."""
    if not words:
        raise Failed("too few arguments for delete keyword")
    key, equals, name = words[0].partition("=")
    is_partition = key.lower().startswith("par")
    if not (is_partition or key.lower().startswith("res")):
        raise Failed(f"Invalid deletion entity: {words[0]}")
    if not equals:
        if len(words) < 2:
            raise Failed("scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
        name = words[1]
    if is_partition:
        from .partitions import delete as delete_partition

        delete_partition(session, name, said=words[0])
        return
    with session.connect() as client:
        jobs = client.call("records", reservations=[name], fields=["id", "state"])["jobs"]
        if any(job["state"] in HOLDING for job in jobs):
            raise Failed(f"delete_reservation {words[0]}: {IN_USE}")
        try:
            client.call("reservation_rm", name=name)
        except UserError as error:
            raise Failed(
                f"delete_reservation {words[0]}: {_words_of(error, 'Requested reservation is invalid')}"
            ) from error


def _make(client: Any, made: dict[str, Any], **how: bool) -> None:
    """Raises Refused."""
    try:
        client.call("reservation_make", reservation=made, **how)
    except UserError as error:
        raise Refused(_words_of(error)) from error


def _words_of(error: UserError, missing: str = "") -> str:
    if error.code == "not_found" and missing:
        return missing
    if "only the controller" in error.message:
        return "Access/permission denied"
    said = next((words for part, words in WORDS if part in error.message), "")
    return f"{said}\n{error.message}" if said else error.message


def _given(words: list[Any], *, signs: bool = False) -> dict[str, str]:
    """Full key (with its sign) -> value. Raises Misread."""
    found: dict[str, str] = {}
    for key, equals, value in words:
        if not equals:
            raise Misread(f"Misformatted parameter '{key}', most options have a parameter after '='.")
        sign = key[-1] if signs and key[-1:] in ("+", "-") else ""
        lowered = (key[:-1] if sign else key).lower()
        if lowered == "reservation":
            lowered = "reservationname"
        name = next(
            (each for each, least in KEYS.items() if len(lowered) >= least and each.startswith(lowered)), ""
        )
        if not name:
            known = any(len(lowered) > 2 and each.startswith(lowered) for each in KEYS_NOT_HERE)
            raise Misread(f"{'Unsupported' if known else 'Unknown'} parameter {key}={value}.")
        if sign and name not in SIGNED:
            raise Misread(f"The +=/-= notation is not supported when updating {name}.")
        found[name + sign] = value
    return found


def _made(client: Any, given: dict[str, str], user: str) -> dict[str, Any]:
    if "starttime" not in given:
        raise Misread("A start time must be given.")
    if "endtime" not in given and "duration" not in given:
        raise Misread("An end time or duration must be given.")
    flags = _flags(given.get("flags", "")).more
    counted = _count(given)
    if not given.get("nodes") and not counted and "partitionname" not in given:
        raise Misread(NO_NODES)
    if "PART_NODES" in flags and ("partitionname" not in given or given.get("nodes", "").upper() != "ALL"):
        raise Misread("PART_NODES flag requires specifying a Partition and ALL nodes.")
    fields = _fields(flags)
    if not (given.get("users") or given.get("accounts") or fields["maintenance"]):
        raise Misread(NO_WHO)
    if fields["replace"] and given.get("nodes"):
        raise Refused("Invalid node name specified\nREPLACE goes with NodeCnt: nodes that are named stay")
    if fields["any_nodes"] and counted:
        raise Refused("Requested reservation is invalid\nANY_NODES goes with nodes that are named")
    now = time.time()
    start = _moment(given["starttime"], f"start time starttime={given['starttime']}")
    end = _end(given, start)
    is_counted = bool(counted) and not given.get("nodes")
    return {
        "name": given.get("reservationname") or _free_name(client, given, user),
        "nodes": _nodes(client, given, count=counted, times=(start, end)),
        "start_unix": start,
        "end_unix": end,
        **_whose("users", given.get("users", "")),
        **_whose("accounts", given.get("accounts", "")),
        **fields,
        **_floating(flags, start, now, end),
        "node_count": counted if is_counted else 0,
        "partition": _partition(client, given) if is_counted else given.get("partitionname", ""),
    }


def _changed(client: Any, row: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    start = row["start"]
    if "starttime" in given:
        start = _moment(given["starttime"], f"start time starttime={given['starttime']}")
        if row["state"] == "active" or row["float_s"] is not None:
            raise Refused("Reservation already started")
    own = expand(row["node_list"])
    flags = _changed_flags(row, given)
    fields = {**{name: row[name] for name in AS_IT_IS}, **flags}
    counted = _count(given)
    if fields["replace"] and (given.get("nodes") or not fields["node_count"]):
        raise Refused(f"{NOT_SUPPORTED}\nREPLACE goes with NodeCnt: nodes that are named stay")
    if "nodes" in given and not given["nodes"]:  # as many others
        fields |= {"node_count": len(own), "partition": _partition(client, given)}
        counted = counted or len(own)
    elif "nodes" in given:
        fields["node_count"] = 0
    elif counted and fields["node_count"]:
        fields["node_count"] = counted
    if "partitionname" in given:
        _pool(client, given["partitionname"])
        fields["partition"] = given["partitionname"]
    end = _changed_end(row, given, start)
    nodes: list[str] | None = list(own)
    if "nodes" in given or counted:
        nodes = _nodes(client, given, count=counted, times=(start, end), own=own, name=row["name"])
    return {
        **fields,
        "name": row["name"],
        "nodes": nodes,
        "start_unix": start,
        "end_unix": end,
        **_members(row, given, "users"),
        **_members(row, given, "accounts"),
    }


def _changed_end(row: dict[str, Any], given: dict[str, str], start: float) -> float | None:
    end: float | None = row["end"]
    if "starttime" in given and end is not None and row["start"] is not None:
        end = start + (end - row["start"])
    if "endtime" in given or "duration" in given:
        end = _end(given, start)
    for key, sign in (("duration+", 1), ("duration-", -1)):
        if key in given:
            more_s = _length_s(given[key])
            if end is None or more_s is None:
                raise Refused(
                    "Invalid time specified\na reservation without an end has no duration to change"
                )
            end += sign * more_s
    return end


def _changed_flags(row: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    now = dict(flag.partition("=")[::2] for flag in told_flags(row))
    asked = [_flags(given.get(f"flags{sign}", ""), sign=sign) for sign in ("", "+", "-")]
    if any("TIME_FLOAT" in each.more for each in asked):
        raise Refused("Invalid time specified\na reservation floats from the first or never: make another")
    for each in asked:
        now |= each.more
    less = frozenset().union(*(each.less for each in asked))
    return _fields({name: value for name, value in now.items() if name not in less})


def _members(row: dict[str, Any], given: dict[str, str], key: str) -> dict[str, list[str]]:
    """Who may, or who may not, from now on."""
    denied = bool(row[f"deny_{key}"])
    now = row[f"deny_{key}"] if denied else row[key]
    words = _listed(given.get(key, ""))
    less = _listed(given.get(f"{key}-", ""))
    if now and words and all(word.startswith("-") for word in words):  # as key-=NAMES
        less, words = [*less, *(word[1:] for word in words)], []
    elif key in given:
        return _whose(key, given[key])
    if denied and given.get(f"{key}+"):
        raise Refused(
            f"Invalid {key} list specified\nsome {key} are shut out: write all anew, {key}=-NAME,..."
        )
    more = _whose(key, given.get(f"{key}+", ""))[key]
    left = [name for name in dict.fromkeys([*now, *more]) if name not in less]
    return {key: [] if denied else left, f"deny_{key}": left if denied else []}


def _whose(key: str, text: str) -> dict[str, list[str]]:
    try:
        found = whose(key, text)
    except UserError as error:
        first = "Invalid user id" if key == "users" else NO_ACCOUNT
        raise Refused(f"{first}\n{error.message}") from error
    for name in [*found["users"], *found["deny_users"]] if key == "users" else ():
        if uid_of(name) is None:
            raise Refused("Invalid user id")
    return found


def _end(given: dict[str, str], start: float) -> float | None:
    if "endtime" in given:
        end = _moment(given["endtime"], f"end time endtime={given['endtime']}")
        if end <= start:
            raise Misread("Start time cannot be after end time.")
        return end
    length_s = _length_s(given["duration"])
    return None if length_s is None else start + length_s


def _length_s(text: str) -> float | None:
    try:
        return parse_limit(text)
    except UserError as error:
        raise Misread(f"Invalid duration duration={text}.") from error


def _moment(text: str, what: str) -> float:
    try:
        return parse_moment(text, time.time())
    except UserError as error:
        raise Misread(f"Invalid {what}.", before=f"Invalid time specification (pos=0): {text}\n") from error


def _flags(text: str, *, sign: str = "") -> Asked:
    try:
        return parse_flags(text, sign=sign)
    except BadFlags as error:
        told = ",".join(f"{sign}{word}" for word in text.split(","))
        raise Misread(f"Error parsing flags {told}.") from error


def _fields(flags: dict[str, str]) -> dict[str, Any]:
    try:
        return flag_fields(flags)
    except UserError as error:
        said = next((words for part, words in WORDS if part in error.message), "")
        if said:
            raise Refused(f"{said}\n{error.message}") from error
        raise Misread(f"{error.message[0].upper()}{error.message[1:]}.") from error


def _floating(flags: dict[str, str], start: float, now: float, end: float | None) -> dict[str, int | None]:
    try:
        return floating(flags, start, now, None if end is None else end - start)
    except UserError as error:
        raise Refused(f"Invalid time specified\n{error.message}") from error


def _listed(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _free_name(client: Any, given: dict[str, str], user: str) -> str:
    """USER_1, as Slurm calls them: after the first user, or the first account."""
    there = {row["name"] for row in client.call("reservations")["reservations"]}
    base = next(iter([*_listed(given.get("users", "")), *_listed(given.get("accounts", "")), user]))
    return next(name for number in range(1, 10_000) if (name := f"{base}_{number}") not in there)


def _count(given: dict[str, str]) -> int:
    """How many nodes are asked for; 0: they are named."""
    text = given.get("nodecnt", "")
    for word in filter(None, given.get("tres", "").split(",")):
        name, _, amount = word.partition("=")
        if name.lower() != "node":
            raise Misread(f"Unsupported parameter tres={given['tres']}: only whole nodes are reserved here.")
        text = amount
    if not text:
        return 0
    digits, times = (text[:-1], 1024) if text[-1:] in "kK" else (text, 1)
    if not digits.isdecimal() or len(digits) > MAX_COUNT_DIGITS:
        raise Misread(f"Invalid node count {text}.")
    return int(digits) * times


def _nodes(
    client: Any,
    given: dict[str, str],
    *,
    count: int,
    times: tuple[float, float | None],
    own: Sequence[str] = (),
    name: str = "",
) -> list[str] | None:
    """Those that are named, or so many: of `own` first, and of what others have not set aside then. None is all there are."""
    if not count and given.get("nodes", "").upper() not in ("", "ALL"):
        return list(dict.fromkeys(expand(given["nodes"])))
    partition = given.get("partitionname") or (_partition(client, given) if count else "")
    pool = _pool(client, partition) if partition else None
    if not count:
        return pool
    taken = _taken(client, times, besides=name)
    rows = [row for row in client.call("nodes")["nodes"] if pool is None or row["name"] in pool]
    rows = [row for row in rows if row["name"] not in taken]
    if own and count <= len(own):  # fewer: those that are idle go first
        mine = sorted(
            (row for row in rows if row["name"] in own), key=lambda row: (row["state"] != "idle", row["name"])
        )
        return [row["name"] for row in mine[len(mine) - count :]]
    # Those that are idle first, so that the fewest jobs run into it.
    rows.sort(key=lambda row: (row["name"] not in own, row["state"] != "idle", row["name"]))
    if len(rows) < count:
        raise Refused("Requested node configuration is not available")
    return [row["name"] for row in rows[:count]]


def _taken(client: Any, times: tuple[float, float | None], *, besides: str) -> set[str]:
    """The nodes that other reservations have in that time."""
    start, end = times
    meet = [
        row
        for row in client.call("reservations")["reservations"]
        if row["name"] != besides
        and (end is None or (row["start"] or 0.0) < end)
        and (row["end"] is None or row["end"] > start)
    ]
    return {name for row in meet for name in expand(row["node_list"])}


def _partition(client: Any, given: dict[str, str]) -> str:
    """From which so many nodes are taken, "" where the site has none."""
    if "partitionname" in given:
        return given["partitionname"]
    parts = client.call("partitions")["partitions"]
    return next((row["name"] for row in parts if row["default"] and row["name"] != ALL_NODES), "")


def _pool(client: Any, partition: str) -> list[str]:
    parts = client.call("partitions")["partitions"]
    own = next((expand(row["node_list"]) for row in parts if row["name"] == partition), None)
    if own is None:
        raise Refused("Invalid partition name specified")
    return own
