"""Base class of the scrolling line widgets.

It provides the styles for the current theme and terminal, and the length of the content. When a widget's
virtual size changes, Textual lays out the whole screen and repaints the widget. A log or a queue grows every
second, so only the scroll bar is updated, unless it has to appear or disappear.
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
    """A widget that draws only its visible lines. `place` is its context in the table of actions."""

    place: ClassVar[str]
    BINDINGS: ClassVar[list[BindingType]] = bindings("moves")

    DEFAULT_CSS = "LineView { overflow-x: hidden; scrollbar-size-vertical: 1; }"

    def __init__(self, styles: Palette, *, id: str = "") -> None:
        super().__init__(id=id or None)
        self._given_styles = styles
        self._styles = styles

    def use_palette(self, styles: Palette) -> None:
        """Apply the styles of a theme."""
        self._given_styles = styles
        self._styles = for_terminal(styles, self.app.console.color_system, dark=self.app.current_theme.dark)
        self.refresh()

    def on_mount(self) -> None:
        self._styles = for_terminal(
            self._given_styles, self.app.console.color_system, dark=self.app.current_theme.dark
        )

    @property
    def parked(self) -> Offset | None:
        """Position in the widget for the terminal's own cursor, because assistive tools read the text there.

        None if it does not matter.
        """
        return None

    @property
    def line_width(self) -> int:
        """Width of a line in columns. Unlike Textual's `size`, it excludes the scroll bar."""
        return max(0, self.size.width - self.scrollbar_size_vertical)

    def rearrange(self) -> None:
        """Recompute the layout and drop cached lines, after the width or the number of lines has changed."""

    def on_resize(self) -> None:
        self.rearrange()
        self.refresh()

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        """Update the layout, because lines are narrower beside a scroll bar.

        A new scroll bar also needs the current position.
        """
        if shown:
            self.vertical_scrollbar.position = self.scroll_y
        self.rearrange()
        self.refresh()

    def set_content_rows(self, rows: int) -> None:
        """Set the number of rows to scroll through. The view is kept inside them; nothing is painted."""
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
        """Return the start and the length of the scroll bar's thumb, in eighths of a row.

        It is drawn in these units.
        """
        page = self.size.height
        eighths = 8 * page
        hidden = max(1, rows - page)
        return round(eighths * min(self.scroll_y, hidden) / hidden), round(
            eighths * page / max(rows, page, 1)
        )
