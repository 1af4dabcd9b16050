"""Sort order of squeue's lines, for example `-S P,t,-p`.

An order is a list of the letters of -o, each with an optional + or -, the most important first. The job ID
breaks ties, so that two listings of the same queue are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from warpdeck.slurm.format.format_strings import Field, Row

from .job_fields import LETTERS, STARTS, USED, JobFields, start_of

DEFAULT = "P,t,-p"
DEFAULT_START = "S"
NEVER = float("inf")
UNSORTED = frozenset("akoqrswxyAEFKRWXYZ")
"""Letters of -o that squeue cannot sort by."""


class Key(NamedTuple):
    """A sort key: the function that returns the value to compare, and the columns that it reads."""

    needs: str
    value: Callable[[Row], Any]
    descending: bool = False


class SortError(Exception):
    """An unknown letter in a sort order."""


def parse(
    text: str, letters: Mapping[str, Key], aliases: Sequence[str] = (), *, is_strict: bool = True
) -> list[Key]:
    """Return the sort keys that a -S list names, the most important first.

    If `is_strict`, raises SortError with the last unknown letter. It is the last one because Slurm sorts by
    the last key first.
    """
    keys: list[Key] = []
    unknown, descending = "", False
    for word in text.split(","):
        if word in aliases:
            continue
        descending = False
        for letter in word:
            if letter in "+-":
                descending = letter == "-"
            elif letter in letters:
                keys.append(letters[letter]._replace(descending=descending))
                descending = False
            else:
                unknown = letter
    if unknown and is_strict:
        raise SortError(unknown)
    return keys


def sort(rows: list[Row], keys: Sequence[Key], *, ties: Callable[[Row], Any]) -> None:
    """Sort `rows` in place by `keys`, then by `ties`."""
    rows.sort(key=ties)
    for key in reversed(keys):
        rows.sort(key=key.value, reverse=key.descending)


def job_keys(fields: JobFields) -> dict[str, Key]:
    """Return the sort key of each letter of -o that squeue sorts by.

    Numbers and times are compared as numbers, not as text.
    """
    number = _numbers(fields)
    return {
        letter: number.get(letter) or _text(fields.by_name[name])
        for letter, name in LETTERS.items()
        if letter not in UNSORTED
    }


def _numbers(fields: JobFields) -> dict[str, Key]:
    plain = {
        "C": "cpus",
        "D": "nodes_told",
        "U": "uid",
        "V": "submit",
    }
    return {
        **{letter: Key(name, _column(name)) for letter, name in plain.items()},
        "c": Key(
            "cpus_per_task tasks_per_node", lambda row: row["cpus_per_task"] * max(1, row["tasks_per_node"])
        ),
        "e": Key("ends", lambda row: row["ends"] or 0),
        "i": Key("array_job_id array_task_id", by_id),
        "l": Key("limit_s", lambda row: row["limit_s"] or NEVER),
        "L": Key(f"limit_s {USED}", lambda row: (row["limit_s"] or NEVER) - row["used_s"]),
        "m": Key("mem_per_node_bytes mem_per_cpu_bytes", _memory),
        "M": Key(USED, _column("used_s")),
        "N": Key("batch_host", lambda row: (not row["batch_host"], row["batch_host"])),
        "p": Key("priority_told", lambda row: row["priority_told"] or 0),
        "Q": Key("priority_told", lambda row: row["priority_told"] or 0),
        "S": Key(STARTS, lambda row: start_of(row) or NEVER),
        "t": Key("state", lambda row: row["state"]),
    }


def by_id(row: Row) -> tuple[int, float]:
    """Return the sort key (array job ID, task number). The pending tasks of an array come last."""
    task = row["array_task_id"]
    return row["array_job_id"], NEVER if task is None else task


def _memory(row: Row) -> int:
    return row["mem_per_node_bytes"] or row["mem_per_cpu_bytes"] or 0


def _column(name: str) -> Callable[[Row], Any]:
    return lambda row: row[name] or 0


def _text(field: Field) -> Key:
    return Key(field.needs, field.text)
