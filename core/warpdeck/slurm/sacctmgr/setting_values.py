"""Settings of `sacctmgr add` and `modify` (KEY=VALUE): their values in config.toml and in Slurm's output. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import format_duration, parse_limit
from warpdeck.notation.values.tres_counts import parse_tres, tres_name
from warpdeck.slurm.format.units import clock, tres_text

from .abbreviations import meant, names
from .change_messages import ChangeRefused, no_option
from .editable import EDITABLE, EntityField
from .limit_names import PARTS

Values = dict[str, Any]
"""Values of a table in config.toml; None removes a key."""
MAX_DIGITS = 15
NONE = ("-1", "unlimited", "infinite")
"""Values that remove a limit."""
FLAGS = {"denyonlimit": "deny_on_limit", "overpartqos": "overrides_partition"}
FLAG_NAMES = {"deny_on_limit": "DenyOnLimit", "overrides_partition": "OverPartQOS"}
MODES = ("cluster", "cancel", "requeue", "suspend", "off")
_FACTOR = re.compile(r"\d{1,9}(\.\d{1,9})?")


class GivenSetting(NamedTuple):
    """One argument: the field, the sign (+, - or nothing) and the text after the =."""

    field: EntityField
    sign: str
    text: str
    word: str
    entity: str
    part: str = ""
    """For an old key, from before Slurm had TRES: the TRES that it means."""


def given(entity: str, word: str) -> GivenSetting | None:
    """Parse an argument as a setting of the entity; return None if it is not one."""
    key, _, text = word.partition("=")
    sign = key[-1:] if key[-1:] in ("+", "-") else ""
    key = key[: len(key) - len(sign)]
    fields, name = EDITABLE[entity].fields, meant(key, names(EDITABLE[entity].settings))
    if name in fields:
        return GivenSetting(fields[name], sign, text.strip("'\""), word, entity)
    limit, part = PARTS.get(name, ("", ""))
    field = next((each for each in fields.values() if each.key == limit), None) if limit else None
    return GivenSetting(field, sign, text, word, entity, part) if field is not None else None


def values_for(found: Iterable[GivenSetting], before: Mapping[str, Any], *, qos: Iterable[str]) -> Values:
    """Return the new values of a table that now contains `before`. Raises ChangeRefused."""
    values: Values = {}
    for each in found:
        key = each.field.key
        now = values.get(key, before.get(key))
        match each.field.kind:
            case "tres":
                values[key] = _merged(each, now or "")
            case "qos":
                values[key] = _names(each, now or [], qos)
            case "default":
                values[key] = _default(each, qos)
            case "flags":
                values |= _flags(each)
            case "nothing":
                pass
            case kind:
                values[key] = READS[kind](each)
    return values


def shown(field: EntityField, value: Any) -> str:
    """Return a value as Slurm displays it."""
    if value is None:
        return "NONE"
    if field.kind in _SHOWN:
        return _SHOWN[field.kind](value)
    return ",".join(value) if isinstance(value, list) else str(value)


_SHOWN: Mapping[str, Callable[[Any], str]] = {
    "tres": lambda value: tres_text(parse_tres(value)),
    "wall": lambda value: clock(parse_limit(value) or 0),
    "factor": "{:.4f}".format,
    "mode": str.upper,
}


def _invalid(each: GivenSetting) -> ChangeRefused:
    name = "FairShare" if each.field.kind == "share" else each.field.label
    return ChangeRefused(f"sacctmgr: error: Invalid value for {name} ({each.text})\n{_after(each)}")


def _after(each: GivenSetting) -> str:
    """Return the hint that follows the error for an invalid value; there is none for QoS."""
    return "" if each.entity == "qos" else no_option(each.word)


def _count(each: GivenSetting) -> int | None:
    text = each.text.strip()
    if text.lower() in NONE:
        return None
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise _invalid(each)
    return int(text)


def _share(each: GivenSetting) -> int | None:
    if each.text.lower() == "parent":
        raise ChangeRefused("sacctmgr: error: Fairshare=parent is not supported: use a number of shares\n")
    return _count(each)


def _wall(each: GivenSetting) -> str | None:
    if each.text.lower() in NONE:
        return None
    try:
        seconds = parse_limit(each.text)
    except UserError:
        raise ChangeRefused(f" Bad {each.field.label} time format: {each.word}\n{_after(each)}") from None
    return None if seconds is None else format_duration(seconds)


def _span(each: GivenSetting) -> int | None:
    """Return a time, written like a limit, in seconds."""
    text = _wall(each)
    return None if text is None else parse_limit(text)


def _factor(each: GivenSetting) -> float | None:
    if each.text in NONE:
        return None
    if not _FACTOR.fullmatch(each.text):
        raise _invalid(each)
    return float(each.text)


def _mode(each: GivenSetting) -> str | None:
    word = each.text.lower()
    meant = next((mode for mode in MODES if len(word) > 1 and mode.startswith(word)), None)
    if meant is None:
        raise ChangeRefused(f" Bad Preempt Mode given: {each.word}\n")
    return None if meant == "cluster" else meant


def _word(each: GivenSetting) -> str | None:
    return each.text.lower() or None


def _default(each: GivenSetting, known: Iterable[str]) -> str | None:
    name = None if each.text in NONE else _word(each)
    if name is not None and name not in known:
        said = f"You gave a bad default qos '{name}'.  Use 'list qos' to get complete list.\n"
        raise ChangeRefused(said)
    return name


def _text(each: GivenSetting) -> str | None:
    return each.text or None


READS: Mapping[str, Callable[[GivenSetting], Any]] = {
    "count": _count,
    "share": _share,
    "wall": _wall,
    "span": _span,
    "factor": _factor,
    "mode": _mode,
    "word": _word,
    "text": _text,
}


def _merged(each: GivenSetting, before: str) -> str | None:
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


def _no_tres(each: GivenSetting, what: str) -> ChangeRefused:
    return ChangeRefused(f"sacctmgr: error: slurmdb_format_tres_str: {what}\n{_after(each)}")


def _names(each: GivenSetting, before: list[str], known: Iterable[str]) -> list[str] | None:
    names = [name.lower() for name in each.text.split(",") if name]
    there = list(known)
    for name in names:
        if name.lstrip("+-") not in there:
            said = f"sacctmgr: error: You gave a bad qos '{name.lstrip('+-')}'. Valid QOS's are {','.join(there)}\n"
            raise ChangeRefused(said + _after(each))
    now = before if each.sign or any(name[0] in "+-" for name in names) else []
    less = {name.lstrip("-") for name in names if each.sign == "-" or name[0] == "-"}
    more = [name.lstrip("+") for name in names if each.sign != "-" and name[0] != "-"]
    return [name for name in dict.fromkeys([*now, *more]) if name not in less] or None


def _flags(each: GivenSetting) -> Values:
    words = [word.lower() for word in each.text.split(",") if word and word != "-1"]
    for word in words:
        if word.lstrip("+-") not in FLAGS:
            raise ChangeRefused(
                f" Unknown QOS flag used in:\n  '{each.text}'\n Valid QOS flags are\n  '{','.join(FLAG_NAMES.values())}'\n"
            )
    is_part = bool(each.sign) or any(word[0] in "+-" for word in words)
    values: Values = {} if is_part else dict.fromkeys(FLAG_NAMES)
    for word in words:
        is_less = each.sign == "-" or word[0] == "-"
        values[FLAGS[word.lstrip("+-")]] = None if is_less else True
    return values
