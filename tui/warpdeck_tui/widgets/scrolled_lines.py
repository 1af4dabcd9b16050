"""A widget that scrolls through styled lines, which are computed for its width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import BindingType
from textual.geometry import Region
from textual.strip import Strip

from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.table.palette import PLAIN, Palette

from .cells import printable
from .line_view import LineView
from .lines import blank, finished

WHEEL_ROWS = 3
Line = Sequence[tuple[str, str]]
"""A line: texts with the roles of their styles."""
Make = Callable[[int], Sequence[Line]]


class ScrolledLines(LineView):
    """The widget.

    Its lines are computed by a function `make(width)`, in `show` and whenever the width changes. After an update only
    the lines that differ are painted.
    """

    place = "moves"
    BINDINGS: ClassVar[list[BindingType]] = bindings("moves")

    def __init__(self, styles: Palette, *, id: str = "", classes: str = "") -> None:
        super().__init__(styles, id=id)
        self.set_classes(classes)
        self._make: Make = lambda width: ()
        self._made_for = -1
        self.lines: Sequence[Line] = ()

    def show(self, make: Make) -> None:
        """Show the lines that `make` computes."""
        self._make = make
        self._remake()

    def rearrange(self) -> None:
        if self.line_width != self._made_for:
            self._remake()

    def _remake(self) -> None:
        width = self.line_width
        if not width:
            return
        before, self.lines, self._made_for = self.lines, list(self._make(width)), width
        self.set_content_rows(len(self.lines))
        if self.line_width != width and self.line_width:  # the scroll bar has appeared or disappeared
            self._made_for = self.line_width
            self.lines = list(self._make(self.line_width))
            self.set_content_rows(len(self.lines))
        top = self.scroll_offset.y
        for y in range(self.size.height):
            if before[top + y : top + y + 1] != self.lines[top + y : top + y + 1]:
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        number, width = y + self.scroll_offset.y, self.line_width
        if number >= len(self.lines):
            return blank(width, base=self.rich_style)
        cells = [Segment(printable(text), self._styles.get(role, PLAIN)) for text, role in self.lines[number]]
        return finished(self.decorated(cells), width, base=self.rich_style)

    def decorated(self, cells: list[Segment]) -> list[Segment]:
        """Return the segments of a line as they are painted."""
        return cells

    def scroll_to_line(self, number: int) -> None:
        """Show this line at the top, as far as the end allows."""
        self.scroll_to(y=number, animate=False, force=True)

    def action_move(self, by: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, force=True)

    def action_page(self, pages: float) -> None:
        """Move by this number of pages.

        For whole pages, one line of the old page stays visible for orientation.
        """
        rows = max(1, int(abs(pages) * self.size.height) - (abs(pages) >= 1))
        self.action_move(rows if pages > 0 else -rows)

    def action_first(self) -> None:
        self.scroll_to_line(0)

    def action_last(self) -> None:
        self.scroll_to_line(len(self.lines))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        event.prevent_default()
        self.action_move(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        event.prevent_default()
        self.action_move(-WHEEL_ROWS)
