"""A heat map of nodes x GPUs in one widget, with a cursor.

Each GPU has a cell (see `tile`). Cells grow with the terminal: on a small one, or with many nodes, each has one line
with its value; with more space they are panels of several lines. The cells of a node that do not fit beside each
other continue below. The line at the bottom explains the colors. Only changed lines of cells are written again.
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
from .meter import HEAT_STEPS
from .tile import GAP_FROM, TILE_MIN, GridCell, role_style, tile_line

Words = tuple[tuple[str, str], ...]
"""Pieces of a text as (text, role of its style)."""


class GridLine(NamedTuple):
    """A node: its name and state, its cells, and texts below its state where there is space."""

    label: str
    cells: tuple[GridCell, ...]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.label.partition(" ")[0]


def names(lines: Sequence[GridLine]) -> list[str]:
    """Return the names of the nodes."""
    return [line.name for line in lines]


GUTTER_WIDTH = 1
NAME_MIN = 8
NAME_MAX = 24
STATE_WIDTH = 11
"""Width of the longest state of sinfo, and a space."""
TILE_MAX = 24
"""Largest width of a cell of one line."""
PANEL_MIN, PANEL_MAX = 12, 44
"""Smallest and largest width of a cell of several lines."""
WIDE_MAX = 60
"""Largest width of a cell of CPUs or memory."""
HEIGHT_MAX = 10
"""Largest number of lines of a cell."""
PLAIN_HEIGHT_MAX = 3
"""Largest number of lines of a cell if no cell has a value."""
HEADER_LINES = 1
LEGEND_LINES = 1
WHEEL_LINES = 2
NO_CELLS = "no data"
WIDE_CELLS = 2
"""Number of cells of a node without GPUs: CPUs and memory."""


class _Place(NamedTuple):
    """A row of cells on the screen: the index of its node, and the range of the node's cells that it shows."""

    node: int
    first: int
    last: int


class _Layout(NamedTuple):
    """The sizes of the map. `tile` and `height` are those of a cell, and `in_line` cells are beside each other."""

    tile: int = TILE_MIN
    height: int = 1
    in_line: int = 1
    name_width: int = NAME_MAX
    label_width: int = GUTTER_WIDTH + NAME_MAX + STATE_WIDTH

    @property
    def wide(self) -> int:
        """Width of a wide cell."""
        return min(WIDE_MAX, max(TILE_MIN, self.tile * self.in_line // WIDE_CELLS))


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

        Without `bars` all cells have one line, because the other lines cause most of the changes on the screen.
        """
        super().__init__(styles, id=id)
        self._bars = bars
        self._legend: Words = ((legend, "muted"),)
        self._ramp, self._empty = "low", ""
        self._lines: list[GridLine] = []
        self._places: list[_Place] = []
        self._layout = _Layout()
        self._row = self._column = 0

    @property
    def cursor(self) -> tuple[str, int]:
        """The node and the GPU index under the cursor.

        The index is below 0 on a node without GPUs; on an empty grid this is ("", -1).
        """
        if not self._lines:
            return "", -1
        line = self._lines[self._row]
        if not line.cells:
            return line.name, -1
        return line.cells[min(self._column, len(line.cells) - 1)].key

    @property
    def cell_height(self) -> int:
        """The number of lines of a cell, as far as it is known from the cells that were shown last."""
        return self._layout.height

    def go_to(self, node: str) -> bool:
        """Move the cursor to this node. Return False if it does not exist."""
        known = names(self._lines)
        if node not in known:
            return False
        self._go(known.index(node), self._column)
        return True

    def show(
        self,
        lines: Sequence[GridLine],
        *,
        legend: Words | None = None,
        ramp: str = "low",
        empty: str = "",
    ) -> None:
        """Show new values. The cursor stays on its GPU.

        `ramp` is the text before the colors from low to high, or "" if there are none. `legend` replaces the text of
        the legend. `empty` is shown if there are no lines.
        """
        if (ramp, legend or self._legend, empty) != (self._ramp, self._legend, self._empty):
            self._ramp, self._legend, self._empty = ramp, legend or self._legend, empty
            self.refresh(Region(0, self.size.height - LEGEND_LINES, self.size.width, LEGEND_LINES))
            if not lines:
                self.refresh()
        cursor, before, layout, places = self.cursor, self._lines, self._layout, self._places
        self._lines = list(lines)
        self._follow(cursor)
        self.rearrange()
        if (layout, places) != (self._layout, self._places) or names(before) != names(lines):
            self.refresh()
        elif regions := tuple(self._changed(before)):
            self.refresh(*regions)
        if cursor != self.cursor:
            self.post_message(self.Moved(self))

    # Layout

    def _follow(self, cursor: tuple[str, int]) -> None:
        node, _ = cursor
        for row, line in enumerate(self._lines):
            if line.name == node:
                self._row = row
                keys = [cell.key for cell in line.cells]
                self._column = keys.index(cursor) if cursor in keys else self._column
                return
        self._row = max(0, min(self._row, len(self._lines) - 1))

    @property
    def _page(self) -> int:
        """The number of lines for cells."""
        return max(1, self.size.height - HEADER_LINES - LEGEND_LINES)

    def rearrange(self) -> None:
        """Compute the size of a cell, the number of cells beside each other, and the cells of each row."""
        most = max((len(line.cells) for line in self._lines if not _is_wide(line)), default=0) or WIDE_CELLS
        longest = max((len(line.name) for line in self._lines), default=0)
        self._layout = self._panels(most, longest) or self._small(most, longest)
        in_line = self._layout.in_line
        self._places = [
            _Place(node, first, min(first + step, len(line.cells)))
            for node, line in enumerate(self._lines)
            for step in (max(in_line, WIDE_CELLS) if _is_wide(line) else in_line,)
            for first in range(0, max(1, len(line.cells)), step)
        ]
        self.set_content_rows(len(self._places) * self._layout.height + HEADER_LINES + LEGEND_LINES)

    def _small(self, most: int, longest: int) -> _Layout:
        """Return the layout with cells of one line."""
        for_names = self.line_width - most * TILE_MIN - GUTTER_WIDTH - STATE_WIDTH
        name_width = max(NAME_MIN, min(longest + 2, for_names, NAME_MAX))
        label_width = GUTTER_WIDTH + name_width + STATE_WIDTH
        room = max(TILE_MIN, self.line_width - label_width)
        rows = -(-most // max(1, room // TILE_MIN))
        in_line = -(-most // rows)
        tile = max(TILE_MIN, min(TILE_MAX if self._bars else TILE_MIN + 2, room // in_line))
        return _Layout(tile, 1, in_line, name_width, label_width)

    def _panels(self, most: int, longest: int) -> _Layout | None:
        """Return the layout with the tallest cells with which all nodes fit on the screen, or None if none does.

        Cells without titles have nothing to show on several lines.
        """
        if not self._bars or not any(cell.title for line in self._lines for cell in line.cells):
            return None
        name_width = max(STATE_WIDTH, min(longest + 1, NAME_MAX))
        label_width = GUTTER_WIDTH + name_width
        room = self.line_width - label_width
        if room < PANEL_MIN:
            return None
        rows = -(-most // (room // PANEL_MIN))
        in_line = -(-most // rows)
        tile = min(PANEL_MAX, room // in_line)
        lines = sum(1 if _is_wide(line) else max(1, -(-len(line.cells) // in_line)) for line in self._lines)
        height = min(self._tallest(), self._page // lines)
        return _Layout(tile, height, in_line, name_width, label_width) if height > 1 else None

    def _tallest(self) -> int:
        """Return the largest useful height of a cell. Only a sparkline can fill more lines."""
        cells = [cell for line in self._lines for cell in line.cells]
        if any(cell.points for cell in cells):
            return HEIGHT_MAX
        return GAP_FROM if any(cell.percent is not None for cell in cells) else PLAIN_HEIGHT_MAX

    def _cell_width(self, cell: GridCell) -> int:
        return self._layout.wide if cell.wide else self._layout.tile

    def _changed(self, before: Sequence[GridLine]) -> Iterator[Region]:
        """Yield the lines of adjacent cells that differ."""
        height, width = self._layout.height, self.line_width
        for at, place in enumerate(self._places):
            top = HEADER_LINES + at * height - self.scroll_offset.y
            if top >= HEADER_LINES + self._page:
                return
            if top + height <= HEADER_LINES:
                continue
            old, new = before[place.node], self._lines[place.node]
            if old.label != new.label or (height > 1 and old.notes != new.notes):
                yield from self._visible(0, top, width, height)
                continue
            changed: dict[int, list[int]] = {}
            for position in range(place.first, place.last):
                if old.cells[position] is not new.cells[position]:
                    for line in new.cells[position].changed_lines(old.cells[position], height):
                        changed.setdefault(line, []).append(position - place.first)
            for line, positions in changed.items():
                wide = self._cell_width(new.cells[place.first])
                start = self._layout.label_width + positions[0] * wide
                yield from self._visible(start, top + line, (positions[-1] - positions[0] + 1) * wide, 1)

    def _visible(self, x: int, y: int, width: int, height: int) -> Iterator[Region]:
        """Yield the part of a region that is neither above nor below the cells."""
        first, end = max(y, HEADER_LINES), min(y + height, HEADER_LINES + self._page)
        if first < end:
            yield Region(x, first, width, end - first)

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
        cells = self._lines[self._row].cells if self._lines else ()
        return max(0, min(self._column, len(cells) - 1))

    # Painting

    def render_line(self, y: int) -> Strip:
        width = self.line_width
        if y < HEADER_LINES:
            return self._header(width)
        if y >= HEADER_LINES + self._page:
            return self._legend_line(width)
        at, line = divmod(y - HEADER_LINES + self.scroll_offset.y, self._layout.height)
        if at < len(self._places):
            return self._cell_line(self._places[at], line, width)
        if self._places or y != max(HEADER_LINES, self.size.height // 3):
            return blank(width, base=self.rich_style)
        words = fit(printable(self._empty), width, align="center")
        return finished([Segment(words, self._styles.get("muted", PLAIN))], width, base=self.rich_style)

    def _header(self, width: int) -> Strip:
        style, layout = self._styles.get("header", PLAIN), self._layout
        text = " " * GUTTER_WIDTH + fit("NODE", layout.name_width)
        text += fit("STATE", STATE_WIDTH) if layout.height == 1 else ""
        shown = [place for place in self._places if not _is_wide(self._lines[place.node])]
        in_line = max((place.last - place.first for place in shown), default=0)
        if layout.height > 1:
            text += "".join(fit(f" GPU {index}", layout.tile) for index in range(in_line))
        else:
            numbers = (fit(str(index), TILE_MIN, align="center") for index in range(in_line))
            text += "".join(number.ljust(layout.tile) for number in numbers)
        return finished([Segment(fit(text, width), style)], width, base=self.rich_style)

    def _cell_line(self, place: _Place, line: int, width: int) -> Strip:
        node, layout = self._lines[place.node], self._layout
        here = place.node == self._row
        segments = self._label(node, line, here=here and not place.first)
        if place.first:
            segments = [Segment(" " * layout.label_width)]
        for position in range(place.first, place.last):
            cell = node.cells[position]
            segments += tile_line(
                cell,
                line,
                width=self._cell_width(cell),
                height=layout.height,
                here=here and position == self._bounded_column(),
                styles=self._styles,
            )
        if not node.cells and not line:
            segments.append(Segment(NO_CELLS, self._styles.get("muted", PLAIN)))
        return finished(segments, width, base=self.rich_style)

    def _label(self, node: GridLine, line: int, *, here: bool) -> list[Segment]:
        """Return one line of the node's name, state and notes."""
        layout = self._layout
        _, _, state = node.label.partition(" ")
        is_marked = here and line < layout.height - (layout.height >= GAP_FROM)
        sign = Segment(CURSOR if is_marked else " ", self._styles.get("cursor-sign", PLAIN))
        name = Segment(fit(printable(node.name), layout.name_width - 1) + " ", Style(bold=here or None))
        state_style = self._styles.get(node_role(state), PLAIN)
        if layout.height == 1:
            return [sign, name, Segment(fit(printable(state), STATE_WIDTH - 1) + " ", state_style)]
        if line == 0:
            return [sign, name]
        if line == 1:
            return [sign, Segment(fit(printable(state), layout.name_width), state_style)]
        has_gap = layout.height >= GAP_FROM and line == layout.height - 1
        note = node.notes[line - 2] if line - 2 < len(node.notes) and not has_gap else ""
        return [sign, Segment(fit(printable(note), layout.name_width), self._styles.get("muted", PLAIN))]

    def _legend_line(self, width: int) -> Strip:
        """Return the line below the cells: the ramp from cold to hot, and the text of the legend."""
        muted = self._styles.get("muted", PLAIN)
        segments = [Segment(" " * GUTTER_WIDTH, muted)]
        if self._ramp:
            segments.append(Segment(f"{self._ramp} ", muted))
            segments += [Segment("  ", self._styles.get(f"heat{step}", PLAIN)) for step in range(HEAT_STEPS)]
            segments.append(Segment(" high   ", muted))
        for text, role in self._legend:
            room = max(0, width - sum(len(segment.text) for segment in segments))
            shown = printable(text)
            if room < len(shown):
                shown = fit(shown, room) if room else ""
            segments.append(Segment(shown, role_style(role, self._styles)))
        return finished(segments, width, base=self.rich_style)

    # Moving

    def _go(self, row: int, column: int) -> None:
        before, old = self.cursor, self._place_of_cursor()
        self._row = max(0, min(row, len(self._lines) - 1))
        self._column = max(0, column)
        at, top, page, height = self._place_of_cursor(), self.scroll_offset.y, self._page, self.cell_height
        if at * height < top:
            self.scroll_to(y=at * height, animate=False, force=True)
        elif (at + 1) * height > top + page:
            self.scroll_to(y=(at + 1) * height - page, animate=False, force=True)
        top = self.scroll_offset.y
        for each in {old, at}:
            for region in self._visible(0, each * height - top + HEADER_LINES, self.line_width, height):
                self.refresh(region)
        if self.cursor != before:
            self.post_message(self.Moved(self))

    @property
    def parked(self) -> Offset | None:
        line = self._place_of_cursor() * self.cell_height - self.scroll_offset.y + HEADER_LINES
        if not self._places or not 0 <= line < self.size.height:
            return None
        place, column = self._places[self._place_of_cursor()], self._bounded_column()
        cells = self._lines[place.node].cells
        wide = self._cell_width(cells[column]) if cells else 0
        return Offset(self._layout.label_width + (column - place.first) * wide, line)

    def action_move(self, by: int) -> None:
        self._go(self._row + by, self._column)

    def action_side(self, by: int) -> None:
        self._go(self._row, self._bounded_column() + by)

    def action_first(self) -> None:
        self._go(0, self._column)

    def action_last(self) -> None:
        self._go(len(self._lines) - 1, self._column)

    def action_page(self, pages: float) -> None:
        rows = max(1, int(abs(pages) * max(1, self._page // self.cell_height - 1)))
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
        if offset is None or not HEADER_LINES <= offset.y < HEADER_LINES + self._page:
            return
        at = (offset.y - HEADER_LINES + self.scroll_offset.y) // self.cell_height
        if at < len(self._places):
            place = self._places[at]
            cells = self._lines[place.node].cells
            wide = self._cell_width(cells[0]) if cells else TILE_MIN
            column = place.first + max(0, offset.x - self._layout.label_width) // wide
            self._go(place.node, min(column, max(place.first, place.last - 1)))
            if event.chain == 2:
                self.action_select()


def _is_wide(line: GridLine) -> bool:
    return bool(line.cells) and line.cells[0].wide


def node_role(state: str) -> str:
    """Return the style role for a node's state. It is borrowed from a job state with a similar meaning."""
    if state.startswith(("down", "drain")):
        return "FAILED" if state.startswith("down") else "PENDING"
    if state.startswith(("mix", "alloc")):
        return "RUNNING"
    return "" if state.startswith("idle") else "muted"
