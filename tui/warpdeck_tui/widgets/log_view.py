"""A growing log: lines are indexed as bytes arrive, drawn only when visible. Opens at its end and follows it.

Any move upward stops following, and the last line then says how much is new. A carriage return overwrites the line, as
progress bars want it; colours (SGR) are kept, other escapes dropped. Bounded: the oldest text goes beyond MAX_BYTES.
"""

from __future__ import annotations

import re
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

MAX_LINES = 200_000
"""Lines kept; a log of any length can be followed, its whole is in its file."""
MAX_LINE_BYTES = 16 * 1024
"""A longer line is cut when drawn."""
_OTHER_ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?]*[A-LN-Za-ln-z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")


class LogView(ScrollView, can_focus=True):
    """The log of one job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j,down", "move(1)", ""),
        ("k,up", "move(-1)", ""),
        ("ctrl+d,pagedown", "page(1)", ""),
        ("ctrl+u,pageup", "page(-1)", ""),
        ("g,home", "first", ""),
        ("G,end,f", "follow", ""),
    ]

    def __init__(self, *, id: str = "") -> None:
        super().__init__(id=id or None)
        self._lines: list[bytes] = []
        self._partial = b""
        self._top = 0
        self._following = True
        self._seen = 0

    @property
    def following(self) -> bool:
        return self._following

    def feed(self, data: bytes) -> None:
        """More of the log."""
        parts = (self._partial + data).split(b"\n")
        self._partial = parts.pop()[-MAX_LINE_BYTES * 4 :]
        self._lines += parts
        gone = len(self._lines) - MAX_LINES
        if gone > 0:
            del self._lines[:gone]
            self._top = max(0, self._top - gone)
            self._seen = max(0, self._seen - gone)
        self.virtual_size = Size(self.size.width, self._count())
        if self._following:
            self._top = max(0, self._count() - self.size.height)
            self._seen = self._count()
        self.refresh()

    def clear(self) -> None:
        """Empty again."""
        self._lines, self._partial, self._top, self._following = [], b"", 0, True
        self.refresh()

    def text(self) -> str:
        """All that is kept."""
        return b"\n".join([*self._lines, self._partial]).decode("utf-8", "replace")

    def render_line(self, y: int) -> Strip:
        width, index = self.size.width, self._top + y
        new = self._count() - self._seen
        if y == self.size.height - 1 and not self._following and new > 0:
            words = f" {new} new lines below, G follows "
            return Strip([Segment(words.ljust(width), self.rich_style + Style(reverse=True))], width)
        if index >= self._count():
            return Strip.blank(width, self.rich_style)
        raw = self._lines[index] if index < len(self._lines) else self._partial
        line = raw.rstrip(b"\r").rsplit(b"\r", 1)[-1][:MAX_LINE_BYTES]
        text = Text.from_ansi(
            _OTHER_ESCAPES.sub(b"", line).decode("utf-8", "replace").expandtabs(8), no_wrap=True
        )
        # Every segment needs a style with colours: Textual's filters for NO_COLOR look into them.
        base = self.rich_style
        parts = [
            Segment(part.text, base + part.style if part.style else base)
            for part in text.render(self.app.console)
        ]
        return Strip(parts).simplify().adjust_cell_length(width, base)

    def _count(self) -> int:
        return len(self._lines) + bool(self._partial)

    def _go(self, top: int) -> None:
        last = max(0, self._count() - self.size.height)
        self._top = max(0, min(top, last))
        self._following = self._top >= last and top >= last
        if self._following:
            self._seen = self._count()
        self.refresh()

    def action_move(self, by: int) -> None:
        self._go(self._top + by)

    def action_page(self, direction: int) -> None:
        self._go(self._top + direction * max(1, self.size.height - 1))

    def action_first(self) -> None:
        self._following = False
        self._go(0)

    def action_follow(self) -> None:
        self._go(self._count())

    def on_mouse_scroll_up(self) -> None:
        self._go(self._top - 3)

    def on_mouse_scroll_down(self) -> None:
        self._go(self._top + 3)

    def on_resize(self) -> None:
        if self._following:
            self._go(self._count())
