"""Columns as Slurm's accounting commands print them: --format=jobid%20,jobname%-10, -P and -p. Source: print_fields.c. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from warpdeck.slurm.console.console import Console

MAX_WIDTH = 10_000
_WIDTH = re.compile(r"\s*([+-]?\d{1,9})")


class PrintedColumn(NamedTuple):
    """A field in its width; one below 0 puts the text to the left."""

    name: str
    width: int


class Style(NamedTuple):
    """`parsable` "": padded columns; else the delimiter, and whether it stands at the end of lines too."""

    delimiter: str = ""
    ends: bool = False
    header: bool = True


def last_of_formats(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options that were found, of -p and -P the one that came last."""
    given: dict[str, str] = {}
    for name, value in found:
        if name in ("parsable", "parsable2"):
            given.pop("parsable", None)
            given.pop("parsable2", None)
        given[name] = value
    return given


class UnknownField(ValueError):
    """The field that there is not."""


def columns_of(form: str, widths: Mapping[str, int]) -> list[PrintedColumn]:
    """The columns of a --format; `widths` has all fields by name. Raises UnknownField.

    The first that begins with a word is meant, in any case: elap, nnod.
    """
    found: list[PrintedColumn] = []
    for word in form.split(","):
        if not word.strip():
            continue
        given, width = width_of(word)
        if given.lower() == "all":
            found += [PrintedColumn(name, width) for name, width in widths.items()]
            continue
        name = _beginning(given, widths)
        if not name:
            raise UnknownField(given)
        found.append(PrintedColumn(name, max(-MAX_WIDTH, min(MAX_WIDTH, width or widths[name]))))
    return found


def width_of(word: str) -> tuple[str, int | None]:
    """(field, width) of jobid%20; None without a %. As in Slurm what is no number is 0, and what stands behind one is nothing."""
    name, is_given, text = word.strip().partition("%")
    match = _WIDTH.match(text)
    return name, (int(match[1]) if match is not None else 0) if is_given else None


def with_one_width(
    columns: Iterable[PrintedColumn], form: str, *, zero_counts: bool = True
) -> list[PrintedColumn]:
    """As sacct and sstat have it: a field that comes twice has the width that was said last. In sacct %0 is a width."""
    columns = list(columns)
    said = [width_of(word)[1] for word in form.split(",") if word.strip()]
    if len(said) != len(columns):  # all of them
        return columns
    widths: dict[str, int] = {}
    for column, width in zip(columns, said, strict=True):
        if width or (width is not None and zero_counts):
            widths[column.name] = 0 if width == 0 else column.width
    return [column._replace(width=widths.get(column.name, column.width)) for column in columns]


def _beginning(word: str, widths: Mapping[str, int]) -> str:
    begins = word.lower()
    return next((name for name in widths if begins and name.lower().startswith(begins)), "")


def print_header(
    console: Console,
    columns: Iterable[PrintedColumn],
    style: Style,
    *,
    titles: Mapping[str, str] | None = None,
) -> None:
    """The titles, and without a delimiter a line of dashes below."""
    if not style.header:
        return
    columns = list(columns)
    names = [(titles or {}).get(column.name, column.name) for column in columns]
    if style.delimiter:
        console.print_lines([_joined(names, style)])
        return
    titles_cut = (
        _padded(name[: abs(column.width)], column) for name, column in zip(names, columns, strict=True)
    )
    console.print_lines(["".join(titles_cut), "".join("-" * abs(column.width) + " " for column in columns)])


def print_row(
    console: Console,
    columns: Iterable[PrintedColumn],
    values: Iterable[str],
    style: Style,
    *,
    whole: frozenset[str] = frozenset(),
    moments: frozenset[str] = frozenset(),
) -> None:
    """One line. What is too long for its column ends with a +; `moments` are just cut, behind a delimiter too; `whole` is not."""
    cells = []
    for value, column in zip(values, columns, strict=True):
        width = abs(column.width)
        if column.name in moments:
            value = value[:width]
        elif not style.delimiter:
            value = (
                _cut(value, width) if column.name not in whole else value or " "
            )  # a number is never nothing
        cells.append(value if style.delimiter else _padded(value, column))
    console.print_lines([_joined(cells, style) if style.delimiter else "".join(cells)])


def _joined(values: list[str], style: Style) -> str:
    return style.delimiter.join(values) + (style.delimiter if style.ends else "")


def _cut(value: str, width: int) -> str:
    return value if len(value) <= width else value[: width - 1] + "+" if width else ""


def _padded(text: str, column: PrintedColumn) -> str:
    return (text.ljust(-column.width) if column.width < 0 else text.rjust(column.width)) + " "


def print_names(console: Console, names: Iterable[str], *, width: int = 19, across: int = 4) -> None:
    """--helpformat: the names, so many a line."""
    names = list(names)
    for at in range(0, len(names), across):
        row = names[at : at + across]
        console.print_lines([" ".join(f"{name:<{width}}" for name in row)])
