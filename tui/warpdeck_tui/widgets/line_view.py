"""What the line widgets share: their styles in the present theme and terminal, and how long their content is.

Textual lays the whole screen out and paints the widget anew when its virtual size changes. A log or a queue grows every
second, so only the scroll bar is told, unless it has to appear or go.
"""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Offset, Size
from textual.scroll_view import ScrollView
from textual.widget import Widget

from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.table.palette import Palette, for_terminal


class LineView(ScrollView, can_focus=True):
    """A widget that draws line by line, only what is visible. `place` names its part of the table of actions."""

    place: ClassVar[str]
    BINDINGS: ClassVar[list[BindingType]] = bindings("moves")

    DEFAULT_CSS = "LineView { overflow-x: hidden; scrollbar-size-vertical: 1; }"

    def __init__(self, styles: Palette, *, id: str = "") -> None:
        super().__init__(id=id or None)
        self._given_styles = styles
        self._styles = styles

    def use_palette(self, styles: Palette) -> None:
        """Another theme."""
        self._given_styles = styles
        self._styles = for_terminal(styles, self.app.console.color_system, dark=self.app.current_theme.dark)
        self.refresh()

    def on_mount(self) -> None:
        self._styles = for_terminal(
            self._given_styles, self.app.console.color_system, dark=self.app.current_theme.dark
        )

    @property
    def parked(self) -> Offset | None:
        """Where in the widget the terminal's own cursor stands: what is there, assistive tools read. None: anywhere."""
        return None

    @property
    def line_width(self) -> int:
        """Columns of a line: Textual's `size` has those under the scroll bar too."""
        return max(0, self.size.width - self.scrollbar_size_vertical)

    def rearrange(self) -> None:
        """The lines have another width or number: places, and what is kept of painted lines, are out of date."""

    def on_resize(self) -> None:
        self.rearrange()
        self.refresh()

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        """The lines are narrower beside a scroll bar; one that has just appeared does not know yet where we are."""
        if shown:
            self.vertical_scrollbar.position = self.scroll_y
        self.rearrange()
        self.refresh()

    def set_content_rows(self, rows: int) -> None:
        """How many rows there are to scroll through. The view stays inside them; nothing is painted."""
        before, size = self.virtual_size, Size(self.line_width, rows)
        if size == before:
            return
        if size.width == before.width and self.show_vertical_scrollbar and rows > self.size.height:
            self.set_reactive(Widget.virtual_size, size)
            bar = self.vertical_scrollbar
            if self._thumb(rows) != self._thumb(bar.window_virtual_size):
                bar.window_virtual_size = rows
            if self.scroll_y > self.max_scroll_y:
                self.scroll_to(y=self.max_scroll_y, animate=False, force=True)
        else:
            self.virtual_size = size

    def _thumb(self, rows: int) -> tuple[int, int]:
        """Where the scroll bar's thumb begins and how long it is, in the eighths of a row that it is drawn in."""
        page = self.size.height
        eighths = 8 * page
        hidden = max(1, rows - page)
        return round(eighths * min(self.scroll_y, hidden) / hidden), round(
            eighths * page / max(rows, page, 1)
        )
