"""Arguments of sacctmgr's `show ENTITY`: conditions, flags, names and format=, and the errors for all others.

All functions are pure. The rules were measured with Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from warpdeck.base.passwd import existing_uid
from warpdeck.slurm.console.command_options import split_list

from .abbreviations import meant, names
from .change_messages import no_condition
from .entities import ListedEntity

_LONGER = ("withassocs", "withassociation", "withassociations")
EVENTS = names("Node:1 Cluster:1")
STATES = (
    *("allocated", "completing", "down", "drained", "draining", "fail", "failing", "future", "idle", "maint"),
    *("mixed", "power_down", "power_up", "reboot", "reserved", "unknown"),
)
EVENT_STATES = (
    "Valid node states are: DRAIN FAIL UNKNOWN DOWN IDLE ALLOCATED ? MIXED FUTURE \n"
    "sacctmgr: fatal: unrecognized job state value\n"
)
"""Error for any other state."""
MODES = ("off", "cancel", "cluster", "gang", "requeue", "suspend", "within")
ACTIONS = frozenset(
    f"{verb} {what}"
    for verb in ("add", "modify", "remove")
    for what in ("accounts", "associations", "clusters", "qos", "users", "wckeys", "tres", "federations")
)
_NUMBER = re.compile(r"\s*[+-]?\d+")


class ConditionOptions(NamedTuple):
    """The parsed arguments: condition -> values, and flags.

    `fields` is the text of format=, None if it is not given.
    """

    where: dict[str, list[str]]
    flags: frozenset[str]
    fields: str | None
    wrong: list[str]
    """Error messages for unknown or invalid arguments."""
    qos: list[tuple[str, str]]
    """The named QoS, each with the argument that names it."""


def parse_conditions(entity: ListedEntity, words: Iterable[str]) -> ConditionOptions:
    """Parse the arguments after the entity."""
    where: dict[str, list[str]] = {}
    qos: list[tuple[str, str]] = []
    flags, fields, wrong = set(), None, []
    for word in words:
        key, equals, value = word.partition("=")
        value = value.strip("'\"") if equals else word
        flag = "" if equals else _flag(word, entity)
        name = meant(key.rstrip("+-"), names(entity.conditions)) if equals else entity.alone
        if flag:
            flags.add(flag)
        elif name == "Format":
            fields = ",".join(filter(None, (fields, value)))
        elif not name:
            wrong.append(no_condition(word, advises=entity.advises))
        elif bad := _bad(name, value, word, entity):
            wrong.append(bad)
        else:
            where.setdefault(name, []).extend(split_list(value))
            qos += [(each, word) for each in split_list(value) if name in ("QOSLevel", "DefaultQOS")]
    return ConditionOptions(where, frozenset(flags), fields, wrong, qos)


def unknown_qos(entity: ListedEntity, asked: ConditionOptions, known: Iterable[str]) -> str:
    """Return the errors for conditions that name a QoS that does not exist."""
    there = list(known)
    return "".join(
        f"sacctmgr: error: You gave a bad qos '{name}'. Valid QOS's are {','.join(there)}\n"
        + no_condition(word, advises=entity.advises)
        for name, word in asked.qos
        if name.lower() not in there
    )


def bad_event(asked: ConditionOptions) -> str:
    """Return the errors for conditions on events that name a user or a state that does not exist."""
    users = [name for name in asked.where.get("Users", ()) if existing_uid(name) is None]
    states = [
        word
        for word in asked.where.get("States", ())
        if not any(state.startswith(word.lower()) for state in STATES)
    ]
    message = [f"sacctmgr: error: Invalid user id: {name}\n" for name in users[:1]]
    return "".join([*message, *(f"Invalid state: {word}\n{EVENT_STATES}" for word in states[:1])])


def _flag(word: str, entity: ListedEntity) -> str:
    return meant("withassoc" if word.lower() in _LONGER else word, names(entity.flags))


def _bad(name: str, value: str, word: str, entity: ListedEntity) -> str:
    """Return the error for a value of a condition, or "" if it is valid."""
    if name == "IDs" and entity.number:
        bad = [each for each in split_list(value) if not _NUMBER.fullmatch(each)]
        return "".join(f"sacctmgr: error: Invalid value for {entity.number} ({each})\n" for each in bad)
    if name == "Events":
        bad = [each for each in split_list(value) if not meant(each, EVENTS)]
        return "".join(f" Unknown event type: '{each}'  Valid events are Cluster and Node.\n" for each in bad)
    if name == "Action":
        return f"sacctmgr: error: You gave a bad action '{value}'.\n" if value.lower() not in ACTIONS else ""
    if name == "PreemptMode" and value.lower() not in MODES:
        message = f"sacctmgr: error: Unknown preempt_mode given '{value}'\n"
        return f"{message} Bad Preempt Mode given: {word}\n"
    return ""
