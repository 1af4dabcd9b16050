"""The theme picker.

The screen below shows the theme under the cursor; Enter keeps it, Esc restores the previous one.
"""

from __future__ import annotations

from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives, paint
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.theme_file import ThemeFile
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

COLUMNS = (Column("THEME", 18), Column("GROUND", 0))
SAMPLE: tuple[Line, ...] = (
    (
        Cell("● R  ", "RUNNING"),
        Cell("◌ PD  ", "PENDING"),
        Cell("✓ CD  ", "COMPLETED"),
        Cell("✗ F  ", "FAILED"),
        Cell("muted ", "muted"),
    ),
    tuple(Cell(f" {step * 14:>3} ", f"heat{step}") for step in range(8)),
)


class ThemePicker(Arrives[None], ModalScreen[None]):
    """The list of all themes, with the cursor on the current one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("choose")

    @property
    def _deck(self) -> Deck:
        return cast(Deck, self.app)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog corner"):
            yield Static("Theme", classes="title", markup=False)
            yield VirtualTable(COLUMNS, self._deck.palette, empty="", id="themes")
            yield Static("", id="sample", markup=False)
            yield DialogKeys("choose", opens="Choose")

    def arrive(self) -> None:
        self._before = self.app.theme
        table = self.query_one(VirtualTable)
        table.show([_row(theme) for theme in self._deck.looks.themes])
        table.go_to(self._before)
        table.focus()
        self.recolour()

    def on_virtual_table_moved(self, event: VirtualTable.Moved) -> None:
        event.stop()
        if event.key and event.key != self.app.theme and self.has_arrived:
            self._deck.looks.use(event.key)

    def recolour(self) -> None:
        super().recolour()
        self.query_one("#sample", Static).update(paint(SAMPLE, self._deck.palette))

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        try:
            self._deck.looks.keep(event.key)
        except UserError as error:
            self._deck.tell_error(error)
        self.dismiss(None)

    def action_give_up(self) -> None:
        if self.app.theme != self._before:
            self._deck.looks.use(self._before)
        self.dismiss(None)


def _row(theme: ThemeFile) -> tuple[str, Line]:
    ground = "dark" if theme.dark else "light"
    return theme.name, (
        Cell(theme.name),
        Cell(f"{ground}, 16 colors" if theme.ansi else ground, "muted"),
    )
