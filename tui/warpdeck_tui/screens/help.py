"""The help page: all keys in columns. Typing shows only the keys that match, with their explanations."""

from __future__ import annotations

from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.shell.help_layout import Help, found_page, help_page
from warpdeck_tui.widgets.scrolled_lines import Line, ScrolledLines

MAX_CHARACTERS = 60


class KeyHelp(Arrives[None], ModalScreen[None]):
    """The page. Every letter is typed into the search; only keys that are not typed scroll."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("help")

    def __init__(self, keys: Help) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        with Vertical(classes="help framed") as frame:
            frame.border_title = "Help"
            yield Input(
                placeholder="Type to search all keys: a word, a key or a screen",
                compact=True,
                max_length=MAX_CHARACTERS,
            )
            lines = ScrolledLines(cast(Deck, self.app).palette, id="keys-of-all")
            lines.can_focus = False
            yield lines
            yield DialogKeys("help")

    @property
    def _lines(self) -> ScrolledLines:
        return self.query_one(ScrolledLines)

    def arrive(self) -> None:
        self._lines.show(self._make)
        self.query_one(Input).focus()

    def _make(self, width: int) -> list[Line]:
        text = self.query_one(Input).value.strip()
        return list(found_page(self._keys, text, width) if text else help_page(self._keys, width))

    def on_input_changed(self) -> None:
        self._lines.show(self._make)
        self._lines.action_first()

    def action_move(self, by: int) -> None:
        self._lines.action_move(by)

    def action_page(self, pages: float) -> None:
        self._lines.action_page(pages)

    def action_close(self) -> None:
        """Clear the search or, if it is empty, close the page."""
        search = self.query_one(Input)
        if search.value:
            search.value = ""
        else:
            self.dismiss(None)
