"""Format strings of Slurm's listing commands: `-o "%.18i %.9P"` with letters, `-O jobid:.18,name` with names.

A column is `%[[.]WIDTH]LETTER[SUFFIX]` or `NAME[:[.][WIDTH][SUFFIX]]`. A width pads and cuts the text. A
period aligns the text to the right; right-aligned times and node lists are not cut, and neither are the
titles of node lists. Without a width the text is printed unpadded, but a name without a colon has a width of
20.

The text before the first % is printed in every line. An unknown letter is reported and printed as it was
written. An unknown name is reported, and only its suffix is printed.

Source: squeue(1), sinfo(1), and the behavior of the commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

LONG_WIDTH = 20
"""Width of a -O name that gives no width."""
MAX_WIDTH = 10_000
"""Largest width of a column. A mistyped width must not exhaust the memory."""
ALL = "%all"
WHOLE_TITLES = frozenset({"NODELIST", "NODELIST(REASON)", "SCHEDNODES", "HOSTNAMES", "NODE_ADDR"})
"""Titles of node list columns, which are not cut. Titles of times are cut."""
_SHORT = re.compile(r"(\.?)(\d*)(.?)(.*)", re.DOTALL)
_LONG = re.compile(r"(\.?)(\d*)(.*)", re.DOTALL)

Row = dict[str, Any]
Complain = Callable[[str], None]
Fit = Callable[[str, int, bool], str]
"""Shortens a text to the width of its column. The flag says whether the column is aligned to the right."""


NULL = "(null)"
"""Text that C prints for a null string. In a narrower left-aligned column nothing is printed."""


def cut(text: str, width: int, right: bool) -> str:
    """Cut the text to the width. This is the rule for most fields."""
    return "" if text == NULL and width < len(NULL) and not right else text[:width]


def whole(text: str, width: int, right: bool) -> str:
    """Cut the text only if it is left-aligned. This is the rule for times and node lists."""
    return text if right else cut(text, width, right)


class SortKey(NamedTuple):
    """A sort key: the columns of a row that it reads, and the function that returns the value to compare."""

    needs: str
    value: Callable[[Row], Any]
    descending: bool = False


class TextField(NamedTuple):
    """A field that a listing command prints.

    It has a title, the columns of a row that it reads, its text, and the function that fits the text to a
    width. `letter` is its letter in -o, or "". `sort` is its sort key; None means that its text is compared.
    """

    title: str
    needs: str
    text: Callable[[Row], str]
    fit: Fit = cut
    letter: str = ""
    sort: SortKey | None = None

    def key(self) -> SortKey:
        """Return the key by which -S sorts."""
        return self.sort or SortKey(self.needs, self.text)


def fixed(title: str, text: str, letter: str = "", *, fit: Fit = cut) -> TextField:
    """Return a field with the same text in every row."""
    return TextField(title, "", lambda row: text, fit, letter)


def letters_of(fields: Mapping[str, TextField]) -> dict[str, str]:
    """Return the letters of -o and their fields in the order of %all, which has lowercase letters first."""
    named = {field.letter: name for name, field in fields.items() if field.letter}
    return {letter: named[letter] for letter in sorted(named, key=str.swapcase)}


class FormatColumn(NamedTuple):
    """A field with its width and alignment. An empty `field` prints only `suffix`."""

    field: str
    width: int = 0
    right: bool = False
    suffix: str = ""


def short_columns(
    form: str, letters: Mapping[str, str], complain: Complain, *, keep_unknown: bool = True
) -> list[FormatColumn]:
    """Return the columns of a -o format. `letters` maps a letter to its field.

    An unknown letter is reported through `complain`. sprio also leaves it out of the line (`keep_unknown`
    false).
    """
    if form.lower() == ALL:
        last = list(letters)[-1]
        return [
            FormatColumn(field, suffix="" if letter == last else "|") for letter, field in letters.items()
        ]
    literal, *tokens = form.split("%") if form else [""]
    columns = [FormatColumn("", suffix=literal)] if literal else []
    for token in tokens:
        column = _short(token, letters, complain) if token else None
        if column is not None and (column.field or keep_unknown):
            columns.append(column)
    return columns


def _short(token: str, letters: Mapping[str, str], complain: Complain) -> FormatColumn:
    match = _SHORT.fullmatch(token)
    assert match is not None, "the pattern takes any text"
    point, width, letter, suffix = match.groups()
    if letter not in letters:
        complain(letter)
        return FormatColumn("", suffix=f"%{token}")
    return FormatColumn(letters[letter], min(int(width or 0), MAX_WIDTH), bool(point), suffix)


def long_columns(form: str, names: Mapping[str, str], complain: Complain) -> list[FormatColumn]:
    """Return the columns of a -O format. `names` maps a lowercase name to its field."""
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
            columns.append(FormatColumn("", suffix=suffix))
            continue
        size = min(int(width or 0), MAX_WIDTH) if colon else LONG_WIDTH
        columns.append(FormatColumn(field, size, bool(point), suffix))
    return columns


def needed(columns: Iterable[FormatColumn], fields: Mapping[str, TextField]) -> list[str]:
    """Return the columns of a row that the given columns read."""
    names = (name for column in columns if column.field for name in fields[column.field].needs.split())
    return list(dict.fromkeys(names))


class LineLayout:
    """Formats rows and titles as lines of text."""

    def __init__(self, columns: Sequence[FormatColumn], fields: Mapping[str, TextField]) -> None:
        printed = [column for column in columns if column.field]
        self._titles = [_title(fields[column.field].title, column) for column in printed]
        self._texts = [_fitted(fields[column.field], column) for column in printed]
        self._form = "".join(_form(column) for column in columns)

    def titles(self) -> str:
        return self._form % tuple(self._titles)

    def line(self, row: Row) -> str:
        return self._form % tuple([text(row) for text in self._texts])


def _form(column: FormatColumn) -> str:
    suffix = column.suffix.replace("%", "%%")
    if not column.field:
        return suffix
    return f"%{'' if column.right else '-'}{column.width}s{suffix}" if column.width else f"%s{suffix}"


def _title(title: str, column: FormatColumn) -> str:
    fit = whole if title in WHOLE_TITLES else cut
    return fit(title, column.width or MAX_WIDTH, column.right)


def _fitted(field: TextField, column: FormatColumn) -> Callable[[Row], str]:
    """Return a function that returns the field's text for the column, cut but not padded."""
    if not column.width:
        return field.text
    text, fit, width, right = field.text, field.fit, column.width, column.right
    return lambda row: fit(text(row), width, right)
