"""Columns of a table, and how they share a line.

A narrow terminal loses the columns of the highest rank first; on a wide one the flexible columns grow, each up to its
`most`, so that 200 columns are used and none is stretched beyond reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .cells import Align

ROOMY = 110
"""From so many characters on columns stand further apart."""
FLEXIBLE_MIN = 20
"""A flexible column without a width of its own gets at least this; below it, ranked columns make room."""
UNLIMITED = 1 << 16


@dataclass(frozen=True)
class Column:
    """`width` in characters, 0: what is left. `rank` above 0: left out on a narrow terminal, the highest first.

    `flex`: its part of the spare width, up to `most` characters. `since`: the width of the line from which on it is there.
    `key` names it in messages and for sorting.
    """

    title: str
    width: int
    rank: int = 0
    key: str = field(default="", kw_only=True)
    flex: int = field(default=0, kw_only=True)
    most: int = field(default=UNLIMITED, kw_only=True)
    align: Align = field(default="left", kw_only=True)
    since: int = field(default=0, kw_only=True)

    @property
    def name(self) -> str:
        return self.key or self.title

    @property
    def weight(self) -> int:
        return self.flex or int(self.width == 0)

    @property
    def least(self) -> int:
        return self.width or FLEXIBLE_MIN


class Placed(NamedTuple):
    """A column on the line: its position among all, where it starts, how wide it is."""

    column: int
    start: int
    width: int


def gap(width: int) -> int:
    """Blank characters between two columns on a line of that width."""
    return 2 if width >= ROOMY else 1


def layout(columns: Sequence[Column], width: int) -> tuple[Placed, ...]:
    """The columns that fit into `width` characters, in their order. At least one is always placed."""
    shown = _that_fit(columns, width)
    widths = {index: columns[index].least for index in shown}
    between = gap(width)
    spare = width - sum(widths.values()) - between * (len(shown) - 1)
    _share(columns, widths, spare=spare)
    placed, start = [], 0
    for index in shown:
        placed.append(Placed(index, start, min(widths[index], max(1, width - start))))
        start += widths[index] + between
    return tuple(placed)


def _that_fit(columns: Sequence[Column], width: int) -> list[int]:
    shown = [index for index in range(len(columns)) if columns[index].since <= width]
    while (
        len(shown) > 1
        and sum(columns[index].least for index in shown) + gap(width) * (len(shown) - 1) > width
    ):
        ranked = [index for index in shown if columns[index].rank > 0]
        if not ranked:
            break
        shown.remove(max(ranked, key=lambda index: (columns[index].rank, index)))
    return shown


def _share(columns: Sequence[Column], widths: dict[int, int], *, spare: int) -> None:
    """Gives the spare characters to the flexible columns by weight; takes a lack from those without a width."""
    if spare < 0:
        for index in widths:
            if columns[index].width == 0:
                widths[index] = max(1, widths[index] + spare)
                return
    growing = [index for index in widths if columns[index].weight]
    while spare > 0 and growing:
        total, given = sum(columns[index].weight for index in growing), 0
        for index in growing:
            room = columns[index].most - widths[index]
            part = min(room, max(1, spare * columns[index].weight // total), spare - given)
            widths[index] += part
            given += part
        spare -= given
        growing = [index for index in growing if widths[index] < columns[index].most]
