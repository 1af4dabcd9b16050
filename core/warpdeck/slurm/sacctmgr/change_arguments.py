"""Arguments of `sacctmgr add|modify|delete ENTITY`: names, conditions and settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .abbreviations import meant, names
from .change_messages import ChangeRefused, no_condition, no_option
from .editable import EDITABLE
from .setting_values import GivenSetting, given

NOTHING = ("none", "")
"""Values of unsupported settings that are accepted, because they match the fixed behavior."""
LEAST = 3
NO_CONDITION = " No conditions given to remove, not executing.\n"


class ChangeOptions(NamedTuple):
    """The parsed arguments of `sacctmgr add`, `modify` or `delete`.

    `names` are the entity's own names in lower case. `where` holds conditions on accounts, parents or
    defaultaccounts.
    """

    names: list[str]
    where: dict[str, list[str]]
    settings: list[GivenSetting]


def parse_arguments(verb: str, entity: str, words: Iterable[str]) -> ChangeOptions:
    """Parse the arguments. Raises ChangeRefused."""
    named: list[str] = []
    where: dict[str, list[str]] = {}
    settings: list[GivenSetting] = []
    complaint = ""
    sets = verb == "add" and entity != "coordinator"
    for word in words:
        if word.lower() in ("set", "where"):
            sets = word.lower() == "set" or sets
            continue
        key, equals, text = word.partition("=")
        condition = meant(key, names(EDITABLE[entity].conditions)) if equals else "names"
        setting = given(entity, word) if equals and sets else None
        is_set = sets and verb == "modify"
        if refusal := _refusal(entity, key.lower().rstrip("+-")) if equals and setting is None else "":
            said = f"sacctmgr: error: {word} is not supported: {refusal}\n"
            complaint += said if text.lower() not in NOTHING else ""
        elif setting is not None and not (verb == "add" and condition == "names"):
            settings.append(setting)
        elif condition == "names":
            named += _names_of(text if equals else key)
        elif condition and not (is_set and condition != "defaultaccounts"):
            where.setdefault(condition, []).extend(_names_of(text))
        else:
            complaint += (
                no_option(word, advises=(verb, entity) != ("add", "user")) if sets else no_condition(word)
            )
    if complaint:
        is_all = verb == "delete" and not named and not where
        raise ChangeRefused(complaint + (NO_CONDITION if is_all else ""))
    return ChangeOptions(list(dict.fromkeys(named)), where, settings)


def _refusal(entity: str, key: str) -> str:
    refused = EDITABLE[entity].refused.items()
    return next((why for each, why in refused if len(key) >= LEAST and each.startswith(key)), "")


def _names_of(text: str) -> list[str]:
    return [name.lower() for name in text.strip("'\"").split(",") if name]
