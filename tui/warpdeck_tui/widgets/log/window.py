"""The visible part of a growing log: it opens at the end, follows it, and never blocks the app.

Any move upward stops the following, and a badge then counts the new lines. Reaching the end starts the
following again. Data that arrives is drawn at most FLUSHES_PER_S times a second. Long lines are clipped and
scrolled sideways, or wrapped. When wrapped, the view moves by complete lines, and the middle of a line that
is longer than two pages can be seen only unwrapped. Colors are kept, and other escape sequences are ignored
(see `ansi`). Memory is limited: lines that are not kept are read when the user goes there (see `log_text`).
Searching is implemented in `log_view`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import work
from textual.geometry import Offset, Region
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from warpdeck_tui.table.palette import PLAIN, Palette
from warpdeck_tui.widgets.cells import fit
from warpdeck_tui.widgets.glyphs import ELLIPSIS
from warpdeck_tui.widgets.line_view import LineView
from warpdeck_tui.widgets.lines import blank, finished
from warpdeck_tui.widgets.wrapped import Row, page_from, page_to_end

from .ansi import segments, themed
from .filter import FilteredText
from .matches import pointed_out
from .text import LogText, Reader

FLUSHES_PER_S = 15
"""Redraws per second. People do not read faster, and each redraw of a following view rewrites the page, which
takes bytes on a slow connection.
"""
MAX_DRAWN_BYTES = 16 * 1024
"""A longer line is cut when drawn. Nobody scrolls 200 screens sideways."""
MAX_KEPT_ROWS = 200
"""Largest number of drawn rows that are kept, which is about two pages."""
SIDE_COLUMNS = 16
NEAR_PAGES = 2
"""Distance in pages to an end of the window at which more lines are read."""
ENOUGH_BYTES = 4 * 1024 * 1024
"""Size of the window up to which more lines are read to fill a page. If so many bytes do not fill it, the
lines are far wider than the screen, and more are read only when the user moves up.
"""
MATCH_CONTEXT_LINES = 3
"""Number of lines that stay visible above a match."""


class LogWindow(LineView):
    """A view of a log in which the user can move."""

    ALLOW_SELECT = True

    def __init__(self, *, id: str = "", styles: Palette | None = None) -> None:
        super().__init__(styles or {}, id=id)
        self._source: LogText | FilteredText = LogText()
        self._shown_first = self._shown_end = self._shown_bytes = 0
        self._following = True
        self._starts_at_top = False
        """Whether the beginning was asked for before any data arrived."""
        self._moving = False
        self._seen_lines = 0
        self._left = 0
        self._wrapped = False
        self._page: list[Row] | None = None
        self._rows: dict[tuple[bytes, int, int, Style], Strip] = {}
        """Drawn rows, by the bytes of their line, the first column, the width and the style below."""
        self._flush_timer: Timer | None = None
        self._reader: object | None = None

    @property
    def following(self) -> bool:
        """Whether new lines scroll the view."""
        return self._following

    @property
    def unseen(self) -> int:
        """Number of lines that arrived since the following stopped."""
        return 0 if self._following else self._source.fed_lines - self._seen_lines

    def feed(self, data: bytes) -> None:
        """Add more of the log, split anywhere.

        It is drawn shortly afterwards, together with other data that arrives until then.
        """
        self._source.feed(data)
        if self._flush_timer is None and self.is_mounted:
            self._flush_timer = self.set_timer(1 / FLUSHES_PER_S, self._flush)

    def clear(self, *, at_bytes: int = 0, read: Reader | None = None) -> None:
        """Make the view empty and follow the end.

        Data that is fed begins at offset `at_bytes`; `read` reads earlier parts.
        """
        self._source = self._source.whole if isinstance(self._source, FilteredText) else self._source
        self._source.clear(at_bytes=at_bytes, read=read)
        self._shown_first = self._shown_end = self._left = self._seen_lines = 0
        self._following = True
        if self.is_mounted:
            self._resize_content()
            self.refresh()

    def text(self) -> str:
        """Return all text in memory, including escape sequences."""
        return self._source.lines.text().decode("utf-8", "replace")

    def use_palette(self, styles: Palette) -> None:
        self._page = None
        self._rows.clear()
        super().use_palette(styles)

    # Following

    def _flush(self) -> None:
        """Draw the data that has arrived: the whole page if it scrolls, otherwise only the lines that
        differ.
        """
        self._flush_timer = None
        if self._shown_bytes == self._source.size_bytes:
            return
        top, last = self._top, self._shown_end
        self._show_window()
        if self._wrapped or self._top != top:
            self.refresh()
        else:
            self._refresh_from(last - 1)
        if self._is_short:
            self._read_on()
        if self._starts_at_top:
            self.action_first()

    def _show_window(self) -> None:
        """Adapt to the lines that are in the window now.

        The view stays at the end if it follows, otherwise on the same lines.
        """
        moved = self._source.lines.first - self._shown_first
        self._resize_content()
        if self._following:
            self._scroll(self.max_scroll_y)
        elif moved:
            self._scroll(max(0, self.scroll_offset.y - moved))

    def _resize_content(self) -> None:
        """Set the range of the scroll bar, so that the last page is full of the last lines."""
        self._page = None
        self._shown_bytes = self._source.size_bytes
        self._shown_first, self._shown_end = self._source.lines.first, self._source.lines.end
        count, page = self._shown_end - self._shown_first, self._page_rows
        height = count - self._fit_at_end() + page if self._wrapped and count else count
        self.set_content_rows(height)

    def _refresh_from(self, number: int) -> None:
        """Redraw the visible lines from this number on, and the last row, which contains the badge."""
        y = max(0, number - self._top)
        if y < self.size.height:
            rows = min(self._shown_end - self._top, self.size.height) - y
            self.refresh(Region(0, y, self.line_width, max(1, rows)))
        if not self._following:
            self._refresh_status()

    def _refresh_status(self) -> None:
        self.refresh(Region(0, self.size.height - 1, self.line_width, 1))

    def _scroll(self, y: float) -> None:
        """Scroll by program. Unlike scrolling by the user, this does not start or stop the following."""
        self._moving = True
        self.scroll_to(y=y, animate=False, force=True)
        self._moving = False

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._page = None
        if self._moving:
            return
        if new_value >= self.max_scroll_y and self._source.at_end:
            self._following = True
        elif new_value < old_value:
            self._stop_following()
        self._read_on()

    def _stop_following(self) -> None:
        if self._following:
            self._following, self._seen_lines = False, self._source.fed_lines

    @property
    def _top(self) -> int:
        """The number of the line at the top of the view."""
        return self._shown_first + int(self.scroll_offset.y)

    @property
    def _page_rows(self) -> int:
        return max(1, self.size.height)

    # Reading more lines

    def _read_on(self) -> None:
        """Read missing lines near the view, or everything up to the end if it is followed."""
        if not self._reading and self._missing():
            self._reader = object()
            self._read(self._reader)

    @property
    def _reading(self) -> bool:
        return self._reader is not None

    def _stop_reading(self) -> None:
        """Cancel reading, because its result is not needed any more."""
        self.workers.cancel_group(self, "read")
        self._reader = None

    @work(group="read")
    async def _read(self, turn: object) -> None:
        try:
            while reader := self._missing():
                before = self._shown_first, self._shown_end
                if not await reader():
                    return
                self._show_window()
                if before != (self._shown_first, self._shown_end):
                    self.refresh()
                else:
                    self._refresh_status()
        finally:
            if self._reader is turn:  # otherwise another reader is running by now
                self._reader = None
                self._refresh_status()

    def _missing(self) -> Callable[[], Awaitable[bool]] | None:
        """Return the method that reads the lines needed next, or None if none are missing."""
        source, near = self._source, NEAR_PAGES * self._page_rows
        below = self._shown_end - self._top - self._page_rows
        if not source.at_end and (self._following or below < near):
            return source.read_after
        above = self._top - self._shown_first
        if not source.at_start and (self._is_short or (not self._following and above < near)):
            return source.read_before
        return None

    @property
    def _is_short(self) -> bool:
        """Whether the lines in memory do not fill a page although there are more.

        This happens if few lines match, or if they are very long.
        """
        source, count = self._source, self._shown_end - self._shown_first
        if isinstance(source, FilteredText):
            return count < NEAR_PAGES * self._page_rows
        return 0 < count < self._page_rows and source.lines.cost_bytes < ENOUGH_BYTES

    # Painting

    def render_line(self, y: int) -> Strip:
        width = self.line_width
        base, number = self.rich_style, self._top + y
        is_last = y == self.size.height - 1
        if not is_last and not self._wrapped and not self._is_marked and number < self._shown_end:
            return self._kept_row(number, width, base).apply_offsets(self._left, number - self._shown_first)
        strip, number, start = self._content(y, width)
        if is_last:
            strip = self._with_status(strip, width)
        drawn = finished(strip, width, base=base)
        return drawn.apply_offsets(start, number) if number >= 0 else drawn

    @property
    def _is_marked(self) -> bool:
        """Whether some parts of lines are highlighted, so that equal lines may look different."""
        return self.text_selection is not None

    def _kept_row(self, number: int, width: int, base: Style) -> Strip:
        """Return the row of a whole line. While a log is followed, nearly all rows only move up."""
        lines = self._source.lines
        text = lines.line(number)[:MAX_DRAWN_BYTES] if lines.first <= number < lines.end else b""
        key = (text, self._left, width, base)
        found = self._rows.get(key)
        if found is None:
            if len(self._rows) >= MAX_KEPT_ROWS:
                self._rows.clear()
            found = finished(self._clipped(self._line(number), width), width, base=base)
            self._rows[key] = found
        return found

    def _content(self, y: int, width: int) -> tuple[Strip, int, int]:
        """Return (content of the row, index of its line in the window or -1, column at which the row
        starts).
        """
        if self._wrapped:
            page = self._wrapped_page(width)
            if y >= len(page):
                return blank(width, base=PLAIN), -1, 0
            number, start, strip = page[y]
            return strip, number - self._shown_first, start
        number = self._top + y
        if number >= self._shown_end:
            return blank(width, base=PLAIN), -1, 0
        return self._clipped(self._line(number), width), number - self._shown_first, self._left

    def _line(self, number: int) -> Strip:
        """Return a whole line, with search matches and the mouse selection highlighted."""
        drawn = self._segments(number)
        text = "".join(segment.text for segment in drawn)
        drawn = self._with_matches(drawn, text)
        selected = None
        if self.text_selection is not None:
            selected = self.text_selection.get_span(number - self._shown_first)
        if selected is not None:
            start, end = selected[0], len(text) if selected[1] < 0 else selected[1]
            style = self.screen.get_component_rich_style("screen--selection")
            drawn = pointed_out(drawn, [(start, end)], style)
        return Strip(drawn)

    def _with_matches(self, drawn: list[Segment], text: str) -> list[Segment]:
        """Return the line with the search matches highlighted. Subclasses implement this."""
        return drawn

    def _segments(self, number: int) -> list[Segment]:
        """Return the text of a line in its own colors."""
        lines = self._source.lines
        # Data since the last redraw may have pushed out the oldest lines.
        if not lines.first <= number < lines.end:
            return []
        drawn = segments(lines.line(number)[:MAX_DRAWN_BYTES])
        return [Segment(text, themed(style, self._styles) if style else PLAIN) for text, style, _ in drawn]

    def _clipped(self, strip: Strip, width: int) -> Strip:
        """Return the visible part of the line, with a symbol at the right if there is more."""
        length = strip.cell_length
        clipped = strip.crop(self._left, self._left + width)
        if length <= self._left + width:
            return clipped
        more = Segment(ELLIPSIS, self._styles.get("muted", PLAIN))
        return Strip([*clipped.crop(0, width - 1), more])

    def _wrapped_page(self, width: int) -> list[Row]:
        """Return the visible rows. At the very end, the page is filled from below."""
        if self._page is None:
            last = self.scroll_offset.y >= self.max_scroll_y
            numbers = range(self._top, self._shown_end)
            self._page = (page_to_end if last else page_from)(
                self._line, numbers, width=max(1, width), rows=self._page_rows
            )
        return self._page

    def _fit_at_end(self) -> int:
        """Return how many of the last lines fill the page when wrapped.

        Of the first of them, only the end may be visible.
        """
        numbers = range(self._shown_first, self._shown_end)
        rows = page_to_end(self._line, numbers, width=max(1, self.line_width), rows=self._page_rows)
        return self._shown_end - rows[0].number

    def _with_status(self, strip: Strip, width: int) -> Strip:
        """Return the last row, with a badge at its right end."""
        told = "  ".join(self._badge())
        if not told:
            return strip
        badge = f" {told} "
        badge = fit(badge, min(width, cell_len(badge)))
        style = self._styles.get("new", Style(reverse=True))
        return Strip([*strip.adjust_cell_length(width - cell_len(badge)), Segment(badge, style)])

    def _badge(self) -> list[str]:
        """Return the texts about the position in the log."""
        told = []
        if not self._following and not (self._source.at_start and self._source.at_end):
            told.append(f"{100 * self._source.start_bytes // max(1, self._source.size_bytes)}%")
        if self.unseen:
            told.append(f"+{self.unseen:,} new (G to follow)")
        return told

    # Moving

    def action_move(self, by: int) -> None:
        if by < 0 and not self.scroll_offset.y and not self._source.at_start:
            self._stop_following()
            self._read_on()
        self.scroll_to(y=self.scroll_offset.y + by, animate=False, force=True)

    def action_page(self, pages: float) -> None:
        """Move by this number of pages.

        For whole pages, one line of the old page stays visible for orientation.
        """
        rows = max(1, int(abs(pages) * self._page_rows) - (abs(pages) >= 1))
        self.action_move(rows if pages > 0 else -rows)

    def action_side(self, direction: int) -> None:
        """Scroll sideways along clipped lines."""
        left = min(max(0, self._left + direction * SIDE_COLUMNS), MAX_DRAWN_BYTES)
        if left != self._left and not self._wrapped:
            self._left = left
            self.refresh()

    def action_first(self) -> None:
        """Go to the beginning of the log, even if it is not in memory."""
        self._starts_at_top = not self._source.size_bytes
        if self._starts_at_top:
            return
        # The scroll range does not include the latest data yet, and is 0 before the view is laid out.
        lines = self._source.lines
        if self.max_scroll_y > 0 or lines.end - lines.first > self._page_rows or not self._source.at_start:
            self._stop_following()
        self._source.to_start()
        self._resize_content()
        self._scroll(0)
        self.refresh()
        self._read_on()

    def action_follow(self) -> None:
        """Go to the end and follow it."""
        self._following, self._starts_at_top = True, False
        self._source.to_end()
        self._show_window()
        self.refresh()
        self._read_on()

    def action_last(self) -> None:
        self.action_follow()

    def action_wrap(self) -> None:
        """Switch between wrapping and clipping long lines. The line at the top stays there."""
        self._wrapped = not self._wrapped
        self._left = 0
        self._show_window()
        self.refresh()

    # Selecting text with the mouse

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        count = self._shown_end - self._shown_first
        start = selection.start or Offset(0, 0)
        stop = selection.end or Offset(MAX_DRAWN_BYTES, count - 1)
        texts = []
        for row in range(max(0, start.y), min(count, stop.y + 1)):
            text = "".join(segment.text for segment in self._segments(self._shown_first + row))
            text = text[: stop.x] if row == stop.y else text
            texts.append(text[start.x :] if row == start.y else text)
        return "\n".join(texts), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self._page = None
        self.refresh()

    # Events

    def on_mount(self) -> None:
        self._flush()

    def rearrange(self) -> None:
        self._show_window()
