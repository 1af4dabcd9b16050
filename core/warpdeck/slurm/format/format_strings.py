"""The format strings of Slurm's viewers: `-o "%.18i %.9P"` with letters, `-O jobid:.18,name` with names.

A column is `%[[.]WIDTH]LETTER[SUFFIX]` or `NAME[:[.][WIDTH][SUFFIX]]`. A width pads and cuts; a point puts the text to the
right, where times and lists of nodes are not cut, and no title of such a list. Without a width (a name alone has 20) the
text is as long as it is. What comes before the first % stands in every line. A letter that there is not is complained of and
printed as it was written; of such a name only its suffix is. Source: squeue(1), sinfo(1), and the commands.
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
WHOLE_TITLES = frozenset({"NODELIST", "NODELIST(REASON)", "SCHEDNODES", "HOSTNAMES", "NODE_ADDR"})
"""Of lists of nodes; the titles of times are cut."""
_SHORT = re.compile(r"(\.?)(\d*)(.?)(.*)", re.DOTALL)
_LONG = re.compile(r"(\.?)(\d*)(.*)", re.DOTALL)

Row = dict[str, Any]
Complain = Callable[[str], None]


NULL = "(null)"
"""What C prints for no text; in a narrower column to the left it prints nothing."""


def cut(text: str, width: int, right: bool) -> str:
    """How most texts are made to fit."""
    return "" if text == NULL and width < len(NULL) and not right else text[:width]


def whole(text: str, width: int, right: bool) -> str:
    """To the right it is never cut: a time, a list of nodes."""
    return text if right else cut(text, width, right)


class Field(NamedTuple):
    """A thing that can be printed: its title, the columns of a row that it needs, its text, and how that fits a width."""

    title: str
    needs: str
    text: Callable[[Row], str]
    fit: Callable[[str, int, bool], str] = cut


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
        last = list(letters)[-1]
        return [Column(field, suffix="" if letter == last else "|") for letter, field in letters.items()]
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
        match = _LONG.fullmatch(rest)
        assert match is not None, "the pattern takes any text"
        point, width, suffix = match.groups()
        field = names.get(name.lower())
        if field is None:
            complain(name)
            columns.append(Column("", suffix=suffix))
            continue
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
        printed = [column for column in columns if column.field]
        self._titles = [_title(fields[column.field].title, column) for column in printed]
        self._texts = [_fitted(fields[column.field], column) for column in printed]
        self._form = "".join(_form(column) for column in columns)

    def titles(self) -> str:
        return self._form % tuple(self._titles)

    def line(self, row: Row) -> str:
        return self._form % tuple([text(row) for text in self._texts])


def _form(column: Column) -> str:
    suffix = column.suffix.replace("%", "%%")
    if not column.field:
        return suffix
    return f"%{'' if column.right else '-'}{column.width}s{suffix}" if column.width else f"%s{suffix}"


def _title(title: str, column: Column) -> str:
    fit = whole if title in WHOLE_TITLES else cut
    return fit(title, column.width or MAX_WIDTH, column.right)


def _fitted(field: Field, column: Column) -> Callable[[Row], str]:
    """The field's text for the column, not padded yet."""
    if not column.width:
        return field.text
    text, fit, width, right = field.text, field.fit, column.width, column.right
    return lambda row: fit(text(row), width, right)
