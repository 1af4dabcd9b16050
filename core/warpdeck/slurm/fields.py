"""The format strings of Slurm's viewers: `-o "%.18i %.9P"` with letters, `-O jobid:.18,name` with names.

A column is `%[[.]WIDTH]LETTER[SUFFIX]` or `NAME[:[.][WIDTH][SUFFIX]]`. A width pads and cuts, a point puts the text to the
right; without a width (a name alone has 20) the text is as long as it is. What comes before the first % stands in every
line. A letter that there is not is complained of and printed as it was written. Source: squeue(1), sinfo(1), and the commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

LONG_WIDTH = 20
"""Of a -O name without a width of its own."""
MAX_WIDTH = 10_000
"""Wider columns are cut to this: a slip must not fill the memory."""
ALL = "%all"
_SHORT = re.compile(r"(\.?)(\d*)(.?)(.*)", re.DOTALL)
_LONG = re.compile(r"(\.?)(\d*)(.*)", re.DOTALL)

Row = dict[str, Any]
Complain = Callable[[str], None]


class Field(NamedTuple):
    """A thing that can be printed: its title, the columns of a row that it needs, its text."""

    title: str
    needs: str
    text: Callable[[Row], str]


class Column(NamedTuple):
    """A field at its place in a line. `field` "" prints `suffix` alone."""

    field: str
    width: int = 0
    right: bool = False
    suffix: str = ""


def short_columns(
    form: str, letters: Mapping[str, str], complain: Complain, *, keep_unknown: bool = True
) -> list[Column]:
    """The columns of a -o format. `letters`: letter -> field. sprio leaves out what it complains of."""
    if form.lower() == ALL:
        return [Column(field, suffix="|") for field in letters.values()]
    literal, *tokens = form.split("%") if form else [""]
    columns = [Column("", suffix=literal)] if literal else []
    for token in tokens:
        column = _short(token, letters, complain) if token else None
        if column is not None and (column.field or keep_unknown):
            columns.append(column)
    return columns


def _short(token: str, letters: Mapping[str, str], complain: Complain) -> Column:
    match = _SHORT.fullmatch(token)
    assert match is not None, "the pattern takes any text"
    point, width, letter, suffix = match.groups()
    if letter not in letters:
        complain(letter)
        return Column("", suffix=f"%{token}")
    return Column(letters[letter], min(int(width or 0), MAX_WIDTH), bool(point), suffix)


def long_columns(form: str, names: Mapping[str, str], complain: Complain) -> list[Column]:
    """The columns of a -O format. `names`: name in small letters -> field."""
    columns = []
    for token in form.split(","):
        if not token:
            continue
        name, colon, rest = token.partition(":")
        field = names.get(name.lower())
        if field is None:
            complain(name)
            continue
        match = _LONG.fullmatch(rest)
        assert match is not None, "the pattern takes any text"
        point, width, suffix = match.groups()
        size = min(int(width or 0), MAX_WIDTH) if colon else LONG_WIDTH
        columns.append(Column(field, size, bool(point), suffix))
    return columns


def needed(columns: Iterable[Column], fields: Mapping[str, Field]) -> list[str]:
    """The columns of rows that these print."""
    names = (name for column in columns if column.field for name in fields[column.field].needs.split())
    return list(dict.fromkeys(names))


class Layout:
    """Columns as lines of text."""

    def __init__(self, columns: Sequence[Column], fields: Mapping[str, Field]) -> None:
        self._fields = [fields[column.field] for column in columns if column.field]
        self._form = "".join(_form(column) for column in columns)

    def titles(self) -> str:
        return self._form % tuple(field.title for field in self._fields)

    def line(self, row: Row) -> str:
        return self._form % tuple([field.text(row) for field in self._fields])


def _form(column: Column) -> str:
    suffix = column.suffix.replace("%", "%%")
    if not column.field:
        return suffix
    if not column.width:
        return f"%s{suffix}"
    return f"%{'' if column.right else '-'}{column.width}.{column.width}s{suffix}"
