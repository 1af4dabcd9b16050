"""The dialog for the grid of a sweep.

It has one line of text, and below it the number of tasks, the GPU-hours, and the task commands.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Static

from warpdeck_tui.screens.shared.form_dialog import FormDialog
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.job_form.form import Sheet
from warpdeck_tui.viewmodels.job_form.sweep import preview
from warpdeck_tui.widgets.form_fields import FormField, FormValues
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

GRID = FormField("grid", hint="lr=0.1,0.01 seed=1..5   use $lr, $seed in the command", selects_on_focus=False)
COLUMNS = (Column("TASK", 6, align="right"), Column("COMMAND", 0))
TAKEN_AWAY = " "
"""The result that removes the sweep. An empty result means that the user canceled."""


class SweepGrid(FormDialog):
    """The dialog. Its result is the text of the grid, or "" if the user canceled."""

    place = "sweep"
    look = "tall"
    BINDINGS: ClassVar[list[BindingType]] = bindings("sweep")

    def __init__(self, sheet: Sheet) -> None:
        super().__init__(
            "Sweep: one task for each combination of values", (GRID,), {"grid": sheet.value("sweep")}
        )
        self._sheet = sheet

    def compose_more(self) -> Iterable[Widget]:
        yield Static("", id="sum", classes="sum", markup=False)
        yield VirtualTable(COLUMNS, self.deck.palette, empty="", id="tasks")

    def preview(self, values: FormValues) -> None:
        super().preview(values)
        found = preview(self._sheet, values["grid"], now=time.time())
        line = self.query_one("#sum", Static)
        line.update(found.words)
        line.set_class(found.wrong, "wrong")
        self.query_one(VirtualTable).show(found.rows)

    def accept(self, values: FormValues) -> None:
        if not preview(self._sheet, values["grid"], now=time.time()).wrong:
            self.dismiss(values["grid"] or TAKEN_AWAY)
