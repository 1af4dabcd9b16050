"""The timeline below the map. A click chooses a time."""

from __future__ import annotations

from textual import events
from textual.message import Message

from .line_pane import LinePane


class TimelinePane(LinePane, can_focus=False):
    """A pane that reports the column of a click."""

    class Clicked(Message):
        """Posted for a click. `column` is counted from 0."""

        def __init__(self, column: int, width: int) -> None:
            super().__init__()
            self.column = column
            self.width = width

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None:
            self.post_message(self.Clicked(offset.x, self.size.width))
