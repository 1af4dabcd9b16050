"""The theme picker: a list of the dark and then of the light themes, each with samples of its colors.

The screen below shows the theme under the cursor; Enter keeps it, Esc restores the previous one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, cast

from rich.style import Style
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
from warpdeck_tui.user_files.themes import sample_color
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

SWATCHES = ("background", "primary", "running", "pending", "failed", "held")
"""The colors of which the list shows a sample."""
COLUMNS = (
    Column("THEME", 21, key="name"),
    Column("COLORS", 6, key="background"),
    *(Column("", 1, key=ink) for ink in SWATCHES[1:]),
    Column("", 0, key="ground"),
)
BLOCK = "\u2588"
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
        with Vertical(classes="dialog corner framed") as dialog:
            dialog.border_title = "Theme"
            yield VirtualTable(COLUMNS, self._deck.palette, empty="", id="themes")
            yield Static("", id="sample", markup=False)
            yield DialogKeys("choose", opens="Choose")

    def arrive(self) -> None:
        self._before = self.app.theme
        table = self.query_one(VirtualTable)
        table.show([_row(theme, now=self._before) for theme in self._deck.looks.themes])
        table.go_to(self._before)
        table.focus()
        self.recolour()

    def on_virtual_table_moved(self, event: VirtualTable.Moved) -> None:
        event.stop()
        if event.key and event.key != self.app.theme and self.has_arrived:
            self._deck.looks.use(event.key)

    def recolour(self) -> None:
        super().recolour()
        looks = self._deck.looks
        self.query_one(VirtualTable).use_palette(
            {**looks.palette, **_swatches(map(looks.in_terminal_colors, looks.themes))}
        )
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


def _row(theme: ThemeFile, *, now: str) -> tuple[str, Line]:
    ground = "dark" if theme.dark else "light"
    background, *inks = (_role(theme, swatch) for swatch in SWATCHES)
    samples = () if theme.ansi else (Cell(4 * BLOCK, background), *(Cell(BLOCK, ink) for ink in inks))
    return theme.name, (
        Cell(theme.name),
        *(samples or (Cell(""),) * len(SWATCHES)),
        Cell(
            f"{ground}{', 16 colors' if theme.ansi else ''}{', in use' if theme.name == now else ''}", "muted"
        ),
    )


def _role(theme: ThemeFile, swatch: str) -> str:
    return f"{theme.name} {swatch}"


def _swatches(themes: Iterable[ThemeFile]) -> dict[str, Style]:
    """Return the styles of the samples, by role."""
    return {
        _role(theme, swatch): Style(color=sample_color(theme, swatch))
        for theme in themes
        if not theme.ansi
        for swatch in SWATCHES
    }
