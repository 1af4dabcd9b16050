"""Columns of a table, and the distribution of a line's width among them.

On a narrow terminal the columns with the highest rank are omitted first. Spare width goes to the flexible columns: at
first up to their `comfort`, then up to their `most`. So 200 columns are used, important texts are readable before bars
grow, and no column becomes too wide to read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .cells import Align

ROOMY = 110
"""From this width on, the gaps between columns are wider."""
FLEXIBLE_MIN = 20
"""Least width of a flexible column that has no width of its own. Below it, ranked columns are omitted."""
UNLIMITED = 1 << 16
MINOR_RANK = 3
"""From this rank on, a column is shown only if the others have a comfortable width."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `width` is in characters; 0 means the remaining width. Columns with `rank` above 0 are omitted on a narrow
    terminal, the highest rank first. `flex` is the column's share of spare width, up to `most` characters.
    `since` is the least width of the line at which the column appears. `comfort` is the width that the column gets
    before columns of a minor rank appear and before others grow. `key` identifies the column in messages and for sorting.
    A column that `keeps_ends` shows the beginning and the end of a text that is too long.
    """

    title: str
    width: int
    rank: int = 0
    key: str = field(default="", kw_only=True)
    flex: int = field(default=0, kw_only=True)
    most: int = field(default=UNLIMITED, kw_only=True)
    align: Align = field(default="left", kw_only=True)
    since: int = field(default=0, kw_only=True)
    comfort: int = field(default=0, kw_only=True)
    keeps_ends: bool = field(default=False, kw_only=True)

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
    """A column on the line: its index among all columns, its start and its width in characters."""

    column: int
    start: int
    width: int


def gap(width: int) -> int:
    """Return the number of blanks between two columns on a line of this width."""
    return 2 if width >= ROOMY else 1


def fitted(columns: Sequence[Column], widths: Mapping[str, int]) -> tuple[Column, ...]:
    """Return the columns with no more width than their texts need. `widths` are the widest texts by column."""
    return tuple(
        _fitted(column, max(widths[column.name], len(column.title) + 1)) if column.name in widths else column
        for column in columns
    )


def _fitted(column: Column, needed: int) -> Column:
    least = min(column.width, needed)
    return replace(
        column, width=least, most=max(least, min(column.most, needed)), comfort=min(column.comfort, needed)
    )


def layout(columns: Sequence[Column], width: int) -> tuple[Placed, ...]:
    """Return the columns that fit into `width` characters, in their order. At least one is always placed."""
    shown = _that_fit(columns, width)
    widths = {index: columns[index].least for index in shown}
    between = gap(width)
    spare = width - sum(widths.values()) - between * (len(shown) - 1)
    spare = _share(columns, widths, lambda column: column.comfort, spare=spare)
    _share(columns, widths, lambda column: column.most, spare=spare)
    placed, start = [], 0
    for index in shown:
        placed.append(Placed(index, start, min(widths[index], max(1, width - start))))
        start += widths[index] + between
    return tuple(placed)


def _that_fit(columns: Sequence[Column], width: int) -> list[int]:
    shown = [index for index in range(len(columns)) if columns[index].since <= width]

    def leave_out(wanted: Callable[[Column], int], *, rank: int) -> None:
        while sum(wanted(columns[index]) for index in shown) + gap(width) * (len(shown) - 1) > width:
            ranked = [index for index in shown if columns[index].rank >= rank]
            if not ranked or len(shown) == 1:
                return
            shown.remove(max(ranked, key=lambda index: (columns[index].rank, index)))

    leave_out(lambda column: max(column.least, column.comfort), rank=MINOR_RANK)
    leave_out(lambda column: column.least, rank=1)
    return shown


def _share(
    columns: Sequence[Column], widths: dict[int, int], limit: Callable[[Column], int], *, spare: int
) -> int:
    """Distribute spare characters among the flexible columns by weight, each up to its limit. Return the rest.

    If there are too few, reduce the first column without a width.
    """
    if spare < 0:
        for index in widths:
            if columns[index].width == 0:
                widths[index] = max(1, widths[index] + spare)
                return 0
    growing = [index for index in widths if columns[index].weight and widths[index] < limit(columns[index])]
    while spare > 0 and growing:
        total, given = sum(columns[index].weight for index in growing), 0
        for index in growing:
            room = limit(columns[index]) - widths[index]
            part = min(room, max(1, spare * columns[index].weight // total), spare - given)
            widths[index] += part
            given += part
        spare -= given
        growing = [index for index in growing if widths[index] < limit(columns[index])]
    return max(0, spare)
