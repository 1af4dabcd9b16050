"""`sacctmgr show ENTITY`: prints the rows of an entity that its conditions select."""

from __future__ import annotations

import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import inf

from warpdeck.slurm.console.command_options import reported_time
from warpdeck.slurm.console.console import Console
from warpdeck.slurm.format.printing import PrintedColumn, print_header, print_row, style_of

from .abbreviations import meant
from .change_messages import ChangeRefused
from .entities import ENTITIES, NO_ENTITY, ListedEntity, name_of
from .entity_rows import Row
from .field_names import UnknownField, columns_of
from .matching import chosen
from .show_conditions import EVENTS, ConditionOptions, bad_event, parse_conditions, unknown_qos

TREE_WIDTH = -20
OF_CLUSTER_EVENTS = "cluster,tres,start,end,clusternodes"
"""Fields that replace the default ones for cluster events."""


def show(words: Sequence[str], given: AbstractSet[str], console: Console) -> int:
    """Print the entity and return the exit code. `given` holds sacctmgr's options."""
    name = name_of(words[0]) if words else ""
    if not name:
        console.streams.err.write(NO_ENTITY)
        return 1
    entity = ENTITIES[name]
    if entity.text is not None:
        with console.controller.connect() as client:
            console.streams.out.write(entity.text(client))
        return 0
    asked = parse_conditions(entity, words[1:])
    if "associations" in given and "WithAssoc" in entity.more:
        asked = asked._replace(flags=asked.flags | {"WithAssoc"})
    if wrong := "".join(asked.wrong) or (bad_event(asked) if name == "event" else ""):
        console.streams.err.write(wrong)
        return 1
    try:
        columns = columns_of(
            _usual_form(name, asked) if asked.fields is None else asked.fields, words=entity.fields
        )
    except UnknownField as error:
        console.streams.err.write(f"Unknown field '{error}'\n")
        return 1
    with console.controller.connect() as client:
        known = [row["Name"] for row in ENTITIES["qos"].rows(client)] if asked.qos else []
        if bad := unknown_qos(entity, asked, known):
            console.streams.err.write(bad)
            return 1
        try:
            rows = chosen(name, entity.rows(client), asked)
        except ChangeRefused as refusal:
            console.streams.err.write(str(refusal))
            return 1
    if entity.has_times:
        rows = _in_period(name, rows, asked, console)
    _print(rows, columns, given, console, is_tree="Tree" in asked.flags)
    return 0


def _usual_form(name: str, asked: ConditionOptions) -> str:
    """Return the fields that are shown without format=."""
    entity: ListedEntity = ENTITIES[name]
    if name == "event" and [meant(each, EVENTS) for each in asked.where.get("Events", ())] == ["Cluster"]:
        return OF_CLUSTER_EVENTS
    usual = (entity.without_limits if "WOLimits" in asked.flags else "") or entity.form
    return ",".join([usual, *(fields for flag, fields in entity.more.items() if flag in asked.flags)])


def _in_period(name: str, rows: list[Row], asked: ConditionOptions, console: Console) -> list[Row]:
    """Return the rows that overlap with the period from Start to End.

    Without conditions, only current reservations are returned.
    """
    now = time.time()
    start, end = (
        reported_time("".join(asked.where.get(key, [])[-1:]), now, console) for key in ("Start", "End")
    )
    if name == "reservation" and end is None and (start or not (asked.where or asked.fields)):
        start, end = start or now, now
    until = inf if end is None else end
    return [
        row
        for row in rows
        if float(row["start at"]) <= until and float(row.get("end at", inf)) > (start or 0.0)
    ]


def _print(
    rows: list[Row], columns: list[PrintedColumn], given: AbstractSet[str], console: Console, *, is_tree: bool
) -> None:
    """Print the table; the accounts of a tree are indented by their level."""
    style = style_of(given)
    if is_tree:
        columns = [each._replace(width=TREE_WIDTH) if each.name == "Account" else each for each in columns]
        rows = [row | {"Account": row.get("above", "") + row.get("Account", "")} for row in rows]
    print_header(console, columns, style)
    for row in rows:
        print_row(console, columns, [row.get(column.name, "") for column in columns], style)
