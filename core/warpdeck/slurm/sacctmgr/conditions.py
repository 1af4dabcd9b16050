"""Arguments of sacctmgr's `show ENTITY`: conditions, flags, names and format=, and the errors for all others.

All functions are pure. The rules were measured with Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from warpdeck.slurm.console.arguments import listed

from .abbreviations import Name, meant, names

_PLACE = names(
    "Accounts:2 Acct:4=Accounts IDs:1 Associations:2=IDs Clusters:1 DefaultQOS:8 Partitions:3 Parents:4 QOSLevel:1 Users:1"
)
"""Conditions on associations."""
PLACES = frozenset(each.meaning for each in _PLACE)
_USUAL = names("set:3 where:5 WithDeleted:5")
_OF_PLACES = names("WithAssoc:5 WithCoordinators:5 WithRawQOSLevel:5 WOPLimits:4 WOLimits:3")
_LONGER = ("withassocs", "withassociation", "withassociations")


class Grammar(NamedTuple):
    """Arguments that an entity accepts. `alone` is the condition that a word without = is a value of."""

    alone: str
    conditions: tuple[Name, ...]
    flags: tuple[Name, ...] = _USUAL
    number: str = "AssocId"
    """Slurm's name of IDs in messages."""
    advises: bool = True
    """Whether the error for an unknown condition includes a hint."""


_TRANSACTION = Grammar(
    "IDs",
    names(
        "IDs:1 Txn:1=IDs Accounts:3 Action:4 Actors:4 Clusters:3 End:1 Format:1 Start:1 Users:1",
    ),
    names("where:5 WithAssocInfo:5"),
    "Transaction ID",
    advises=False,
)
GRAMMARS = {
    "account": Grammar(
        "Names",
        names("Names:1 Accounts:1=Names Acct:4=Names Descriptions:1 Format:1 Organizations:1") + _PLACE,
        _USUAL + _OF_PLACES,
    ),
    "association": Grammar(
        "IDs",
        names("IDs:1 Associations:2=IDs Format:1") + _PLACE,
        names(
            "OnlyDefaults:2 Tree:4 WithDeleted:5 WithRawQOSLevel:5 WithSubAccounts:5 WOPInfo:4 WOPLimits:4=WOLimits WOLimits:3 "
            "where:5"
        ),
        advises=False,
    ),
    "cluster": Grammar(
        "Names",
        names(
            "Names:1 Clusters:3=Names Federations:3 Classification:3 Flags:2 Format:2 PluginIDSelect:1 RPCVersions:1"
        ),
        _USUAL + names("WithFed:5 WOLimits:3"),
    ),
    "event": Grammar(
        "Events",
        names(
            "Events:1 Clusters:2 CondFlags:2 End:1 Format:1 MinCpus:2 MaxCpus:2 Nodes:1 Reason:1 Start:4 States:4 Users:1"
        ),
        names("all_clusters:5 all_time:5 where:5"),
        advises=False,
    ),
    "federation": Grammar(
        "Names", names("Names:1 Federations:3=Names Clusters:3 Format:2"), _USUAL + names("Tree:4")
    ),
    "problem": Grammar(
        "IDs",
        names("IDs:1 Problems:2=IDs Accounts:2 Acct:4=Accounts Clusters:1 Format:1 Partitions:4 Users:1"),
        names("Tree:4 where:5"),
        advises=False,
        number="",
    ),
    "qos": Grammar(
        "Names",
        names("Names:1 QOSLevel:1=Names Clusters:1=Descriptions Descriptions:1 Format:1 IDs:1 PreemptMode:8"),
        number="QOS ID",
    ),
    "resource": Grammar(
        "Names",
        names("Names:1 Clusters:3 Descriptions:3 Format:1 IDs:1 PercentAllowed:1 ServerType:7 Server:2"),
        _USUAL + names("WithClusters:5"),
        number="",
    ),
    "reservation": Grammar(
        "",
        names("Clusters:1 End:1 Format:1 IDs:1 Names:2 Nodes:2 Start:5"),
        names("set:3 where:5"),
        number="",
    ),
    "runawayjobs": Grammar("Clusters", names("Clusters:1 Format:1"), (), advises=False),
    "transaction": _TRANSACTION,
    "txn": _TRANSACTION,
    "tres": Grammar("Types", names("Types:2 Names:1 Format:1 IDs:1"), number=""),
    "user": Grammar(
        "Names",
        names("Names:1 Users:1=Names AdminLevel:2 Clusters:1 DefaultAccount:8 DefaultWCKey:8 Format:1")
        + _PLACE,
        _USUAL + _OF_PLACES,
    ),
    "wckey": Grammar(
        "Names",
        names("WCKeys:3=Names Names:3 IDs:1 Clusters:3 End:1 Format:1 Start:1 Users:1"),
        names("where:5 WithDeleted:5"),
        "WCKeyID",
        advises=False,
    ),
}
ASKED_WHOLE = ("configuration", "stats")
"""Entities that are always shown completely; their arguments are ignored."""
EVENTS = names("Node:1 Cluster:1")
STATES = (
    *(
        "allocated",
        "completing",
        "down",
        "drained",
        "draining",
        "fail",
        "failing",
        "future",
        "idle",
        "maint",
        "mixed",
    ),
    *("power_down", "power_up", "reboot", "reserved", "unknown"),
)
EVENT_STATES = (
    "Valid node states are: DRAIN FAIL UNKNOWN DOWN IDLE ALLOCATED ? MIXED FUTURE \n"
    "sacctmgr: fatal: unrecognized job state value\n"
)
"""Error for any other state."""
MODES = ("off", "cancel", "cluster", "gang", "requeue", "suspend", "within")
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


def asked_of(entity: str, words: Iterable[str]) -> ConditionOptions:
    """Parse the arguments after the entity."""
    grammar = GRAMMARS[entity]
    where: dict[str, list[str]] = {}
    qos: list[tuple[str, str]] = []
    flags, fields, wrong = set(), None, []
    for word in words:
        key, equals, value = word.partition("=")
        value = value.strip("'\"") if equals else word
        flag = "" if equals else _flag(word, grammar)
        name = meant(key.rstrip("+-"), grammar.conditions) if equals else grammar.alone
        if flag:
            flags.add(flag)
        elif name == "Format":
            fields = ",".join(filter(None, (fields, value)))
        elif not name:
            wrong.append(_unknown(word, grammar))
        elif bad := _bad(name, value, word, grammar):
            wrong.append(bad)
        else:
            where.setdefault(name, []).extend(listed(value))
            qos += [(each, word) for each in listed(value) if name in ("QOSLevel", "DefaultQOS")]
    return ConditionOptions(where, frozenset(flags), fields, wrong, qos)


def unknown_qos(entity: str, asked: ConditionOptions, known: Iterable[str]) -> str:
    """Return the errors for conditions that name a QoS that does not exist."""
    there = list(known)
    return "".join(
        f"sacctmgr: error: You gave a bad qos '{name}'. Valid QOS's are {','.join(there)}\n"
        + _unknown(word, GRAMMARS[entity])
        for name, word in asked.qos
        if name.lower() not in there
    )


def is_state(word: str) -> bool:
    """Return whether nodes can be in the state."""
    return any(state.startswith(word.lower()) for state in STATES)


def _flag(word: str, grammar: Grammar) -> str:
    return meant("withassoc" if word.lower() in _LONGER else word, grammar.flags)


def _unknown(word: str, grammar: Grammar) -> str:
    advice = " Use keyword 'set' to modify value\n" if grammar.advises else ""
    return f" Unknown condition: {word}\n{advice}"


def _bad(name: str, value: str, word: str, grammar: Grammar) -> str:
    """Return the error for a value of a condition, or "" if it is valid."""
    if name == "IDs" and grammar.number:
        bad = [each for each in listed(value) if not _NUMBER.fullmatch(each)]
        return "".join(f"sacctmgr: error: Invalid value for {grammar.number} ({each})\n" for each in bad)
    if name == "Events":
        bad = [each for each in listed(value) if not meant(each, EVENTS)]
        return "".join(f" Unknown event type: '{each}'  Valid events are Cluster and Node.\n" for each in bad)
    if name == "Action":
        return f"sacctmgr: error: You gave a bad action '{value}'.\n" if value.lower() not in ACTIONS else ""
    if name == "PreemptMode" and value.lower() not in MODES:
        told = f"sacctmgr: error: Unknown preempt_mode given '{value}'\n"
        return f"{told} Bad Preempt Mode given: {word}\n"
    return ""


ACTIONS = frozenset(
    f"{verb} {what}"
    for verb in ("add", "modify", "remove")
    for what in ("accounts", "associations", "clusters", "qos", "users", "wckeys", "tres", "federations")
)
