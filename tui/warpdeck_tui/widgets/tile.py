"""The cells of the heat map and their drawing, from one line with a number to a small panel.

A tall cell has a colored title, a bar with the number, a sparkline, and a second bar. The first line shows the
color, so that a map of tall cells and a map of small ones are read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from rich.color import Color
from rich.segment import Segment
from rich.style import Style

from warpdeck_tui.table.palette import PLAIN, Palette

from .cells import fit, printable
from .glyphs import CURSOR, THICK, THICK_HALF, THIN, UNKNOWN
from .meter import HEAT_STEPS, share, tall_sparkline

TEXT_WIDTH = 5
TILE_MIN = TEXT_WIDTH + 2
TITLED_FROM = 12
"""Width from which on a cell of one line shows its title beside the number."""
NUMBER_WIDTH = 6
ASIDE_WIDTH = 6
MORE_WIDTH = 8
BAR_MIN = 3
BAR_MAX = 40
SPARK_HEIGHT = 3
"""Height from which on a cell has a sparkline."""
GAP_FROM = 5
"""Height from which on the last line of a cell stays empty."""
FAINT_LEVELS = (0, 1)
"""Steps of the ramp that are hardly visible as a text color."""
OWNER_INKS = (4, 2, 3, 5, 6, 1, 12, 10, 11, 13, 14, 9)
"""Numbers of the terminal colors for owners and jobs, in the order of their use."""
MIXED_WITH = {12: 5, 10: 3, 11: 1, 13: 1, 14: 2, 9: 7}
"""The color to mix with if a theme does not distinguish a bright color from the normal one."""
OWNER = "owner"
"""Prefix of the roles of owners and jobs: owner0, owner1, ..."""
IDLE = "idle"
"""Role of a GPU that is allocated but not used."""


class GridCell(NamedTuple):
    """A cell: its node and GPU index, its value as text, and the step of the heat ramp or -1 if unknown.

    `role` replaces the color of the ramp. `points` are percentages for the sparkline, the newest last, and `aside` is
    the text beside it. `more` is the text beside the second bar.
    """

    key: tuple[str, int]
    text: str
    level: int
    percent: float | None = None
    title: str = ""
    role: str = ""
    points: tuple[float | None, ...] = ()
    aside: str = ""
    more: str = ""
    more_percent: float | None = None
    number: str = ""
    """The value as a tall cell shows it, if it differs from `text`."""
    wide: bool = False
    """Whether the cell takes half of a node's line. Cells of CPUs and memory do."""

    def changed_lines(self, other: GridCell, height: int) -> Iterator[int]:
        """Yield the lines of a cell of this height on which the two cells differ."""
        head = self.level != other.level or self.role != other.role
        text = (self.text, self.number, self.percent) != (other.text, other.number, other.percent)
        if head or self.title != other.title or (text and (height == 1 or not self.title)):
            yield 0
        if height == 1:
            return
        if head or text:
            yield 1
        first, end = graph_lines(height)
        if self.points != other.points or self.aside != other.aside:
            yield from range(first, end)
        if height > end and (self.more != other.more or self.more_percent != other.more_percent):
            yield end


def graph_lines(height: int) -> tuple[int, int]:
    """Return the first line of the sparkline, and the line after its last one."""
    if height < SPARK_HEIGHT:
        return height, height
    return 2, max(3, height - 1 - (height >= GAP_FROM))


def tile_line(
    cell: GridCell, line: int, *, width: int, height: int, here: bool, styles: Palette
) -> list[Segment]:
    """Return one line of the cell, in exactly `width` columns. `here` is true under the cursor."""
    if line == 0:
        return _head(cell, width=width, height=height, here=here, styles=styles)
    edge = Segment(CURSOR if here else " ", styles.get("cursor-sign", PLAIN))
    inner = width - 2
    first, end = graph_lines(height)
    if line == 1:
        body = _bar(cell.percent, _number(cell), NUMBER_WIDTH, inner, _ink(cell, styles), styles)
    elif first <= line < end:
        body = _graph(cell, line - first, end - first, inner, styles)
    elif line == end and (cell.more or cell.more_percent is not None):
        body = _bar(
            cell.more_percent, cell.more, MORE_WIDTH, inner, styles.get("muted", PLAIN), styles, muted=True
        )
    else:
        return [Segment(" " * width)]
    return [edge, *body, Segment(" ")]


def tile_style(cell: GridCell, styles: Palette) -> Style:
    """Return the style of the colored part of the cell."""
    if cell.role:
        return role_style(cell.role, styles)
    if cell.level >= 0:
        return styles.get(f"heat{min(cell.level, HEAT_STEPS - 1)}", PLAIN)
    return styles.get("muted" if cell.text.strip() == "?" else "warn", PLAIN)


def role_style(role: str, styles: Palette) -> Style:
    """Return the style of a role, which may be that of an owner or of idle GPUs."""
    if role.startswith(OWNER):
        return owner_style(int(role.removeprefix(OWNER)), styles) + Style(reverse=True)
    if role == IDLE:
        return styles.get("warn", PLAIN) + Style(reverse=True, bold=True)
    return styles.get(role, PLAIN)


def owner_style(number: int, styles: Palette) -> Style:
    """Return the color of an owner or a job as a text color."""
    ink = OWNER_INKS[number % len(OWNER_INKS)]
    style = styles.get(f"ansi{ink}")
    if style is None:  # A terminal with 16 colors has these colors itself, so its palette does not name them.
        return Style(color=Color.from_ansi(ink))
    if ink in MIXED_WITH and style == styles.get(f"ansi{ink - 8}"):
        return _mixed(style, styles.get(f"ansi{MIXED_WITH[ink]}", style))
    return style


@lru_cache(maxsize=64)
def _mixed(first: Style, second: Style) -> Style:
    """Return the mean of two text colors."""
    if first.color is None or second.color is None:
        return first
    one, two = first.color.get_truecolor(), second.color.get_truecolor()
    return Style(color=Color.from_rgb(*((a + b) / 2 for a, b in zip(one, two, strict=True))))


def _ink(cell: GridCell, styles: Palette) -> Style:
    """Return the color of the cell as a text color, for its bar."""
    style = tile_style(cell, styles)
    if style.reverse:
        return Style(color=style.color)
    return Style(color=style.bgcolor) if style.bgcolor is not None else style


def _head(cell: GridCell, *, width: int, height: int, here: bool, styles: Palette) -> list[Segment]:
    inner, text, title = width - 2, printable(cell.text).strip(), printable(cell.title)
    if height > 1 and title:
        shown = fit(title, inner)
    elif title and width >= TITLED_FROM:
        # The title names the owner or the job already, so the value beside it is the utilization.
        if cell.role.startswith(OWNER):
            text = "" if cell.percent is None else f"{cell.percent:.0f}%"
        text = "" if text == title else text.replace(UNKNOWN, "")
        shown = fit(f"{fit(title, inner - len(text) - 1)} {text}", inner)
    else:
        shown = fit(printable(cell.text), inner, align="center")
    # Brackets in addition to the reversed colors make the cursor visible without colors.
    if here:
        return [Segment(f"[{shown}]", Style(reverse=True, bold=True))]
    return [Segment(f" {shown}", tile_style(cell, styles)), Segment(" ")]


def _number(cell: GridCell) -> str:
    return printable(cell.number) or printable(cell.text).replace("*", "").strip()


def _bar(
    percent: float | None,
    text: str,
    text_width: int,
    width: int,
    ink: Style,
    styles: Palette,
    *,
    muted: bool = False,
) -> list[Segment]:
    """Return a thin bar and the right-aligned text beside it, or only the text if there is no space or no value."""
    style = styles.get("muted", PLAIN) if muted or percent is None else PLAIN
    text_width = max(text_width, len(text) + 1)
    room = min(BAR_MAX, width - text_width)
    if percent is None or room < BAR_MIN:
        return [Segment(fit(text, width, align="right" if percent is not None else "left"), style)]
    halves = round(share(percent) * room * 2)
    halves = max(1, halves) if percent > 0 else 0
    full = THICK * (halves // 2) + THICK_HALF * (halves % 2)
    empty = THIN * (room - len(full))
    rest = " " * (width - room - text_width)
    return [
        Segment(full, ink),
        Segment(empty, styles.get("track", PLAIN)),
        Segment(fit(text, text_width, align="right") + rest, style),
    ]


def _graph(cell: GridCell, line: int, lines: int, width: int, styles: Palette) -> list[Segment]:
    """Return a line of the sparkline. The text beside it is on its last line."""
    room = width - ASIDE_WIDTH if cell.aside else width
    if room < BAR_MIN or not cell.points:
        room = 0
    drawn = tall_sparkline(cell.points, room, lines)[line] if room else ""
    aside = cell.aside if line == lines - 1 else ""
    if not room:
        return [Segment(fit(aside, width, align="right"), styles.get("muted", PLAIN))]
    return [
        Segment(drawn, styles.get("accent", PLAIN) if cell.level in FAINT_LEVELS else _ink(cell, styles)),
        Segment(fit(aside, width - room, align="right"), styles.get("muted", PLAIN)),
    ]
