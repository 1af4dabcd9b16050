"""The last line of a screen, which lists the keys that work now. It is a single widget with one line of
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from warpdeck_tui.deck import Deck
from warpdeck_tui.table.bindings import KeyHint, dialog_keys
from warpdeck_tui.table.palette import PLAIN, Palette

BETWEEN = "   "
"""Separator between the keys of a dialog."""


class DialogKeys(Static):
    """The last line of a dialog, which lists its keys with the user's own key bindings.

    `places` are its contexts in the table of actions. A click has the effect of the key. `opens` describes the effect
    of opening the row under the cursor, if the dialog has a list.
    """

    auto_links = False

    def __init__(self, *places: str, opens: str = "") -> None:
        super().__init__("", classes="keys", markup=False)
        self._places = places
        self._opens = opens

    def on_mount(self) -> None:
        keymap = cast(Deck, self.app).keymap
        self.update(Hints(dialog_keys(self._places, keymap, opens=self._opens)))


class Hints:
    """Key hints as a Rich renderable that takes as many lines as needed.

    A key and its label stay on one line.
    """

    def __init__(self, hints: Sequence[KeyHint]) -> None:
        self._hints = hints

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Text()
        for hint in self._hints:
            words = f"{hint.key} {hint.words}"
            if line and line.cell_len + len(BETWEEN) + cell_len(words) > options.max_width:
                yield line
                line = Text()
            line.append(BETWEEN if line else "")
            line.append(words, Style.from_meta({"@click": hint.command}))
        yield line


class KeyLine(Static):
    """The key line. It is redrawn only if it changes. A click has the effect of the key."""

    auto_links = False
    """Links are not underlined, because the color of the key marks them."""

    def __init__(self) -> None:
        super().__init__("", id="keys", markup=False)
        self._shown: tuple[Sequence[KeyHint], int] = ((), 0)

    def show(self, hints: Sequence[KeyHint], styles: Palette) -> None:
        """Show these keys in these styles."""
        shown = (tuple(hints), id(styles))
        if shown == self._shown:
            return
        self._shown = shown
        text = Text(" ", no_wrap=True)
        for number, hint in enumerate(hints):
            click = Style.from_meta({"@click": hint.command}) if hint.command else PLAIN
            text.append("  " if number else "")
            muted = styles.get("muted", PLAIN)
            text.append(hint.key, (styles.get("accent", PLAIN) if hint.is_possible else muted) + click)
            text.append(f" {hint.words}", (PLAIN if hint.is_possible else muted) + click)
        self.update(text, layout=False)
