"""Sort order of squeue's lines, for example `-S P,t,-p`.

An order is a list of the letters of -o, each with an optional + or -, the most important first. The job ID
breaks ties, so that two listings of the same queue are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpdeck.slurm.format.format_strings import Row, SortKey, TextField, letters_of

DEFAULT = "P,t,-p"
DEFAULT_START = "S"
NEVER = float("inf")
UNSORTED = frozenset("akoqrswxyAEFKRWXYZ")
"""Letters of -o that squeue cannot sort by."""


class SortError(Exception):
    """An unknown letter in a sort order."""


def parse(
    text: str, letters: Mapping[str, SortKey], aliases: Sequence[str] = (), *, is_strict: bool = True
) -> list[SortKey]:
    """Return the sort keys that a -S list names, the most important first.

    If `is_strict`, raises SortError with the last unknown letter. It is the last one because Slurm sorts by
    the last key first.
    """
    keys: list[SortKey] = []
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


def sort(rows: list[Row], keys: Sequence[SortKey], *, ties: Callable[[Row], Any]) -> None:
    """Sort `rows` in place by `keys`, then by `ties`."""
    rows.sort(key=ties)
    for key in reversed(keys):
        rows.sort(key=key.value, reverse=key.descending)


def job_keys(fields: Mapping[str, TextField]) -> dict[str, SortKey]:
    """Return the sort key of each letter of -o that squeue sorts by."""
    return {
        letter: fields[name].key() for letter, name in letters_of(fields).items() if letter not in UNSORTED
    }


def by_id(row: Row) -> tuple[int, float]:
    """Return the sort key (array job ID, task number). The pending tasks of an array come last."""
    task = row["array_task_id"]
    return row["array_job_id"], NEVER if task is None else task
