"""Settings of `sacctmgr add` and `modify` (KEY=VALUE): their keys and values in config.toml. Pure.

The module also formats the values as Slurm displays them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import format_duration, parse_limit
from warpdeck.notation.values.tres_counts import parse_tres, tres_name
from warpdeck.slurm.format.units import clock, tres_text

from .abbreviations import meant, names
from .entities import LIMITS, OF_ASSOCIATION, OF_QOS
from .field_names import PARTS

Values = dict[str, Any]
"""Values of a table in config.toml; None removes a key."""
MAX_DIGITS = 15
NONE = ("-1", "unlimited", "infinite")
"""Values that remove a limit."""
FLAGS = {"denyonlimit": "deny_on_limit", "overpartqos": "overrides_partition"}
FLAG_NAMES = {"deny_on_limit": "DenyOnLimit", "overrides_partition": "OverPartQOS"}
MODES = ("cluster", "cancel", "requeue", "suspend", "off")
PREEMPT_MODE = "preempt_mode"
_FACTOR = re.compile(r"\d{1,9}(\.\d{1,9})?")


class Unknown(Exception):
    """Error whose text is sacctmgr's complete message."""


class EntityField(NamedTuple):
    """A field that can be set: its key in config.toml, the kind of its value, and Slurm's label."""

    key: str
    kind: str
    label: str


def _limits(more: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, EntityField]:
    found = {}
    for policy_name, field in {**LIMITS, **more}.items():
        key = policy_name.removesuffix("_s")
        kind = "wall" if policy_name.endswith("_s") else "tres" if "tres" in key else "count"
        found[field] = EntityField(key, kind, labels.get(field, field))
    return found


_ASSOCIATION_LABELS = {"GrpSubmit": "GrpSubmitJobs", "MaxSubmit": "MaxSubmitJobs"}
_QOS_LABELS = {
    "GrpSubmit": "GrpSubmitJobs",
    "MaxJobsPA": "MaxJobsPerAccount",
    "MaxJobsPU": "MaxJobsPerUser",
    "MaxSubmitPA": "MaxSubmitJobsPerAccount",
    "MaxSubmitPU": "MaxSubmitJobsPerUser",
    "MaxTRES": "MaxTRESPerJob",
    "MaxTRESMins": "MaxTRESMinsPerJob",
    "MaxTRESPA": "MaxTRESPerAccount",
    "MaxTRESPU": "MaxTRESPerUser",
    "MinTRES": "MinTRESPerJob",
}
_OF_USER = {
    "Share": EntityField("shares", "share", "Fairshare"),
    "QOS": EntityField("qos", "qos", "QOS"),
    "DefaultQOS": EntityField("default_qos", "default", "DefQOS"),
    **_limits(OF_ASSOCIATION, _ASSOCIATION_LABELS),
}
FIELDS: Mapping[str, Mapping[str, EntityField]] = {
    "user": _OF_USER,
    "account": {
        **_OF_USER,
        "ParentName": EntityField("parent", "word", "Parent"),
        "Description": EntityField("description", "text", "Description"),
        "Organization": EntityField("organization", "text", "Organization"),
    },
    "qos": {
        **_limits(OF_QOS, _QOS_LABELS),
        "Priority": EntityField("priority", "count", "Priority"),
        "Preempt": EntityField("preempts", "qos", "Preempt"),
        "PreemptMode": EntityField(PREEMPT_MODE, "mode", "PreemptMode"),
        "PreemptExemptTime": EntityField("preempt_exempt_s", "span", "PreemptExemptTime"),
        "GraceTime": EntityField("grace_s", "count", "GraceTime"),
        "UsageFactor": EntityField("usage_factor", "factor", "UsageFactor"),
        "Flags": EntityField("", "flags", "Flags"),
        "Description": EntityField("", "nothing", "Description"),
    },
}
"""Entity -> its fields that can be set, by sacctmgr's name. The description of a QoS is always its name."""
_OF_PLACE = names(
    "DefaultQOS:8 FairShare:1=Share Shares:1=Share GrpCPUMins:7 GrpCPURunMins:7 GrpCPUs:7 GrpJobs:4 GrpJobsAccrue:8 "
    "GrpMemory:4=GrpMem GrpNodes:4 GrpSubmitJobs:4=GrpSubmit GrpTRES:7 GrpTRESMins:8 GrpTRESRunMins:8 GrpWall:4 "
    "MaxCPUMinsPerJob:7=MaxCPUMins MaxCPURunMins:7 MaxCPUsPerJob:7=MaxCPUs MaxJobs:4 MaxJobsAccrue:8 "
    "MaxNodesPerJob:4=MaxNodes MinPrioThresh:4 MaxSubmitJobs:4=MaxSubmit MaxTRESPerJob:7=MaxTRES MaxTRESPerNode:11 "
    "MaxTRESMinsPerJob:8=MaxTRESMins MaxTRESRunMins:8 MaxWallDurationPerJob:4=MaxWall Parent:2=ParentName Priority:2 QOSLevel:1=QOS"
)
WORDS = {
    "user": names("RawUsage:7") + _OF_PLACE,
    "account": names("Description:1 Organization:1 RawUsage:7") + _OF_PLACE,
    "qos": names(
        "Description:1 Flags:2 GraceTime:3 GrpCPUMins:7 GrpCPURunMins:7 GrpCPUs:7 GrpJobs:4 GrpJobsAccrue:8 GrpMemory:4=GrpMem "
        "GrpNodes:4 GrpSubmitJobs:4=GrpSubmit GrpTRES:7 GrpTRESMins:8 GrpTRESRunMins:8 GrpWall:4 LimitFactor:6 "
        "MaxCPUMinsPerJob:7=MaxCPUMins MaxCPUsPerJob:7=MaxCPUs MaxCPUsPerUser:11=MaxCPUsPU MaxCPUsPU:9 "
        "MaxJobsAccruePerAccount:17 MaxJobsAccruePA:15 MaxJobsAccruePerUser:17 MaxJobsAccruePU:15 "
        "MaxJobsPerAccount:11=MaxJobsPA MaxJobsPA:9 MaxJobsPerUser:4=MaxJobsPU MaxJobsPU:4 MaxNodesPerJob:4=MaxNodes "
        "MaxNodesPerUser:8=MaxNodesPU MaxNodesPU:8 MaxSubmitJobsPerAccount:17=MaxSubmitPA MaxSubmitJobsPA:15=MaxSubmitPA "
        "MaxSubmitJobsPerUser:4=MaxSubmitPU MaxSubmitJobsPU:4=MaxSubmitPU MaxTRESPerAccount:11=MaxTRESPA MaxTRESPA:9 "
        "MaxTRESPerJob:7=MaxTRES MaxTRESPerNode:11 MaxTRESPerUser:11=MaxTRESPU MaxTRESPU:9 "
        "MaxTRESMinsPerJob:8=MaxTRESMins MaxTRESRunMinsPA:16 MaxTRESRunMinsPU:8 MaxWallDurationPerJob:4=MaxWall "
        "MinCPUsPerJob:7=MinCPUs MinPrioThresh:4 MinTRESPerJob:7=MinTRES PreemptMode:8 Preempt:7 PreemptExemptTime:8 "
        "Priority:3 RawUsage:7 UsageFactor:6 UsageThreshold:6"
    ),
}
"""Entity -> the names of its settings in Slurm's order. Settings that are neither in FIELDS nor in PARTS do
not exist here.
"""
LAST = "DefQOS"
"""Label that is printed after all others."""


class Given(NamedTuple):
    """One argument: the field, the sign (+, - or nothing) and the text after the =."""

    field: EntityField
    sign: str
    text: str
    word: str
    entity: str
    part: str = ""
    """For an old key, from before Slurm had TRES: the TRES that it means."""


def given(entity: str, word: str) -> Given | None:
    """Parse an argument as a setting of the entity; return None if it is not one."""
    key, _, text = word.partition("=")
    sign = key[-1:] if key[-1:] in ("+", "-") else ""
    key = key[: len(key) - len(sign)]
    fields, name = FIELDS[entity], meant(key, WORDS[entity])
    if name in fields:
        return Given(fields[name], sign, text.strip("'\""), word, entity)
    limit, part = PARTS.get(name, ("", ""))
    field = next((each for each in fields.values() if each.key == limit), None) if limit else None
    return Given(field, sign, text, word, entity, part) if field is not None else None


def values_for(found: Iterable[Given], before: Mapping[str, Any], *, qos: Iterable[str]) -> Values:
    """Return the new values of a table that now contains `before`. Raises Unknown."""
    values: Values = {}
    for each in found:
        kind = each.field.kind
        if kind == "tres":
            now = values.get(each.field.key, before.get(each.field.key, ""))
            values[each.field.key] = _merged(each, now or "")
        elif kind == "qos":
            now = values.get(each.field.key, before.get(each.field.key, []))
            values[each.field.key] = _names(each, now or [], qos)
        elif kind == "default":
            values[each.field.key] = _default(each, qos)
        elif kind == "flags":
            values |= _flags(each)
        elif kind != "nothing":
            values[each.field.key] = READS[kind](each)
    return values


def shown(field: EntityField, value: Any) -> str:
    """Return a value as Slurm displays it."""
    if value is None:
        return "NONE"
    if field.kind == "tres":
        return tres_text(parse_tres(value))
    if field.kind == "wall":
        return clock(parse_limit(value) or 0)
    if field.kind == "factor":
        return f"{value:.4f}"
    if field.kind == "mode":
        return value.upper() or "CLUSTER"
    return ",".join(value) if isinstance(value, list) else str(value)


def _invalid(each: Given) -> Unknown:
    name = "FairShare" if each.field.kind == "share" else each.field.label
    return Unknown(f"sacctmgr: error: Invalid value for {name} ({each.text})\n{_after(each)}")


def _after(each: Given) -> str:
    """Return the hint that follows the error for an invalid value; there is none for QoS."""
    return "" if each.entity == "qos" else no_option(each.word)


def no_option(word: str, *, advises: bool = True) -> str:
    """Return the error for an argument that is not a setting."""
    return f" Unknown option: {word}\n" + " Use keyword 'where' to modify condition\n" * advises


def _count(each: Given) -> int | None:
    text = each.text.strip()
    if text.lower() in NONE:
        return None
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise _invalid(each)
    return int(text)


def _share(each: Given) -> int | None:
    if each.text.lower() == "parent":
        raise Unknown("sacctmgr: error: Fairshare=parent is not supported: give a number of shares\n")
    return _count(each)


def _wall(each: Given) -> str | None:
    if each.text.lower() in NONE:
        return None
    try:
        seconds = parse_limit(each.text)
    except UserError:
        raise Unknown(f" Bad {each.field.label} time format: {each.word}\n{_after(each)}") from None
    return None if seconds is None else format_duration(seconds)


def _span(each: Given) -> int | None:
    """Return a time, written like a limit, in seconds."""
    text = _wall(each)
    return None if text is None else parse_limit(text)


def _factor(each: Given) -> float | None:
    if each.text in NONE:
        return None
    if not _FACTOR.fullmatch(each.text):
        raise _invalid(each)
    return float(each.text)


def _mode(each: Given) -> str | None:
    word = each.text.lower()
    meant = next((mode for mode in MODES if len(word) > 1 and mode.startswith(word)), None)
    if meant is None:
        raise Unknown(f" Bad Preempt Mode given: {each.word}\n")
    return None if meant == "cluster" else meant


def _word(each: Given) -> str | None:
    return each.text.lower() or None


def _default(each: Given, known: Iterable[str]) -> str | None:
    name = None if each.text in NONE else _word(each)
    if name is not None and name not in known:
        said = f"You gave a bad default qos '{name}'.  Use 'list qos' to get complete list.\n"
        raise Unknown(said)
    return name


def _text(each: Given) -> str | None:
    return each.text or None


READS: Mapping[str, Callable[[Given], Any]] = {
    "count": _count,
    "share": _share,
    "wall": _wall,
    "span": _span,
    "factor": _factor,
    "mode": _mode,
    "word": _word,
    "text": _text,
}


def _merged(each: Given, before: str) -> str | None:
    """Return the TRES list with the given TRES set or removed one by one."""
    counts = parse_tres(before)
    text = f"{each.part}={each.text}" if each.part else each.text
    if text in NONE:
        return None
    for item in text.split(","):
        name, equals, count = item.partition("=")
        if not equals:
            raise _no_tres(each, f"no TRES id found for {name}")
        try:
            name = tres_name(name)
        except UserError:
            raise _no_tres(each, f"no TRES known by type {name}") from None
        if count in NONE:
            counts.pop(name, None)
            continue
        try:
            counts |= parse_tres(f"{name}={count}")
        except UserError:
            raise _no_tres(each, f"{count} is no count of {name}") from None
    return ",".join(f"{name}={count}{'M' * (name == 'mem')}" for name, count in counts.items()) or None


def _no_tres(each: Given, what: str) -> Unknown:
    return Unknown(f"sacctmgr: error: slurmdb_format_tres_str: {what}\n{_after(each)}")


def _names(each: Given, before: list[str], known: Iterable[str]) -> list[str] | None:
    names = [name.lower() for name in each.text.split(",") if name]
    there = list(known)
    for name in names:
        if name.lstrip("+-") not in there:
            said = f"sacctmgr: error: You gave a bad qos '{name.lstrip('+-')}'. Valid QOS's are {','.join(there)}\n"
            raise Unknown(said + _after(each))
    now = before if each.sign or any(name[0] in "+-" for name in names) else []
    less = {name.lstrip("-") for name in names if each.sign == "-" or name[0] == "-"}
    more = [name.lstrip("+") for name in names if each.sign != "-" and name[0] != "-"]
    return [name for name in dict.fromkeys([*now, *more]) if name not in less] or None


def _flags(each: Given) -> Values:
    words = [word.lower() for word in each.text.split(",") if word and word != "-1"]
    for word in words:
        if word.lstrip("+-") not in FLAGS:
            raise Unknown(
                f" Unknown QOS flag used in:\n  '{each.text}'\n Valid QOS flags are\n  '{','.join(FLAG_NAMES.values())}'\n"
            )
    is_part = bool(each.sign) or any(word[0] in "+-" for word in words)
    values: Values = {} if is_part else dict.fromkeys(FLAG_NAMES)
    for word in words:
        is_less = each.sign == "-" or word[0] == "-"
        values[FLAGS[word.lstrip("+-")]] = None if is_less else True
    return values
