"""The dialog for the grid of a sweep.

It has one line of text, and below it the number of tasks, the GPU-hours, and the task commands.
"""

from __future__ import annotations

import time
from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.jobs.form import Sheet
from warpdeck_tui.viewmodels.jobs.sweep import preview
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

COLUMNS = (Column("TASK", 6, align="right"), Column("COMMAND", 0))
TAKEN_AWAY = " "
"""The result that removes the sweep. An empty result means that the user canceled."""


class SweepGrid(Arrives[str], ModalScreen[str]):
    """The dialog. Its result is the text of the grid, or "" if the user canceled."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("sweep")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__()
        self._sheet = sheet

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog tall"):
            yield Static("Sweep: one task for each combination of values", classes="title", markup=False)
            yield Input(
                self._sheet.value("sweep"),
                placeholder="lr=0.1,0.01 seed=1..5   use $lr, $seed in the command",
                id="grid",
                compact=True,
                select_on_focus=False,
            )
            yield Static("", id="sum", classes="sum", markup=False)
            styles = cast(Deck, self.app).palette
            yield VirtualTable(COLUMNS, styles, empty="", id="tasks")
            yield DialogKeys("sweep")

    def arrive(self) -> None:
        self.query_one(Input).focus()
        self._preview()

    def on_input_changed(self) -> None:
        if not self.is_left:
            self._preview()

    def _preview(self) -> None:
        found = preview(self._sheet, self.query_one(Input).value, now=time.time())
        line = self.query_one("#sum", Static)
        line.update(found.words)
        line.set_class(found.wrong, "wrong")
        self.query_one(VirtualTable).show(found.rows)

    def on_input_submitted(self) -> None:
        self.action_submit()

    def action_submit(self) -> None:
        text = self.query_one(Input).value
        if not preview(self._sheet, text, now=time.time()).wrong:
            self.dismiss(text.strip() or TAKEN_AWAY)

    def action_give_up(self) -> None:
        self.dismiss("")
