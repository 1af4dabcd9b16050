"""What all screens share: their place in the table of actions, the head line, and lines of cells as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from warpdeck.api.rows import JobRow
from warpdeck_tui.actions import CHANGING
from warpdeck_tui.palette import PLAIN, Palette
from warpdeck_tui.viewmodels import Line

if TYPE_CHECKING:
    from warpdeck_tui.app import DeckApp


class DeckScreen(Screen[None]):
    """A full screen. `place` names its part of the table of actions."""

    place: ClassVar[str] = "app"

    @property
    def deck(self) -> DeckApp:
        return cast("DeckApp", self.app)

    @property
    def job_keys(self) -> list[str]:
        """The jobs that a verb would mean here."""
        return []

    def shown_job(self, key: str) -> JobRow | None:
        """A job that this screen shows though the board does not have it."""
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not (self.deck.readonly and (self.place, action) in CHANGING)

    def on_screen_resume(self) -> None:
        self.recolour()
        self.draw()

    def draw(self) -> None:
        """From the board to the widgets. Called when something changed and this screen is in front."""

    def recolour(self) -> None:
        """The theme changed while another screen was in front, or now."""

    def set_head(self, words: str) -> None:
        """The first line: the place's own words and, if the controller is away, that."""
        away = self.deck.away
        head = self.query_one("#head", Static)
        head.set_class(bool(away), "away")
        head.update(f" warpdeck  {words}" + (f"   ⚠ {away}; reconnecting" if away else ""))

    def action_copy(self) -> None:
        self.deck.copy(" ".join(self.job_keys))

    def action_cancel(self) -> None:
        self.deck.confirm_change("cancel", self.job_keys)

    def action_hold(self) -> None:
        self.deck.confirm_change("hold", self.job_keys)

    def action_release(self) -> None:
        self.deck.confirm_change("release", self.job_keys)

    def action_requeue(self) -> None:
        self.deck.confirm_change("requeue", self.job_keys)

    def action_attach(self) -> None:
        if self.job_keys:
            self.deck.attach(self.job_keys[0])


class TextPane(VerticalScroll, can_focus=True):
    """A text to read, with the moves that all lists have."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("j", "scroll_down", ""),
        ("k", "scroll_up", ""),
        ("g", "scroll_home", ""),
        ("G", "scroll_end", ""),
        ("ctrl+d", "page_down", ""),
        ("ctrl+u", "page_up", ""),
    ]

    def __init__(self, text: Text | str = "", *, id: str | None = None) -> None:
        super().__init__(Static(text, markup=False), id=id)

    def show(self, lines: Iterable[Line], styles: Palette) -> None:
        """Other lines."""
        self.query_one(Static).update(paint(lines, styles))


def paint(lines: Iterable[Line], styles: Palette) -> Text:
    """Lines of cells as one text in the theme's styles."""
    text = Text()
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for cell in line:
            text.append(cell.text, styles.get(cell.style, PLAIN))
    return text
