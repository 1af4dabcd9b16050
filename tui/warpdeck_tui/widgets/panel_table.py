"""Parts of a page of panels: tables and a pane that pass the cursor on to the next panel at their ends."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget

from warpdeck_tui.table.bindings import bindings

from .line_pane import LinePane
from .virtual_table import VirtualTable


class PanelLeft(Message):
    """Posted if the cursor moves beyond the first or the last row of a panel."""

    def __init__(self, panel: Widget, *, forward: bool) -> None:
        super().__init__()
        self.panel = panel
        self.forward = forward


class PanelTable(VirtualTable, inherit_bindings=False):
    """A table that shows its cursor only while it has the focus. Enter on an empty table selects the key "".

    It has no keys for scrolling to the side, because they go to other panels.
    """

    shows_cursor_always = False
    BINDINGS: ClassVar[list[BindingType]] = bindings("list", "moves")

    def action_move(self, by: int) -> None:
        before = self.cursor_index
        super().action_move(by)
        if self.cursor_index == before:
            self.post_message(PanelLeft(self, forward=by > 0))

    def action_select(self) -> None:
        self.post_message(self.Selected(self, self.cursor_key))


class ChartPane(LinePane, can_focus=True):
    """A chart over time. Enter or a click selects it."""

    place: ClassVar[str] = "list"
    BINDINGS: ClassVar[list[BindingType]] = bindings("list", "moves")

    class Selected(Message):
        """Posted for Enter and for a click. `share` is the position of the click as a share of the width, or None."""

        def __init__(self, share: float | None = None) -> None:
            super().__init__()
            self.share = share

    def __init__(self, *, margin: int, id: str = "") -> None:
        """Create the pane. The chart begins after `margin` columns."""
        super().__init__(id=id)
        self._margin = margin

    def action_select(self) -> None:
        self.post_message(self.Selected())

    def action_move(self, by: int) -> None:
        self.post_message(PanelLeft(self, forward=by > 0))

    def action_page(self, pages: float) -> None:
        self.action_move(1 if pages > 0 else -1)

    def action_first(self) -> None:
        self.action_move(-1)

    def action_last(self) -> None:
        self.action_move(1)

    def on_click(self, event: events.Click) -> None:
        offset, room = event.get_content_offset(self), self.size.width - self._margin
        if offset is not None and offset.x >= self._margin and room > 0:
            self.post_message(self.Selected((offset.x - self._margin + 0.5) / room))
