"""`scontrol update nodename=... Weight= Features= Comment= Extra=`: sets properties of nodes.

They are stored in config.toml, because nodes cannot report these properties themselves.
"""

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
"""Values of a [nodes."HOSTLIST"] table."""


def fact_of(key: str, value: str) -> Values:
    """Return the [nodes."..."] values for a key of scontrol and its value, or {} for other keys.

    Raises Failed.
    """
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
    """Set the values for all of the nodes, or for none on failure; they take effect at once.

    Raises Failed, and UserError if the caller lacks the permission.
    """
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
    """Move the old values of a table's other nodes to a table of their own."""
    hosts = _table_of(tables, names)
    there = {**tables.get(hosts, {}), **changes.get(hosts, {})}
    if "features" in facts:
        facts["features"] = list(dict.fromkeys([*(there.get("features") or ()), *facts["features"]]))
    changes[hosts] = {**changes.get(hosts, {}), **facts}


def _table_of(tables: dict[str, Values], names: list[str]) -> str:
    """Return the host list of the table with exactly these nodes: as written in config.toml, or a new one."""
    return next((hosts for hosts in tables if set(expand(hosts)) == set(names)), collapse(names))
