"""`scontrol create|update|delete reservation`: builds or changes a reservation from KEY=VALUE arguments."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.base.passwd import members_of, uid_of
from warpdeck.notation.filters.reservation_flags import (
    BadFlags,
    ReservationFlags,
    flag_fields,
    format_flags,
    parse_flags,
)
from warpdeck.notation.filters.reservations import access_fields, float_fields, requested_parts
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.licenses import parse_licenses
from warpdeck.slurm.console.command_options import split_list
from warpdeck.slurm.format.reservation_extras import check_power, extras
from warpdeck.slurm.format.reservation_keys import (
    ACCESS,
    AS_IT_IS,
    BOTH_WHO,
    EITHER_WHO,
    HOLDING,
    IN_USE,
    NO_ACCOUNT,
    NO_NODES,
    NO_WHO,
    NOT_SUPPORTED,
    WORDS,
    ReservationRefused,
    ReservationSyntaxError,
    given_keys,
    length_s,
    moment,
    words_of,
)

from .reservation_nodes import asked_tres, chosen_nodes, cores, partition_of, pool_of
from .session import Failed, ScontrolSession

NOTE = """\
Note, unless nodes are directly requested a reservation must exist in a single partition.
If no partition is requested the default partition is assumed.
"""
NOT_THERE = ("Requested nodes are busy", "Requested node configuration is not available")
"""Errors after which Slurm also prints `NOTE`, which explains the nodes that it considered."""
FIXED = "Core-based reservation can not be updated"


def create(session: ScontrolSession, words: list[str]) -> None:
    """Handle `scontrol create [reservation] KEY=VALUE...`. Raises Failed."""
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
            made = _made(client, given_keys([word.partition("=") for word in rest]), session.console.user)
            _make(client, made)
        except ReservationSyntaxError as error:
            raise Failed(f"{error.before}scontrol: error: {error}{error.tail('created')}") from error
        except ReservationRefused as error:
            if str(error).startswith(NOT_THERE):
                session.console.streams.out.write(NOTE)
            raise Failed(f"Error creating the reservation: {error}") from error
    session.console.streams.out.write(f"Reservation created: {made['name']}\n")


def change(session: ScontrolSession, pairs: list[tuple[str, str]]) -> None:
    """Handle `scontrol update reservationname=NAME KEY=VALUE...`. Raises Failed.

    Keys with several values also accept += and -=.
    """
    with session.connect() as client:
        try:
            given = given_keys([(key, "=", value) for key, value in pairs], signs=True)
            name = given.pop("reservationname", "")
            rows = {row["name"]: row for row in client.call("reservations")["reservations"]}
            if name not in rows:
                raise ReservationRefused("Requested reservation is invalid")
            _make(client, _changed(client, rows[name], given), instead=True)
        except ReservationSyntaxError as error:
            said = (
                f"{error.before}scontrol: error: {error}{error.tail('update')}\nslurm_update error: No error"
            )
            raise Failed(said) from error
        except ReservationRefused as error:
            words = str(error).partition("\n")[0]
            raise Failed(f"Error updating the reservation: {error}\nslurm_update error: {words}") from error
    session.console.streams.out.write("Reservation updated.\n")


def delete(session: ScontrolSession, words: list[str]) -> None:
    """Handle `scontrol delete reservationname=NAME` or `reservationname NAME`. Raises Failed."""
    if not words:
        raise Failed("too few arguments for delete keyword")
    key, equals, name = words[0].partition("=")
    if not equals and len(words) < 2:
        raise Failed("scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
    is_partition = key.lower().startswith("par")
    if not (is_partition or key.lower().startswith("res")):
        raise Failed(f"Invalid deletion entity: {words[0]}")
    if not equals:
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
                f"delete_reservation {words[0]}: {words_of(error, 'Requested reservation is invalid')}"
            ) from error


def _make(client: Any, made: dict[str, Any], **how: bool) -> None:
    """Send the reservation to the controller. Raises ReservationRefused."""
    try:
        client.create("reservation_make", reservation=made, **how)
    except UserError as error:
        raise ReservationRefused(words_of(error)) from error


class _Wanted(NamedTuple):
    """The arguments of a creation, before anything is looked up in the cluster."""

    given: dict[str, str]
    flags: dict[str, str]
    counts: list[int]
    """Numbers of CPUs: one total, or one number per node."""
    counted: int
    """Number of nodes."""
    of_parts: bool
    of_none: bool
    """True if licenses, burst buffers or watts are reserved, which need no nodes."""

    @property
    def without_nodes(self) -> bool:
        named = self.given.get("nodes") or "partitionname" in self.given
        return self.of_none and not (named or self.counted or self.of_parts)


def _made(client: Any, given: dict[str, str], user: str) -> dict[str, Any]:
    if "starttime" not in given:
        raise ReservationSyntaxError("A start time must be given.")
    if "endtime" not in given and "duration" not in given:
        raise ReservationSyntaxError("An end time or duration must be given.")
    flags = _flags(given.get("flags", "")).added
    tres = asked_tres(given)
    counts, counted = cores(given), tres.nodes
    of_parts = tres.has_parts or any(counts)
    licenses = _licenses(client, given.get("licenses", ""))
    more = extras(given)
    of_none = bool(licenses or given.get("burstbuffer") or "watts" in given)
    wanted = _Wanted(given, flags, counts, counted, of_parts, of_none)
    fields = _checked_fields(wanted)
    now = time.time()
    start = moment(given["starttime"], f"start time starttime={given['starttime']}")
    end = _end(given, start)
    chosen = not given.get("nodes")
    is_counted = bool(counted) and chosen
    count = 0 if of_parts and chosen else counted
    return {
        "name": given.get("reservationname") or _free_name(client, given, user),
        "nodes": []
        if wanted.without_nodes
        else chosen_nodes(client, given, count=count, times=(start, end), of_parts=of_parts),
        "asked": requested_parts(tres, cpus=counts, chosen=chosen),
        "start_unix": start,
        "end_unix": end,
        **_whose("users", given.get("users", "")),
        **_of_groups(given.get("groups", "")),
        **_whose("accounts", given.get("accounts", "")),
        **fields,
        **more,
        "features": given.get("features", ""),
        "licenses": licenses,
        **_floating(flags, start, now, end),
        "node_count": counted if is_counted else 0,
        "partition": partition_of(client, given)
        if is_counted or of_parts
        else given.get("partitionname", ""),
    }


def _checked_fields(wanted: _Wanted) -> dict[str, Any]:
    """Return the reservation fields that the flags set, after checking that all arguments are compatible.

    Raises ReservationSyntaxError or ReservationRefused.
    """
    given, flags, counted, of_parts = wanted.given, wanted.flags, wanted.counted, wanted.of_parts
    if not (given.get("nodes") or counted or of_parts or wanted.counts) and not (
        wanted.of_none or "partitionname" in given
    ):
        raise ReservationSyntaxError(NO_NODES)
    if "PART_NODES" in flags and ("partitionname" not in given or given.get("nodes", "").upper() != "ALL"):
        raise ReservationSyntaxError("PART_NODES flag requires specifying a Partition and ALL nodes.")
    fields = _fields(flags)
    if given.get("users") and given.get("groups"):
        raise ReservationSyntaxError(BOTH_WHO)
    if not (given.get("users") or given.get("groups") or given.get("accounts")):
        raise ReservationSyntaxError(NO_WHO)
    check_power(given, fields)
    if wanted.without_nodes and not fields["any_nodes"]:
        raise ReservationRefused(
            "Invalid node name specified\na reservation without nodes needs the flag ANY_NODES"
        )
    if fields["replace"] and given.get("nodes"):
        raise ReservationRefused(
            "Invalid node name specified\nREPLACE requires NodeCnt and cannot be used with named nodes"
        )
    if of_parts and (fields["replace"] or (fields["any_nodes"] and not given.get("nodes"))):
        raise ReservationRefused(
            "CPU count specification invalid\nREPLACE and ANY_NODES require whole nodes that are named"
        )
    if wanted.counts and not of_parts:
        raise ReservationRefused("Requested nodes are busy\nCoreCnt must be at least 1")
    if fields["any_nodes"] and counted:
        raise ReservationRefused("Requested reservation is invalid\nANY_NODES requires named nodes")
    return fields


def _changed_nodes(
    client: Any, fields: dict[str, Any], given: dict[str, str], *, own: Sequence[str], counted: int
) -> int:
    """Set the number of nodes and the partition in `fields`. Return how many nodes are to be chosen."""
    if "nodes" in given and not given["nodes"]:  # the same number of other nodes
        fields |= {"node_count": len(own), "partition": partition_of(client, given)}
        counted = counted or len(own)
    elif "nodes" in given:
        fields["node_count"] = 0
    elif counted and fields["node_count"]:
        fields["node_count"] = counted
    if "partitionname" in given:
        pool_of(client, given["partitionname"])
        fields["partition"] = given["partitionname"]
    return counted


def _changed(client: Any, row: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    start = row["start"]
    if "starttime" in given:
        start = moment(given["starttime"], f"start time starttime={given['starttime']}")
        if row["state"] == "active" or row["float_s"] is not None:
            raise ReservationRefused("Reservation already started")
    own = expand(row["node_list"])
    flags = _changed_flags(row, given)
    fields = {**{name: row[name] for name in AS_IT_IS}, **flags, **extras(given)}
    tres = asked_tres(given)
    counted = tres.nodes
    sized = [key for key in ("corecnt", "tres", "nodes", "nodecnt") if key in given]
    if tres.has_parts or cores(given) or (row["parts"] and sized):
        raise ReservationRefused(f"{FIXED}\ncreate another reservation and delete this one")
    if fields["replace"] and (given.get("nodes") or not fields["node_count"]):
        raise ReservationRefused(
            f"{NOT_SUPPORTED}\nREPLACE requires NodeCnt and cannot be used with named nodes"
        )
    counted = _changed_nodes(client, fields, given, own=own, counted=counted)
    if given.get("features"):
        raise ReservationRefused(
            f"{NOT_SUPPORTED}\nfeatures select nodes only when a reservation is created: create another one"
        )
    if "features" in given:
        fields["features"] = ""
    if "licenses" in given:
        fields["licenses"] = _licenses(client, given["licenses"])
        if not (fields["licenses"] or own or given.get("nodes")):
            raise ReservationRefused(
                "Invalid license specification\nthe reservation would be empty: delete it"
            )
    end = _changed_end(row, given, start)
    nodes: list[str] | None = list(own)
    if "nodes" in given or counted:
        nodes = chosen_nodes(client, given, count=counted, times=(start, end), own=own, name=row["name"])
    access = {**_changed_users(row, given), **_members(row, given, "accounts")}
    if not any(access[key] for key in ACCESS) and any(row[key] for key in ACCESS):
        raise ReservationRefused(WORDS["reservation_for_nobody"])
    return {
        **fields,
        "name": row["name"],
        "nodes": nodes,
        "parts": row["parts"],
        "start_unix": start,
        "end_unix": end,
        **access,
    }


def _changed_end(row: dict[str, Any], given: dict[str, str], start: float) -> float | None:
    end: float | None = row["end"]
    if "starttime" in given and end is not None and row["start"] is not None:
        end = start + (end - row["start"])
    if "endtime" in given or "duration" in given:
        end = _end(given, start)
    for key, sign in (("duration+", 1), ("duration-", -1)):
        if key in given:
            more_s = length_s(given[key])
            if end is None or more_s is None:
                raise ReservationRefused(
                    "Invalid time specified\na reservation without an end has no duration"
                )
            end += sign * more_s
    return end


def _changed_flags(row: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    now = dict(flag.partition("=")[::2] for flag in format_flags(row))
    asked = [_flags(given.get(f"flags{sign}", ""), sign=sign) for sign in ("", "+", "-")]
    if any("TIME_FLOAT" in each.added for each in asked):
        raise ReservationRefused(
            "Invalid time specified\nTIME_FLOAT cannot be changed: create another reservation"
        )
    for each in asked:
        now |= each.added
    less = frozenset().union(*(each.removed for each in asked))
    return _fields({name: value for name, value in now.items() if name not in less})


def _of_groups(text: str) -> dict[str, Any]:
    """Return the fields for the current members of the groups, or {} if no group is named."""
    names = split_list(text)
    members = {name: members_of(name) for name in names}
    empty = next((name for name in names if not members[name]), None)
    if empty is not None:
        raise ReservationRefused(f"Invalid group id\ngroup {empty} does not exist or has no members")
    users = sorted({user for group in members.values() for user in group})
    return {"groups": names, "users": users, "deny_users": []} if names else {}


def _changed_users(row: dict[str, Any], given: dict[str, str]) -> dict[str, Any]:
    """Return the new users of the reservation, given either as users or as the members of groups."""
    of_groups = any(given.get(f"groups{sign}") for sign in ("", "+"))
    of_users = any(given.get(f"users{sign}") for sign in ("", "+"))
    if (of_groups and (row["users"] or row["deny_users"]) and not row["groups"]) or (
        of_users and row["groups"]
    ):
        _of_groups(given.get("groups", ""))
        raise ReservationRefused(EITHER_WHO)
    if not (row["groups"] or of_groups):
        return _members(row, given, "users")
    less = split_list(given.get("groups-", ""))
    now = (
        split_list(given["groups"])
        if "groups" in given
        else [*row["groups"], *split_list(given.get("groups+", ""))]
    )
    left = [name for name in dict.fromkeys(now) if name not in less]
    return _of_groups(",".join(left)) or {"groups": [], "users": [], "deny_users": []}


def _licenses(client: Any, text: str) -> list[tuple[str, int]]:
    try:
        if "=" in text:
            raise UserError(f"{text!r} is not a list of licenses", "write NAME:COUNT, separated by commas")
        found = parse_licenses(text)
        owned = {row["name"]: row["total"] for row in client.call("licenses")["licenses"]} if found else {}
        short = next((name for name, count in found if count > owned.get(name, 0)), "")
        if short:
            raise UserError(f"there are {owned.get(short, 0)} licenses of {short}", "request fewer")
        return found
    except UserError as error:
        raise ReservationRefused(f"Invalid license specification\n{error.message}") from error


def _members(row: dict[str, Any], given: dict[str, str], key: str) -> dict[str, list[str]]:
    """Return the new allowed names and the new denied names of a row's users or accounts."""
    denied = bool(row[f"deny_{key}"])
    now = row[f"deny_{key}"] if denied else row[key]
    words = split_list(given.get(key, ""))
    less = split_list(given.get(f"{key}-", ""))
    if now and words and all(word.startswith("-") for word in words):
        less, words = [*less, *(word[1:] for word in words)], []
    elif key in given:
        return _whose(key, given[key])
    if denied and given.get(f"{key}+"):
        raise ReservationRefused(
            f"Invalid {key} list specified\nsome {key} are denied: give the whole list, {key}=-NAME,..."
        )
    more = _whose(key, given.get(f"{key}+", ""))[key]
    left = [name for name in dict.fromkeys([*now, *more]) if name not in less]
    return {key: [] if denied else left, f"deny_{key}": left if denied else []}


def _whose(key: str, text: str) -> dict[str, list[str]]:
    try:
        found = access_fields(key, text)
    except UserError as error:
        first = "Invalid user id" if key == "users" else NO_ACCOUNT
        raise ReservationRefused(f"{first}\n{error.message}") from error
    for name in [*found["users"], *found["deny_users"]] if key == "users" else ():
        if uid_of(name) is None:
            raise ReservationRefused("Invalid user id")
    return found


def _end(given: dict[str, str], start: float) -> float | None:
    if "endtime" in given:
        end = moment(given["endtime"], f"end time endtime={given['endtime']}")
        if end <= start:
            raise ReservationSyntaxError("Start time cannot be after end time.")
        return end
    lasts_s = length_s(given["duration"])
    return None if lasts_s is None else start + lasts_s


def _flags(text: str, *, sign: str = "") -> ReservationFlags:
    try:
        return parse_flags(text, sign=sign)
    except BadFlags as error:
        given = ",".join(f"{sign}{word}" for word in text.split(","))
        raise ReservationSyntaxError(f"Error parsing flags {given}.") from error


def _fields(flags: dict[str, str]) -> dict[str, Any]:
    try:
        return flag_fields(flags)
    except UserError as error:
        said = WORDS.get(error.code, "")
        if said:
            raise ReservationRefused(f"{said}\n{error.message}") from error
        raise ReservationSyntaxError(f"{error.message[0].upper()}{error.message[1:]}.") from error


def _floating(flags: dict[str, str], start: float, now: float, end: float | None) -> dict[str, int | None]:
    try:
        return float_fields(flags, start, now, None if end is None else end - start)
    except UserError as error:
        raise ReservationRefused(f"Invalid time specified\n{error.message}") from error


def _free_name(client: Any, given: dict[str, str], user: str) -> str:
    """Return the first free name ACCOUNT_1, ACCOUNT_2, ..., as Slurm does.

    The base is the first account, else the first user, else the caller. A minus sign, which denies an account or a
    user, is not part of the name.
    """
    there = {row["name"] for row in client.call("reservations")["reservations"]}
    named = [*split_list(given.get("accounts", "")), *split_list(given.get("users", "")), user]
    base = named[0].lstrip("-")
    return next(name for number in range(1, 10_000) if (name := f"{base}_{number}") not in there)
