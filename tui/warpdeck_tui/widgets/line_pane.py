"""A widget whose lines are computed for its size. After an update only the lines that differ are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from warpdeck_tui.table.palette import PLAIN, Palette, for_terminal

from .lines import blank, finished

Line = Sequence[tuple[str, str]]
"""A line: texts with the roles of their styles."""


class LinePane(Widget, can_focus=True):
    """A pane of text lines.

    The lines are computed by a function `make(width, height)`, in `show` and whenever the size changes.
    """

    def __init__(self, *, id: str = "") -> None:
        super().__init__(id=id or None)
        self._make: Callable[[int, int], Sequence[Line]] = lambda width, height: ()
        self._lines: list[Line] = []
        self._given: Palette = {}
        self._styles: Palette = {}

    def show(self, make: Callable[[int, int], Sequence[Line]], styles: Palette) -> None:
        """Show the lines that `make` computes."""
        self._make = make
        if styles is not self._given:
            self._given = styles
            dark = self.app.current_theme.dark
            self._styles = for_terminal(styles, self.app.console.color_system, dark=dark)
            self._lines = []
            self.refresh()
        self._remake()

    def on_resize(self) -> None:
        self._remake()

    def _remake(self) -> None:
        width, height = self.size
        before, self._lines = self._lines, list(self._make(width, height)) if width and height else []
        for y in range(max(len(before), len(self._lines))):
            if before[y : y + 1] != self._lines[y : y + 1]:
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y >= len(self._lines):
            return blank(width, base=self.rich_style)
        cells = [Segment(text, self._styles.get(role, PLAIN)) for text, role in self._lines[y]]
        return finished(cells, width, base=self.rich_style)
