"""The page that shows the differences between two jobs, or between a job and its folder.

A summary of the files comes first. On a wide terminal the old and the new lines stand beside each other.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import ClassVar, cast

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from warpdeck_tui.deck import Deck
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.table.palette import PLAIN, Palette
from warpdeck_tui.viewmodels.cells import Line
from warpdeck_tui.viewmodels.diffs.layout import SIDE_BY_SIDE_FROM, Labels, Laid, in_words, lay_out
from warpdeck_tui.viewmodels.diffs.parsing import Parsed
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.log.matches import pointed_out, spans
from warpdeck_tui.widgets.log.search import MAX_QUERY_CHARACTERS, words
from warpdeck_tui.widgets.prompt import Prompt
from warpdeck_tui.widgets.scrolled_lines import ScrolledLines

from .deck_screen import Arrives
from .key_line import DialogKeys

CONTEXT_LINES = 2
"""Number of lines that stay visible above a match."""


class DiffView(ScrolledLines):
    """The lines of the page. It can go to files, hunks and the matches of a search."""

    def __init__(self, parsed: Parsed, labels: Labels, styles: Palette) -> None:
        super().__init__(styles, id="diff", classes="framed")
        self._parsed, self._labels = parsed, labels
        self._laid = Laid(())
        self._beside: bool | None = None
        """Whether the lines stand beside each other, if the user has chosen it."""
        self._prompt = Prompt(max_characters=MAX_QUERY_CHARACTERS)
        self._pattern: re.Pattern[str] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.show(self._lay_out)

    def _lay_out(self, width: int) -> tuple[Line, ...]:
        beside = width + 4 >= SIDE_BY_SIDE_FROM if self._beside is None else self._beside
        self._laid = lay_out(self._parsed, self._labels, width=width, side_by_side=beside)
        return self._laid.lines

    def decorated(self, cells: list[Segment]) -> list[Segment]:
        if self._pattern is None:
            return cells
        found = spans("".join(cell.text for cell in cells), self._pattern)
        return pointed_out(cells, found, self._styles.get("match", PLAIN))

    def _go(self, places: tuple[int, ...], step: int) -> None:
        """Go to the next or previous one of these lines."""
        top = self.scroll_offset.y
        at = bisect_right(places, top) if step > 0 else bisect_left(places, top) - 1
        if 0 <= at < len(places):
            self.scroll_to_line(places[at])

    def go_to_file(self, step: int) -> None:
        self._go(self._laid.files, step)

    def go_to_hunk(self, step: int) -> None:
        self._go(self._laid.hunks, step)

    def turn_beside(self) -> None:
        """Switch between one column and two."""
        wide = self.line_width + 4 >= SIDE_BY_SIDE_FROM if self._beside is None else self._beside
        self._beside = not wide
        share = self.scroll_offset.y / max(1, len(self.lines))
        self.show(self._lay_out)
        self.scroll_to_line(round(share * len(self.lines)))

    def search(self) -> None:
        self._prompt.open("/")
        self._show_prompt()

    def on_paste(self, event: events.Paste) -> None:
        if self._prompt.text is not None:
            self._prompt.paste(event.text)
            self._show_prompt()
            event.stop()

    def _show_prompt(self) -> None:
        open_text = self._prompt.text
        self.border_subtitle = Content(
            "" if open_text is None else f"{self._prompt.sign}{printable(open_text)}"
        )

    def on_key(self, event: events.Key) -> None:
        """Pass keys to the prompt while it is open."""
        if self._prompt.text is None:
            return
        text = self._prompt.take(event)
        if text:
            self._pattern = words(text).text
            self.refresh()
            self.go_to_match(1)
        self._show_prompt()
        event.stop()
        event.prevent_default()

    def go_to_match(self, step: int) -> None:
        """Go to the next or previous line that matches the search."""
        pattern = self._pattern
        if pattern is None:
            return
        top = self.scroll_offset.y + CONTEXT_LINES
        order = range(top + 1, len(self.lines)) if step > 0 else range(top - 1, -1, -1)
        for number in order:
            if pattern.search("".join(text for text, _ in self.lines[number])):
                self.scroll_to_line(max(0, number - CONTEXT_LINES))
                return
        self.notify("No more matches" if self._found_any(pattern) else "Not found", severity="warning")

    def _found_any(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search("".join(text for text, _ in line)) for line in self.lines)

    def end_search(self) -> bool:
        """Remove the highlighting of a search. Return False if there was none."""
        was = self._pattern is not None
        self._pattern = None
        self.refresh()
        return was


class DiffPage(Arrives[None], ModalScreen[None]):
    """The page, which fills the terminal."""

    place = "diff"
    BINDINGS: ClassVar[list[BindingType]] = bindings("diff")

    def __init__(self, title: str, parsed: Parsed, labels: Labels) -> None:
        super().__init__()
        self._title = f"{title}   {in_words(parsed)}"
        self._parsed, self._labels = parsed, labels

    def compose(self) -> ComposeResult:
        with Vertical(id="diffs"):
            view = DiffView(self._parsed, self._labels, cast(Deck, self.app).palette)
            view.border_title = Content(printable(self._title))
            yield view
            yield DialogKeys("diff")

    def arrive(self) -> None:
        self.recolour()
        self._view.focus()

    @property
    def _view(self) -> DiffView:
        return self.query_one(DiffView)

    def action_file(self, step: int) -> None:
        self._view.go_to_file(step)

    def action_hunk(self, step: int) -> None:
        self._view.go_to_hunk(step)

    def action_beside(self) -> None:
        self._view.turn_beside()

    def action_search(self) -> None:
        self._view.search()

    def action_match(self, step: int) -> None:
        self._view.go_to_match(step)

    def action_close(self) -> None:
        if not self._view.end_search():
            self.dismiss(None)
