"""`scontrol update nodename=... Weight= Features= Comment= Extra=`: what nodes cannot tell themselves stands in config.toml, and is
changed there."""

from __future__ import annotations

import re
from typing import Any

from warpdeck.notation.config.rules import values_of
from warpdeck.notation.values.hostlist import collapse, expand

from .partitions import amend
from .session import Failed

MAX_DIGITS = 9
ERROR = "slurm_update error"

Values = dict[str, Any]
"""Of [nodes."HOSTLIST"]."""


def fact_of(key: str, value: str) -> Values:
    """What [nodes."..."] says for a key of scontrol's and its value; empty for other keys. Raises Failed."""
    lowered = key.lower()
    if len(lowered) > 2 and "features".startswith(lowered):
        return {"features": list(dict.fromkeys(word for word in value.split(",") if word))}
    for word, least in (("comment", 2), ("extra", 1)):
        if len(lowered) >= least and word.startswith(lowered):
            return {word: value.strip("\"'")}
    if lowered and "weight".startswith(lowered):
        if re.fullmatch(r"-\d+", value):
            raise Failed(f"scontrol: error: Weight value ({value}) is less than zero\nNo changes specified")
        if not value.isdecimal() or len(value) > MAX_DIGITS:
            raise Failed(
                f"scontrol: error: Weight value ({value}) is not a valid number\nNo changes specified"
            )
        return {"weight": int(value)}
    return {}


def set_facts(client: Any, names: list[str], facts: Values) -> None:
    """In force at once, for all of the nodes or for none. Raises Failed, and UserError of those who may not."""
    tables: dict[str, Values] = values_of(client.call("config")["text"]).get("nodes", {})
    own = _table_of(tables, names)
    changes: dict[str, Values] = {own: dict(facts)}
    for hosts, table in tables.items():
        said = facts.keys() & table.keys()
        if hosts == own or not said or set(names).isdisjoint(expand(hosts)):
            continue
        changes[hosts] = dict.fromkeys(said)
        if rest := [name for name in expand(hosts) if name not in names]:
            _give(changes, tables, rest, {key: table[key] for key in said})
    amend(client, [{"path": ["nodes", hosts], "values": values} for hosts, values in changes.items()], ERROR)


def _give(changes: dict[str, Values], tables: dict[str, Values], names: list[str], facts: Values) -> None:
    """The other nodes of a table keep what it said, in one of their own."""
    hosts = _table_of(tables, names)
    there = {**tables.get(hosts, {}), **changes.get(hosts, {})}
    if "features" in facts:
        facts["features"] = list(dict.fromkeys([*(there.get("features") or ()), *facts["features"]]))
    changes[hosts] = {**changes.get(hosts, {}), **facts}


def _table_of(tables: dict[str, Values], names: list[str]) -> str:
    """That of these nodes, as it is written, or is to be."""
    return next((hosts for hosts in tables if set(expand(hosts)) == set(names)), collapse(names))
