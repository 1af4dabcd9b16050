"""`scontrol create|update|delete reservation`: KEY=VALUE words become a reservation that is made at run time."""

from __future__ import annotations

import time
from collections.abc import Sequence
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
NO_EFFECT = frozenset({"IGNORE_JOBS", "PART_NODES", "ANY_NODES", "STATIC_ALLOC"})
"""Flags that say how it is here anyway, or nothing that counts."""
NOT_HERE = frozenset(
    {
        "FIRST_CORES",
        "FLEX",
        "LICENSE_ONLY",
        "MAGNETIC",
        "NO_HOLD_JOBS_AFTER_END",
        "PURGE_COMP",
        "REPLACE",
        "REPLACE_DOWN",
        "TIME_FLOAT",
    }
)
"""Flags of Slurm's that would make it another reservation."""
OF_ROW = {"MAINT": "maintenance", "OVERLAP": "overlap"}
MAX_COUNT_DIGITS = 6
HOLDING = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
"""States of jobs for which a reservation stays."""
IN_USE = "Requested reservation is in use"
SIGNED = frozenset({"users", "accounts", "flags", "duration"})
"""Keys that an update may add to and take from."""
KEYS_NOT_HERE = (
    "burstbuffer",
    "corecnt",
    "features",
    "groups",
    "licenses",
    "maxstartdelay",
    "skip",
    "tres",
    "watts",
)
"""Slurm's other keys."""
NO_WHO = "Either Users/Groups and/or Accounts must be specified."
NO_NODES = "CoreCnt, Nodes, NodeCnt, BurstBuffer, Licenses or Watts must be specified."
WORDS = (
    ("has", "Requested reservation overlaps with another reservation"),
    ("already", "Duplicate event, or reservation of that name"),
    ("there is no node", "Invalid node name specified"),
    ("there is no account", "Invalid account or account/partition combination specified"),
    ("over before it begins", "Invalid time specified"),
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
    if not given.get("nodes") and not given.keys() & {"nodecnt", "partitionname"}:
        raise Misread(NO_NODES)
    flags = _flags(_flag_words(given.get("flags", "")))
    if "PART_NODES" in _flag_words(given.get("flags", "")) and (
        "partitionname" not in given or given.get("nodes", "").upper() != "ALL"
    ):
        raise Misread("PART_NODES flag requires specifying a Partition and ALL nodes.")
    if "users" not in given and "accounts" not in given and not flags["maintenance"]:
        raise Misread(NO_WHO)
    start = _moment(given["starttime"], f"start time starttime={given['starttime']}")
    whose = {"users": _users(given.get("users", "")), "accounts": _listed(given.get("accounts", ""))}
    return {
        "name": given.get("reservationname") or _free_name(client, given, user),
        "nodes": _nodes(client, given),
        "start_unix": start,
        "end_unix": _end(given, start),
        **whose,
        **flags,
    }


def _changed(client: Any, row: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    start = row["start"]
    if "starttime" in given:
        start = _moment(given["starttime"], f"start time starttime={given['starttime']}")
    own = expand(row["node_list"])
    return {
        "name": row["name"],
        "nodes": _nodes(client, given, own=own) if given.keys() & {"nodes", "nodecnt"} else own,
        "start_unix": start,
        "end_unix": _changed_end(row, given, start),
        "users": _members(row["users"], given, "users"),
        "accounts": _members(row["accounts"], given, "accounts"),
        **_changed_flags(row, given),
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
    now = [flag for flag in ("MAINT", "OVERLAP") if row[OF_ROW[flag]]]
    now += [row["repeat"].upper()] if row["repeat"] else []
    words = _flag_words(given["flags"]) if "flags" in given else now
    words = [*words, *_flag_words(given.get("flags+", ""))]
    less = _flag_words(given.get("flags-", ""))
    return _flags([word for word in dict.fromkeys(words) if word not in less])


def _members(now: list[str], given: dict[str, str], key: str) -> list[str]:
    known = _users if key == "users" else _listed
    names = _listed(given.get(key, ""))
    if names and all(name.startswith("-") for name in names):  # as key-=NAMES
        less = [name[1:] for name in names]
        return [name for name in now if name not in less]
    if key in given:
        return known(given[key])
    more, less = known(given.get(f"{key}+", "")), _listed(given.get(f"{key}-", ""))
    return [name for name in dict.fromkeys([*now, *more]) if name not in less]


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


def _flag_words(text: str) -> list[str]:
    """In capitals and in full: a flag may be cut, as long as it is the only one that begins so. Raises Misread."""
    known = [*sorted(NO_EFFECT | NOT_HERE), "MAINT", "OVERLAP", *(word.upper() for word in REPEATS)]
    found = []
    for word in _listed(text):
        upper = word.upper().partition("=")[0]
        meant = [upper] if upper in known else [each for each in known if each.startswith(upper)]
        if len(meant) != 1:
            raise Misread(f"Error parsing flags {text}.")
        found += meant
    return found


def _flags(words: list[str]) -> dict[str, Any]:
    refused = next((word for word in words if word in NOT_HERE), "")
    if refused:
        raise Misread(f"Flag {refused} is not supported.")
    repeats = [word.lower() for word in words if word.lower() in REPEATS]
    if len(repeats) > 1:
        raise Misread("A reservation comes again in one way only.")
    return {
        "maintenance": "MAINT" in words,
        "overlap": "OVERLAP" in words,
        "repeat": repeats[0] if repeats else "",
    }


def _users(text: str) -> list[str]:
    names = _listed(text)
    for name in names:
        if uid_of(name) is None:
            raise Refused("Invalid user id")
    return names


def _listed(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _free_name(client: Any, given: dict[str, str], user: str) -> str:
    """USER_1, as Slurm calls them: after the first user, or the first account."""
    there = {row["name"] for row in client.call("reservations")["reservations"]}
    base = next(iter([*_listed(given.get("users", "")), *_listed(given.get("accounts", "")), user]))
    return next(name for number in range(1, 10_000) if (name := f"{base}_{number}") not in there)


def _nodes(client: Any, given: dict[str, str], *, own: Sequence[str] = ()) -> list[str] | None:
    """Those that are named, or so many: of `own` first. None is all that there are."""
    pool = _pool(client, given["partitionname"]) if "partitionname" in given else None
    if given.get("nodes", "").upper() == "ALL" or not given.keys() & {"nodes", "nodecnt"}:
        return pool
    if "nodecnt" not in given:
        return list(dict.fromkeys(expand(given["nodes"])))
    count = given["nodecnt"]
    if not count.isdecimal() or len(count) > MAX_COUNT_DIGITS:
        raise Misread(f"Invalid node count {count}.")
    rows = [row for row in client.call("nodes")["nodes"] if pool is None or row["name"] in pool]
    # Those that are idle first, so that the fewest jobs run into it.
    rows.sort(key=lambda row: (row["name"] not in own, row["state"] != "idle", row["name"]))
    if len(rows) < int(count):
        raise Refused("Requested node configuration is not available")
    return [row["name"] for row in rows[: int(count)]]


def _pool(client: Any, partition: str) -> list[str]:
    parts = client.call("partitions")["partitions"]
    own = next((expand(row["node_list"]) for row in parts if row["name"] == partition), None)
    if own is None:
        raise Refused("Invalid partition name specified")
    return own
