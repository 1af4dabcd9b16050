"""Columns as Slurm's accounting commands print them: --format=jobid%20,jobname%-10, -P and -p.

Source: Slurm's print_fields.c.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from warpdeck.slurm.console.console import CommandError, Console

MAX_WIDTH = 10_000
NO_WIDTHS: Mapping[str, int] = {}
_WIDTH = re.compile(r"\s*([+-]?\d{1,9})")


class PrintedColumn(NamedTuple):
    """A field and its width. A negative width aligns the text to the left."""

    name: str
    width: int


class Style(NamedTuple):
    """Output style of a table.

    If `delimiter` is empty, the columns are padded with spaces. Otherwise the delimiter separates the values,
    and with `ends` it also follows the last one.
    """

    delimiter: str = ""
    ends: bool = False
    header: bool = True


def last_of_formats(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the parsed options by name. Of -p and -P, only the last one is kept."""
    given: dict[str, str] = {}
    for name, value in found:
        if name in ("parsable", "parsable2"):
            given.pop("parsable", None)
            given.pop("parsable2", None)
        given[name] = value
    return given


def style_of(given: Collection[str], delimiter: str = "") -> Style:
    """Return the style of the options -p, -P and -n. `last_of_formats` keeps their names."""
    is_parsable = "parsable" in given or "parsable2" in given
    return Style(
        (delimiter or "|") if is_parsable else "",
        ends="parsable2" not in given,
        header="noheader" not in given,
    )


def columns_of(
    form: str, widths: Mapping[str, int], *, newer: Mapping[str, int] = NO_WIDTHS, knows_all: bool = True
) -> list[PrintedColumn]:
    """Return the columns of a --format value.

    `widths` maps each field to its default width. Raises CommandError for an unknown field.

    A name may be shortened and written in any case, such as elap or nnod. It stands for the first field that
    begins with it. With `knows_all`, "all" stands for all fields. `newer` has fields that are not among them and
    that an abbreviation means only if it means no other field.
    """
    found: list[PrintedColumn] = []
    for word in form.split(","):
        if not word.strip():
            continue
        given, width = width_of(word)
        if knows_all and given.lower() == "all":
            found += [PrintedColumn(name, width) for name, width in widths.items()]
            continue
        name = _beginning(given, widths) or _beginning(given, newer)
        if not name:
            raise CommandError(f'Invalid field requested: "{given}"')
        found.append(PrintedColumn(name, max(-MAX_WIDTH, min(MAX_WIDTH, width or {**newer, **widths}[name]))))
    return found


def width_of(word: str) -> tuple[str, int | None]:
    """Split a word such as jobid%20 into (field, width). The width is None without a %.

    As in Slurm, a width that is no number is 0, and text after the number is ignored.
    """
    name, is_given, text = word.strip().partition("%")
    match = _WIDTH.match(text)
    return name, (int(match[1]) if match is not None else 0) if is_given else None


def with_one_width(
    columns: Iterable[PrintedColumn], form: str, *, zero_counts: bool = True
) -> list[PrintedColumn]:
    """Give each field that occurs several times the last width that was given for it, as sacct and sstat do.

    With `zero_counts`, %0 sets the width to 0. That is so in sacct only.
    """
    columns = list(columns)
    said = [width_of(word)[1] for word in form.split(",") if word.strip()]
    if len(said) != len(columns):  # The format contains "all".
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
    """Print the titles. Without a delimiter, also print a line of dashes below them."""
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
    """Print one line.

    A text that is too long for its column ends with a +. Columns in `moments` are cut without a +, even with
    a delimiter. Columns in `whole` are never cut.
    """
    cells = []
    for value, column in zip(values, columns, strict=True):
        width = abs(column.width)
        if column.name in moments:
            value = value[:width]
        elif not style.delimiter:
            value = (
                _cut(value, width) if column.name not in whole else value or " "
            )  # Slurm prints a space for an empty number.
        cells.append(value if style.delimiter else _padded(value, column))
    console.print_lines([_joined(cells, style) if style.delimiter else "".join(cells)])


def _joined(values: list[str], style: Style) -> str:
    return style.delimiter.join(values) + (style.delimiter if style.ends else "")


def _cut(value: str, width: int) -> str:
    return value if len(value) <= width else value[: width - 1] + "+" if width else ""


def _padded(text: str, column: PrintedColumn) -> str:
    return (text.ljust(-column.width) if column.width < 0 else text.rjust(column.width)) + " "


def print_names(console: Console, names: Iterable[str], *, width: int = 19, across: int = 4) -> None:
    """Print the field names for --helpformat, `across` names per line."""
    names = list(names)
    for at in range(0, len(names), across):
        row = names[at : at + across]
        console.print_lines([" ".join(f"{name:<{width}}" for name in row)])
