"""The dialog for the columns of a list of jobs: all columns in their order, with a check mark before the shown ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.jobs.column_choice import ColumnChoice
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

COLUMNS = (Column("", 1, key="shown"), Column("COLUMN", 16), Column("CONTENT", 0))


class ColumnPicker(Arrives[tuple[str, ...]], ModalScreen[tuple[str, ...]]):
    """The list of columns. Each change is shown in the list below at once.

    The result is the chosen columns, or () if the user canceled.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("columns")

    def __init__(
        self,
        names: tuple[str, ...],
        changed: Callable[[tuple[str, ...]], None],
        *,
        defaults: tuple[str, ...],
        offered: tuple[str, ...],
    ) -> None:
        super().__init__()
        self._before, self._defaults, self._offered = names, defaults, offered
        self._choice = ColumnChoice.of(names, offered)
        self._changed = changed

    @property
    def _table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog columns"):
            yield Static("Columns", classes="title", markup=False)
            yield VirtualTable(COLUMNS, cast(Deck, self.app).palette, empty="", id="columns")
            yield DialogKeys("columns", opens="Apply")

    def arrive(self) -> None:
        self._draw()
        self._table.focus()

    def _draw(self) -> None:
        self._table.show(self._choice.rows())

    def _use(self, choice: ColumnChoice) -> None:
        self._choice = choice
        self._draw()
        self._changed(choice.shown)

    def action_turn(self) -> None:
        choice = self._choice.toggled(self._table.cursor_key)
        if choice.shown:
            self._use(choice)
        else:
            self.app.notify("A list needs at least one column", severity="warning")

    def action_shift(self, by: int) -> None:
        """Move the column under the cursor, and the cursor with it."""
        key = self._table.cursor_key
        self._use(self._choice.moved(key, by))
        self._table.go_to(key)

    def action_defaults(self) -> None:
        self._use(ColumnChoice.of(self._defaults, self._offered))

    def on_virtual_table_moved(self, event: VirtualTable.Moved) -> None:
        event.stop()

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.dismiss(self._choice.shown)

    def action_give_up(self) -> None:
        self._changed(self._before)
        self.dismiss(())
