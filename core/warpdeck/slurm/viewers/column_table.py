"""Tables of the columns that squeue prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from warpdeck.slurm.fields.field import Field, Row, entry
from warpdeck.slurm.format.format_strings import SortKey, TextField, cut, whole

from .job_order import NEVER

NO_TITLE = "-"


def text_columns(text: str, fields: Mapping[str, Field]) -> dict[str, TextField]:
    """Return the columns of a table, which has one on each line: NAME[/LETTER] TITLE FIELD [whole] [number|last].

    FIELD is written as in `fields.field.table`, with its form or as a constant. `whole` columns are not cut if they are
    aligned to the right. -S sorts by the text, or with `number` and `last` by the value of the field. A missing value
    then counts as 0, or it comes last.
    """
    return dict(_column(*line.split(), fields=fields) for line in text.strip().splitlines())


def _column(
    words: str, title: str, source: str, *options: str, fields: Mapping[str, Field]
) -> tuple[str, TextField]:
    name, _, letter = words.partition("/")
    field = entry(f"{name}={source}", fields)[1]
    fit = whole if "whole" in options else cut
    key = None
    if "number" in options or "last" in options:
        key = _key(fields[source.partition("|")[0]], NEVER if "last" in options else 0)
    title = "" if title == NO_TITLE else title
    return name, TextField(title, field.needs, _text_of(field.value), fit, letter, key)


def _text_of(value: Callable[[Row], Any]) -> Callable[[Row], str]:
    return lambda row: "" if (found := value(row)) is None else str(found)


def _key(field: Field, none: float) -> SortKey:
    """Return the sort key of a field. `none` stands for a missing value."""
    value = field.value
    return SortKey(field.needs, lambda row: value(row) or none)
