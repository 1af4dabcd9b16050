"""Text in a cell: removing control characters, measuring in terminal columns, cutting and padding.

Names of jobs and users are written by other people. A control character in one must never reach this
terminal, because it could move the cursor or write the clipboard.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rich.cells import cell_len, set_cell_size

from .glyphs import ELLIPSIS


class Gauge(NamedTuple):
    """A percentage that a table draws as a thin bar before its text, if the column has space for it."""

    text: str
    style: str
    percent: int


Cell = str | tuple[str, str] | Gauge
"""Text, text with the role of its style, or a percentage."""
Align = Literal["left", "right", "center"]
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
LEAST_BOTH_ENDS = 8
"""Least width in which both ends of a text are shown. In a narrower one they would be unreadable."""


def text_of(cell: Cell) -> str:
    """Return the text of a cell."""
    return cell if isinstance(cell, str) else cell[0]


def role_of(cell: Cell) -> str:
    """Return the role of a cell, or "" if it has none."""
    return "" if isinstance(cell, str) else cell[1]


def printable(text: str) -> str:
    """Return the text with all characters replaced that would control a terminal.

    They are control characters, direction overrides and line ends.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else " " if each.isspace() else REPLACEMENT for each in text)


def shortened(text: str, width: int) -> str:
    """Return the text, cut with an ellipsis if it is wider than `width`."""
    return text if cell_len(text) <= width else fit(text, width)


def with_both_ends(text: str, width: int) -> str:
    """Return the text with an ellipsis in its middle if it is wider than `width`, such as "resnet-i…seed-3".

    Names of similar jobs often differ only at their end.
    """
    if width < LEAST_BOTH_ENDS or cell_len(text) <= width:
        return text
    tail = len(text)
    while cell_len(text[tail - 1 :]) <= (width - 1) // 2:
        tail -= 1
    return set_cell_size(text, width - 1 - cell_len(text[tail:])) + ELLIPSIS + text[tail:]


def fit(text: str, width: int, *, align: Align = "left") -> str:
    """Return the text in exactly `width` terminal columns, cut with an ellipsis or padded."""
    if width <= 0:
        return ""
    length = len(text) if text.isascii() else cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + ELLIPSIS
    padding = width - length
    left = {"left": 0, "right": padding, "center": padding // 2}[align]
    return " " * left + text + " " * (padding - left)
