"""Text in the layout of `scontrol show`: lines of Key=value pairs.

A layout is a text with the pairs of each line. A pair is written as in `field.table`: KEY=FIELD, KEY=FIELD|FORM, or KEY==TEXT
for a constant. A pair that ends with ? is left out if its value is empty, and a pair that ends with ! is printed with
--details only. A word that begins with @ names a field whose value is a list of whole lines. A line without any pair is
left out. For example:

    JobId=id ArrayJobId=array? JobName=name
    DerivedExitCode=derived_exit!
    StdIn==/dev/null
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .field import Field, Row, entry, needs_of

OPTIONAL, DETAIL, LINES = "?!@"


class _Pair(NamedTuple):
    key: str
    field: Field
    is_optional: bool = False
    is_detail: bool = False


class KeyLines:
    """A layout of pairs that are built from these fields."""

    def __init__(self, layout: str, fields: Mapping[str, Field]) -> None:
        self._lines = [[_pair(word, fields) for word in line.split()] for line in layout.strip().splitlines()]

    @property
    def needs(self) -> list[str]:
        """The columns of a row that the text needs."""
        return needs_of(pair.field for pairs in self._lines for pair in pairs)

    def lines(self, row: Row, *, details: bool = False) -> list[str]:
        """Return the lines of a row."""
        found: list[str] = []
        for pairs in self._lines:
            shown = [pair for pair in pairs if details or not pair.is_detail]
            if shown and shown[0].key.startswith(LINES):
                found += shown[0].field.value(row)
            elif texts := list(_texts(shown, row)):
                found.append(" ".join(texts))
        return found


def _pair(word: str, fields: Mapping[str, Field]) -> _Pair:
    bare = word.rstrip(OPTIONAL + DETAIL)
    key, field = entry(bare, fields) if "=" in bare else (bare, fields[bare.removeprefix(LINES)])
    marks = word[len(bare) :]
    return _Pair(key, field, OPTIONAL in marks, DETAIL in marks)


def _texts(pairs: list[_Pair], row: Row) -> Iterator[str]:
    for pair in pairs:
        value = pair.field.value(row)
        if value not in ("", None) or not pair.is_optional:
            yield f"{pair.key}={value}"
