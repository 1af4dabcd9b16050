"""A heat map of nodes x GPUs in one widget, with a cursor.

Each node has one or more lines, and each GPU has a tile. Tiles grow with the terminal. On a narrow one they
have five characters; on a wide one they have a bar beside the number. The tiles of a node that do not fit on
one line continue on the next. Each tile also shows its value as text, not only as a color. Only tiles with
changed content are written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Offset, Region
from textual.message import Message
from textual.strip import Strip

from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.table.palette import PLAIN, Palette

from .cells import fit, printable
from .glyphs import CURSOR
from .line_view import LineView
from .lines import blank, finished
from .meter import HEAT_STEPS, bar

GridCell = tuple[tuple[str, int], str, int] | tuple[tuple[str, int], str, int, float | None]
"""A cell: (node, GPU index), text, step of the heat ramp or -1 if unknown, and optionally the percentage for
a bar.
"""
GridLine = tuple[str, tuple[GridCell, ...]]
"""A line: the node's label, which is its name and state, and its cells."""

GUTTER_WIDTH = 1
NAME_MIN = 8
NAME_MAX = 24
STATE_WIDTH = 11
"""Width of the longest state of sinfo, and a space."""
TEXT_WIDTH = 5
TILE_MIN = TEXT_WIDTH + 2
TILE_MAX = 22
"""A longer bar would not be more readable."""
BAR_MIN = 3
HEADER_LINES = 1
WHEEL_LINES = 2
NO_CELLS = "no GPU"


class _Place(NamedTuple):
    """A line on the screen: the index of its node, and the range of the node's cells that it shows."""

    node: int
    first: int
    last: int


class CellGrid(LineView):
    """The heat map. To switch the metric, the owner passes other cells."""

    place = "grid"
    BINDINGS: ClassVar[list[BindingType]] = bindings("grid")

    class _About(Message):
        """Base class of the messages about the cell under the cursor."""

        def __init__(self, grid: CellGrid) -> None:
            super().__init__()
            self.grid = grid

        @property
        def control(self) -> CellGrid:
            return self.grid

    class Moved(_About):
        """Posted when the cursor moves to another cell."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, CellGrid.Moved) and message.grid is self.grid

    class Selected(_About):
        """Posted for Enter or a double click on the cell under the cursor."""

    def __init__(self, styles: Palette, *, id: str = "", legend: str = "", bars: bool = True) -> None:
        """Create the grid.

        `bars` is true if bars are drawn beside the numbers; bars cause most of the changes on the screen.
        """
        super().__init__(styles, id=id)
        self._bars = bars
        self._legend, self._ramp, self._empty = legend, True, ""
        self._lines: list[GridLine] = []
        self._places: list[_Place] = []
        self._tile = TILE_MIN
        self._name_width = NAME_MAX
        self._label_width = GUTTER_WIDTH + NAME_MAX + STATE_WIDTH
        self._row = self._column = 0

    @property
    def cursor(self) -> tuple[str, int]:
        """The node and the GPU index under the cursor.

        The index is -1 on a node without GPUs; on an empty grid this is ("", -1).
        """
        if not self._lines:
            return "", -1
        label, cells = self._lines[self._row]
        if not cells:
            return label.partition(" ")[0], -1
        return cells[min(self._column, len(cells) - 1)][0]

    def go_to(self, node: str) -> bool:
        """Move the cursor to this node. Return False if it does not exist."""
        names = [label.partition(" ")[0] for label, _ in self._lines]
        if node not in names:
            return False
        self._go(names.index(node), self._column)
        return True

    def show(
        self, lines: Sequence[GridLine], *, legend: str | None = None, ramp: bool = True, empty: str = ""
    ) -> None:
        """Show new values. The cursor stays on its GPU.

        `ramp` is true if the colors go from low to high. `legend` replaces the text of the legend. `empty`
        is shown if there are no lines.
        """
        if (ramp, legend or self._legend, empty) != (self._ramp, self._legend, self._empty):
            self._ramp, self._legend, self._empty = ramp, legend or self._legend, empty
            self.refresh()
        cursor, before, places = self.cursor, self._lines, self._places
        self._lines = list(lines)
        self._follow(cursor)
        self.rearrange()
        if places != self._places or [line[0] for line in before] != [line[0] for line in self._lines]:
            self.refresh()
        elif regions := tuple(self._changed(before)):
            self.refresh(*regions)
        if cursor != self.cursor:
            self.post_message(self.Moved(self))

    # Layout

    def _follow(self, cursor: tuple[str, int]) -> None:
        node, _ = cursor
        for row, (label, cells) in enumerate(self._lines):
            if label.partition(" ")[0] == node:
                self._row = row
                keys = [cell[0] for cell in cells]
                self._column = keys.index(cursor) if cursor in keys else self._column
                return
        self._row = max(0, min(self._row, len(self._lines) - 1))

    def rearrange(self) -> None:
        """Compute the width of a tile, the number of tiles on a line, and the cells of each line."""
        most = max((len(cells) for _, cells in self._lines), default=1) or 1
        longest = max((len(label.partition(" ")[0]) for label, _ in self._lines), default=0)
        for_names = self.line_width - most * TILE_MIN - GUTTER_WIDTH - STATE_WIDTH
        self._name_width = max(NAME_MIN, min(longest + 2, for_names, NAME_MAX))
        self._label_width = GUTTER_WIDTH + self._name_width + STATE_WIDTH
        room = max(TILE_MIN, self.line_width - self._label_width)
        widest = TILE_MAX if self._has_bars() else TILE_MIN + 2
        self._tile = max(TILE_MIN, min(widest, room // most))
        in_line = max(1, room // self._tile)
        self._places = [
            _Place(node, first, min(first + in_line, len(cells)))
            for node, (_, cells) in enumerate(self._lines)
            for first in range(0, max(1, len(cells)), in_line)
        ]
        self.set_content_rows(len(self._places) + HEADER_LINES)

    def _has_bars(self) -> bool:
        return self._bars and any(
            len(cell) > 3 and cell[3] is not None for _, cells in self._lines for cell in cells
        )

    def _changed(self, before: Sequence[GridLine]) -> Iterator[Region]:
        """Yield regions of adjacent tiles that differ."""
        top = self.scroll_offset.y
        for y in range(HEADER_LINES, self.size.height):
            if y - HEADER_LINES + top >= len(self._places):
                return
            node, first, last = self._places[y - HEADER_LINES + top]
            old, new = before[node][1], self._lines[node][1]
            differ = [at for at in range(first, last) if old[at] != new[at]]
            if differ:
                start = self._label_width + (differ[0] - first) * self._tile
                yield Region(start, y, (differ[-1] - differ[0] + 1) * self._tile, 1)

    def _place_of_cursor(self) -> int:
        column = self._bounded_column()
        return next(
            (
                at
                for at, place in enumerate(self._places)
                if place.node == self._row and place.first <= column < max(place.last, place.first + 1)
            ),
            0,
        )

    def _bounded_column(self) -> int:
        cells = self._lines[self._row][1] if self._lines else ()
        return max(0, min(self._column, len(cells) - 1))

    # Painting

    def render_line(self, y: int) -> Strip:
        width = self.line_width
        if y < HEADER_LINES:
            return self._header(width)
        at = y - HEADER_LINES + self.scroll_offset.y
        if at < len(self._places):
            return self._node_line(self._places[at], width)
        if y == self.size.height - 1:
            return self._legend_line(width)
        if self._places or y != max(HEADER_LINES, self.size.height // 3):
            return blank(width, base=self.rich_style)
        words = fit(printable(self._empty), width, align="center")
        return finished([Segment(words, self._styles.get("muted", PLAIN))], width, base=self.rich_style)

    def _header(self, width: int) -> Strip:
        style = self._styles.get("header", PLAIN)
        text = " " * GUTTER_WIDTH + fit("NODE", self._name_width) + fit("STATE", STATE_WIDTH)
        in_line = max((place.last - place.first for place in self._places), default=0)
        text += "".join(
            fit(str(index), TILE_MIN, align="center").ljust(self._tile) for index in range(in_line)
        )
        return finished([Segment(fit(text, width), style)], width, base=self.rich_style)

    def _node_line(self, place: _Place, width: int) -> Strip:
        label, cells = self._lines[place.node]
        here = place.node == self._row
        segments = self._label(label, here=here) if not place.first else [Segment(" " * self._label_width)]
        for position in range(place.first, place.last):
            segments += self._tile_of(cells[position], here=here and position == self._bounded_column())
        if not cells:
            segments.append(Segment(NO_CELLS, self._styles.get("muted", PLAIN)))
        return finished(segments, width, base=self.rich_style)

    def _label(self, label: str, *, here: bool) -> list[Segment]:
        name, _, state = label.partition(" ")
        sign = CURSOR if here else " "
        return [
            Segment(sign, self._styles.get("cursor-sign", PLAIN)),
            Segment(
                fit(printable(name), self._name_width - 1) + " ",
                Style(bold=here or None),
            ),
            Segment(fit(printable(state), STATE_WIDTH - 1) + " ", self._styles.get(node_role(state), PLAIN)),
        ]

    def _tile_of(self, cell: GridCell, *, here: bool) -> list[Segment]:
        text, level = cell[1], cell[2]
        percent = cell[3] if len(cell) > 3 else None
        style = self._tile_style(text, level)
        shown = fit(printable(text), TEXT_WIDTH, align="center")
        # Brackets in addition to the reversed colors make the cursor visible without colors.
        number = (
            Segment(f"[{shown}]", Style(reverse=True, bold=True)) if here else Segment(f" {shown}", style)
        )
        gap = "" if here else " "
        width = self._tile - TILE_MIN - 1
        if width < BAR_MIN or level < 0 or percent is None:
            return [number, Segment(gap + " " * (self._tile - TILE_MIN))]
        # The bar and the gaps beside it are written with one foreground color. This takes half the bytes of a
        # bar with its own background.
        return [
            number,
            Segment(f"{gap}{bar(percent, width)} ", Style(color=style.bgcolor)),
        ]

    def _tile_style(self, text: str, level: int) -> Style:
        if level >= 0:
            return self._styles.get(f"heat{min(level, HEAT_STEPS - 1)}", PLAIN)
        return self._styles.get("muted" if text.strip() == "?" else "warn", PLAIN)

    def _legend_line(self, width: int) -> Strip:
        """Return the line below the last node: the ramp from cold to hot, and the text of the legend."""
        muted = self._styles.get("muted", PLAIN)
        segments, words = [Segment(" " * GUTTER_WIDTH, muted)], printable(self._legend)
        if self._ramp:
            segments.append(Segment("low ", muted))
            segments += [Segment("  ", self._styles.get(f"heat{step}", PLAIN)) for step in range(HEAT_STEPS)]
            words = f" high   {words}"
        room = max(0, width - sum(len(segment.text) for segment in segments))
        segments.append(Segment(fit(words, room), muted))
        return finished(segments, width, base=self.rich_style)

    # Moving

    def _go(self, row: int, column: int) -> None:
        before, old = self.cursor, self._place_of_cursor()
        self._row = max(0, min(row, len(self._lines) - 1))
        self._column = max(0, column)
        at, top, page = self._place_of_cursor(), self.scroll_offset.y, max(1, self.size.height - HEADER_LINES)
        if at < top:
            self.scroll_to(y=at, animate=False, force=True)
        elif at >= top + page:
            self.scroll_to(y=at - page + 1, animate=False, force=True)
        top = self.scroll_offset.y
        for each in {old, at}:
            self.refresh(Region(0, each - top + HEADER_LINES, self.line_width, 1))
        if self.cursor != before:
            self.post_message(self.Moved(self))

    @property
    def parked(self) -> Offset | None:
        line = self._place_of_cursor() - self.scroll_offset.y + HEADER_LINES
        if not self._places or not 0 <= line < self.size.height:
            return None
        place = self._places[self._place_of_cursor()]
        x = self._label_width + (self._bounded_column() - place.first) * self._tile
        return Offset(x, line)

    def action_move(self, by: int) -> None:
        self._go(self._row + by, self._column)

    def action_side(self, by: int) -> None:
        self._go(self._row, self._bounded_column() + by)

    def action_first(self) -> None:
        self._go(0, self._column)

    def action_last(self) -> None:
        self._go(len(self._lines) - 1, self._column)

    def action_page(self, pages: float) -> None:
        rows = max(1, int(abs(pages) * max(1, self.size.height - HEADER_LINES - 1)))
        self._go(self._row + (rows if pages > 0 else -rows), self._column)

    def action_select(self) -> None:
        if self._lines:
            self.post_message(self.Selected(self))

    # Events

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, WHEEL_LINES)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -WHEEL_LINES)

    def _wheel(self, event: events.MouseEvent, lines: int) -> None:
        event.stop()
        event.prevent_default()
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < HEADER_LINES:
            return
        at = offset.y - HEADER_LINES + self.scroll_offset.y
        if at < len(self._places):
            place = self._places[at]
            column = place.first + max(0, offset.x - self._label_width) // self._tile
            self._go(place.node, min(column, max(place.first, place.last - 1)))
            if event.chain == 2:
                self.action_select()


def node_role(state: str) -> str:
    """Return the style role for a node's state. It is borrowed from a job state with a similar meaning."""
    if state.startswith(("down", "drain")):
        return "FAILED" if state.startswith("down") else "PENDING"
    if state.startswith(("mix", "alloc")):
        return "RUNNING"
    return "" if state.startswith("idle") else "muted"
