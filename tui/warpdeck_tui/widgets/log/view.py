"""A view of a job's log with search and filters. `/` searches, and `E` goes to the nearest error above.

Both also search the parts of the log that are not in memory.
"""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.binding import BindingType
from textual.strip import Strip

from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.table.palette import Palette
from warpdeck_tui.widgets.cells import fit
from warpdeck_tui.widgets.glyphs import ELLIPSIS
from warpdeck_tui.widgets.prompt import Prompt

from .filter import Filter, FilteredText, of_rank, only
from .matches import pointed_out, spans
from .search import MAX_QUERY_CHARACTERS, TROUBLE, LogPosition, Query, place_of, words
from .text import LogText, Reader
from .window import LogWindow

SEARCH, ONLY, RANK = "/", "&", "rank "
"""Prompts in the last row, for a search, a filter and a rank."""
MATCH_CONTEXT_LINES = 3
"""Number of lines that stay visible above a match."""


class LogView(LogWindow):
    """The view of one log."""

    place = "log"
    BINDINGS: ClassVar[list[BindingType]] = bindings("log")

    def __init__(self, *, id: str = "", styles: Palette | None = None) -> None:
        super().__init__(id=id, styles=styles)
        self._prompt = Prompt(max_characters=MAX_QUERY_CHARACTERS)
        self._query: Query | None = None
        self._found: int | None = None
        self._searching = False

    def clear(self, *, at_bytes: int = 0, read: Reader | None = None) -> None:
        self._query = self._found = None
        super().clear(at_bytes=at_bytes, read=read)

    @property
    def _is_marked(self) -> bool:
        return self._query is not None or super()._is_marked

    def _with_matches(self, drawn: list[Segment], text: str) -> list[Segment]:
        if self._query is None:
            return drawn
        match = self._styles.get("match", Style(reverse=True))
        return pointed_out(drawn, spans(text, self._query.text), match)

    def _with_status(self, strip: Strip, width: int) -> Strip:
        """Show the prompt in place of the last row while it is open."""
        if self._prompt.text is not None:
            return Strip(
                [Segment(fit(f"{self._prompt.sign}{self._prompt.text}", width - 1) + " ", Style(bold=True))]
            )
        return super()._with_status(strip, width)

    def _badge(self) -> list[str]:
        told = [self._filter_words(self._source)] if isinstance(self._source, FilteredText) else []
        if self._query:
            told.append(self._search_words(self._query))
        elif self._searching:
            told.append(f"back to the line {ELLIPSIS}")
        return [*told, *super()._badge()]

    def _filter_words(self, source: FilteredText) -> str:
        if self._reading:
            return f"{source.chosen.title} {ELLIPSIS} {source.looked_through_pct}%"
        count = self._shown_end - self._shown_first
        return f"{source.chosen.title}: {count:,}{'' if source.at_start else ' or more'}"

    def _search_words(self, query: Query) -> str:
        if self._searching:
            return f"{query.title} {ELLIPSIS}"
        if self._found is None:
            return f"{query.title}: not found"
        if not (self._source.at_start and self._source.at_end):
            return query.title
        return f"{query.title}: line {self._found - self._shown_first + 1:,} of {self._shown_end - self._shown_first:,}"

    def on_key(self, event: events.Key) -> None:
        """Pass keys to the prompt while it is open."""
        if self._prompt.text is None:
            return
        text = self._prompt.take(event)
        if event.key == "enter":
            self._answered(text)
        self._refresh_status()
        event.stop()
        event.prevent_default()

    def _answered(self, text: str) -> None:
        """Handle the answer to the prompt. An empty answer removes the filter, as in less."""
        if self._prompt.sign == SEARCH:
            if text:
                self._look_for(words(text))
        elif not text:
            self.end_filter()
        elif self._prompt.sign == ONLY:
            self._filter(only(text))
        elif chosen := of_rank(text):
            self._filter(chosen)
        else:
            self.notify("Enter a rank number", severity="warning")

    def _ask(self, sign: str) -> None:
        self._prompt.open(sign)
        self._refresh_status()

    def action_search(self) -> None:
        """Ask for the text to search, in the last row."""
        self._ask(SEARCH)

    # Filtering

    def action_only(self) -> None:
        """Ask for the text of the lines to show, in the last row."""
        self._ask(ONLY)

    def action_rank(self) -> None:
        """Ask for the rank whose lines to show, in the last row."""
        self._ask(RANK)

    def _filter(self, chosen: Filter) -> None:
        """Show only the lines that pass this filter, starting at the end of the log."""
        self._use(FilteredText(self._whole, chosen))

    def end_filter(self) -> bool:
        """Show all lines again, around the current line. Return False if there was no filter."""
        source = self._source
        if not isinstance(source, FilteredText):
            return False
        at, place = self._top, None
        if self._found is not None and at <= self._found < at + self._page_rows:
            at = self._found
        if not self._following and source.lines.first <= at < source.lines.end:
            place = place_of(at, source.lines)
        self._use(self._whole)
        if place:
            self._go_to(place)
        return True

    @work(exclusive=True, group="find")
    async def _go_to(self, place: LogPosition) -> None:
        """Scroll to the line with this text and number of equal lines below it, by a search from the end."""
        self._searching = True
        found: int | None = None
        try:
            for _ in range(place.below + 1):
                start = self._shown_end if found is None else found
                found = await self._source.find(place.pattern, start - 1, forward=False)
                if found is None:
                    return
        finally:
            self._searching = False
            self._refresh_status()
        if found is not None:
            self._show_line(found)
            self.refresh()

    @property
    def _whole(self) -> LogText:
        return self._source.whole if isinstance(self._source, FilteredText) else self._source

    def _use(self, source: LogText | FilteredText) -> None:
        """Show another choice of lines, and follow its end.

        Its line numbers are different, so the search result is dropped.
        """
        self.workers.cancel_group(self, "find")
        self._stop_reading()
        self._query = self._found = None
        self._source = source
        self._shown_first = self._left = 0
        self._scroll(0)
        self.action_follow()

    def on_paste(self, event: events.Paste) -> None:
        if self._prompt.text is not None:
            event.stop()
            self._prompt.paste(event.text)
            self._refresh_status()

    def _look_for(self, query: Query) -> None:
        """Search down from the top of the view.

        If the view follows the end, search up from the end instead, for the latest match.
        """
        backwards = self._following
        self._query, self._found = query, None
        self._page = None
        self.refresh()
        self._find(self._shown_end - 1 if backwards else self._top, forward=not backwards)

    def action_trouble(self) -> None:
        """Go to the nearest error above. `n` and `N` continue from there."""
        if self._query is TROUBLE:
            self.action_match(-1)
            return
        at = self._shown_end if self._following else self._top
        self._query, self._found = TROUBLE, None
        self._page = None
        self.refresh()
        self._find(at - 1, forward=False)

    def action_match(self, direction: int) -> None:
        """Go to the next match or, if `direction` is negative, to the previous one."""
        at = self._top if self._found is None else self._found
        self._find(at + direction, forward=direction > 0)

    @work(exclusive=True, group="find")
    async def _find(self, number: int, *, forward: bool) -> None:
        query = self._query
        if query is None:
            return
        self._searching = True
        self._refresh_status()
        try:
            self._found = await self._source.find(query.data, number, forward=forward)
        finally:
            self._searching = False
        if self._found is not None:
            self._show_line(self._found)
        self.refresh()

    def _show_line(self, number: int) -> None:
        """Show this line, and scroll only as far as needed. The view stops following the end."""
        self._stop_following()
        self._resize_content()
        if not self._top <= number < self._top + self._page_rows - 1 or self._wrapped:
            self._scroll(max(0, number - self._shown_first - MATCH_CONTEXT_LINES))
        self._read_on()

    def end_search(self) -> bool:
        """End the search or, if there is none, the filter. Return False if there was neither."""
        if self._query is None:
            return self.end_filter()
        self.workers.cancel_group(self, "find")
        self._query = None
        self._page = None
        self.refresh()
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the actions for the next match while there is no search."""
        return action != "match" or self._query is not None
