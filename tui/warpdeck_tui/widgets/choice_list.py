"""A list of values for the field that has the focus. The keys stay with the field, which moves the cursor here."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from warpdeck_tui.table.palette import PLAIN, Palette

from .cells import Cell
from .virtual_table import Column, Drawn, VirtualTable

Rows = Sequence[tuple[str, Sequence[Cell]]]
KEYS = "Enter takes it, Esc closes"


class Values(VirtualTable, can_focus=False):
    """The rows of the list. The cursor is shown only while the user is choosing."""

    is_active = False

    def activate(self, is_active: bool) -> None:
        """Show or hide the cursor."""
        self.is_active = is_active
        self._drawn.clear()
        self.refresh()

    def _line_at(self, y: int) -> Drawn | None:
        line = super()._line_at(y)
        return line and line._replace(under_cursor=line.under_cursor and self.is_active)

    def _under(self, line: Drawn) -> Style:
        return self._styles.get("cursor", PLAIN) if line.under_cursor else PLAIN


class ChoiceList(Vertical):
    """The list, with the keys below. It is hidden while it has no field."""

    def __init__(self, styles: Palette, *, id: str) -> None:
        super().__init__(id=id)
        self._table = Values((), styles, empty="", id="values")
        self.field = ""
        """The id of the field for which the list is shown, or "" while it is hidden."""

    def compose(self) -> ComposeResult:
        yield self._table
        yield Static("", id="values-keys", classes="muted", markup=False)

    def on_mount(self) -> None:
        self.display = False

    @property
    def is_active(self) -> bool:
        """Whether the user is choosing. Otherwise the list only informs."""
        return self._table.is_active

    def show(self, field: str, rows: Rows, *, titles: Sequence[str], keys: str, empty: str = "") -> None:
        """Show these rows (value, cells) for a field. `keys` says how to choose one."""
        if field != self.field:
            self._table.activate(False)
        self.field, self.display = field, True
        self._say(KEYS if self.is_active else keys)
        first, *others = titles
        value = Column(first, 8, flex=1, most=24 if others else 200)
        self._table.use_columns([value, *(Column(title, 22, 1, flex=2) for title in others)])
        self._table.show(rows, empty=empty)

    def _say(self, words: str) -> None:
        self.query_one("#values-keys", Static).update(words)

    def activate(self, at: str = "") -> None:
        """Let the user choose, beginning at the row `at`."""
        self._table.activate(True)
        self._say(KEYS)
        if not (at and self._table.go_to(at)):
            self._table.action_first()

    def move(self, by: int) -> None:
        """Move the cursor by this number of rows."""
        self._table.action_move(by)

    @property
    def chosen(self) -> str:
        """The value under the cursor, or "" in an empty list."""
        return self._table.cursor_key

    def hide(self) -> None:
        """Hide the list."""
        self._table.activate(False)
        self.field, self.display = "", False
