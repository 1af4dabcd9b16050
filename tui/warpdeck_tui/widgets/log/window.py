"""The part of a growing log that is on the screen: opens at its end, follows it, and never holds anything up.

Any move upward stops following, and a badge then counts what is new; reaching the end follows again. Bytes that come in
are drawn together, at most FLUSHES_PER_S times a second. Long lines are clipped and scrolled sideways, or wrapped: then the
view moves by whole lines, and of one longer than two pages the middle is seen unwrapped only. Colours are kept, other escapes
are not obeyed (see `ansi`), and memory is bounded: what is not kept is read when somebody goes there (see `log_text`). What is
searched for is `log_view`'s.
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
"""The eye reads no faster, and each flush of a following view rewrites the page: bytes on a slow line."""
MAX_DRAWN_BYTES = 16 * 1024
"""A longer line is cut when drawn: 200 screens sideways are beyond use."""
SIDE_COLUMNS = 16
NEAR_PAGES = 2
"""So near to an end of what is kept, more is read."""
ENOUGH_BYTES = 4 * 1024 * 1024
"""Where so much does not fill a page its lines are far wider than the screen: more of them is read when somebody goes up."""
MATCH_CONTEXT_LINES = 3
"""So many lines stay visible above a match."""


class LogWindow(LineView):
    """A log that can be moved through."""

    ALLOW_SELECT = True

    def __init__(self, *, id: str = "", styles: Palette | None = None) -> None:
        super().__init__(styles or {}, id=id)
        self._source: LogText | FilteredText = LogText()
        self._shown_first = self._shown_end = self._shown_bytes = 0
        self._following = True
        self._moving = False
        self._seen_lines = 0
        self._left = 0
        self._wrapped = False
        self._page: list[Row] | None = None
        self._flush_timer: Timer | None = None
        self._reader: object | None = None

    @property
    def following(self) -> bool:
        """Whether new lines move the view."""
        return self._following

    @property
    def unseen(self) -> int:
        """Lines that came since following stopped."""
        return 0 if self._following else self._source.fed_lines - self._seen_lines

    def feed(self, data: bytes) -> None:
        """More of the log, cut anywhere; drawn a little later together with what comes until then."""
        self._source.feed(data)
        if self._flush_timer is None and self.is_mounted:
            self._flush_timer = self.set_timer(1 / FLUSHES_PER_S, self._flush)

    def clear(self, *, at_bytes: int = 0, read: Reader | None = None) -> None:
        """Empty again, and following. What is fed begins there in the file; `read` gets what stands before."""
        self._source = self._source.whole if isinstance(self._source, FilteredText) else self._source
        self._source.clear(at_bytes=at_bytes, read=read)
        self._shown_first = self._shown_end = self._left = self._seen_lines = 0
        self._following = True
        if self.is_mounted:
            self._resize_content()
            self.refresh()

    def text(self) -> str:
        """All that is kept, escapes and all."""
        return self._source.lines.text().decode("utf-8", "replace")

    def use_palette(self, styles: Palette) -> None:
        self._page = None
        super().use_palette(styles)

    # Following

    def _flush(self) -> None:
        """Shows what has come in: the whole page if it moves, else only the lines that differ."""
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

    def _show_window(self) -> None:
        """Takes over what is kept now: the end stays in view if it is followed, else the lines that were in view do."""
        moved = self._source.lines.first - self._shown_first
        self._resize_content()
        if self._following:
            self._scroll(self.max_scroll_y)
        elif moved:
            self._scroll(max(0, self.scroll_offset.y - moved))

    def _resize_content(self) -> None:
        """Tells the scroll bar how far there is to go: the last page is full of the last lines."""
        self._page = None
        self._shown_bytes = self._source.size_bytes
        self._shown_first, self._shown_end = self._source.lines.first, self._source.lines.end
        count, page = self._shown_end - self._shown_first, self._page_rows
        height = count - self._fit_at_end() + page if self._wrapped and count else count
        self.set_content_rows(height)

    def _refresh_from(self, number: int) -> None:
        """Writes the visible lines from that number on, and the last row, where the badge is."""
        y = max(0, number - self._top)
        if y < self.size.height:
            rows = min(self._shown_end - self._top, self.size.height) - y
            self.refresh(Region(0, y, self.line_width, max(1, rows)))
        if not self._following:
            self._refresh_status()

    def _refresh_status(self) -> None:
        self.refresh(Region(0, self.size.height - 1, self.line_width, 1))

    def _scroll(self, y: float) -> None:
        """Scrolls on our own account: it says nothing about what the user wants."""
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

    # Reading on

    def _read_on(self) -> None:
        """Reads what is missing near the view, and the whole way to the end if it is followed."""
        if not self._reading and self._missing():
            self._reader = object()
            self._read(self._reader)

    @property
    def _reading(self) -> bool:
        return self._reader is not None

    def _stop_reading(self) -> None:
        """What is still read is for nobody."""
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
            if self._reader is turn:  # else another one reads by now
                self._reader = None
                self._refresh_status()

    def _missing(self) -> Callable[[], Awaitable[bool]] | None:
        """How to get what the view will need next, None if it has that."""
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
        """What is kept does not fill a page, though there is more: few lines match, or they are long ones."""
        source, count = self._source, self._shown_end - self._shown_first
        if isinstance(source, FilteredText):
            return count < NEAR_PAGES * self._page_rows
        return 0 < count < self._page_rows and source.lines.cost_bytes < ENOUGH_BYTES

    # Painting

    def render_line(self, y: int) -> Strip:
        width = self.line_width
        strip, number, start = self._content(y, width)
        if y == self.size.height - 1:
            strip = self._with_status(strip, width)
        drawn = finished(strip, width, base=self.rich_style)
        return drawn.apply_offsets(start, number) if number >= 0 else drawn

    def _content(self, y: int, width: int) -> tuple[Strip, int, int]:
        """(what stands on the row, its place among the lines or -1, the column that it starts at)."""
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
        """A whole line, with what the search and the mouse point out."""
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
        """A line with what is looked for pointed out."""
        return drawn

    def _segments(self, number: int) -> list[Segment]:
        """A line's text in its own colours."""
        lines = self._source.lines
        # What came since the last flush may have pushed out the oldest lines.
        if not lines.first <= number < lines.end:
            return []
        drawn = segments(lines.line(number)[:MAX_DRAWN_BYTES])
        return [Segment(text, themed(style, self._styles) if style else PLAIN) for text, style, _ in drawn]

    def _clipped(self, strip: Strip, width: int) -> Strip:
        """The part of the line in view; a sign at the right if there is more."""
        length = strip.cell_length
        clipped = strip.crop(self._left, self._left + width)
        if length <= self._left + width:
            return clipped
        more = Segment(ELLIPSIS, self._styles.get("muted", PLAIN))
        return Strip([*clipped.crop(0, width - 1), more])

    def _wrapped_page(self, width: int) -> list[Row]:
        """The rows in view; at the very end the page is filled from below."""
        if self._page is None:
            last = self.scroll_offset.y >= self.max_scroll_y
            numbers = range(self._top, self._shown_end)
            self._page = (page_to_end if last else page_from)(
                self._line, numbers, width=max(1, width), rows=self._page_rows
            )
        return self._page

    def _fit_at_end(self) -> int:
        """How many of the last lines it takes to fill the page when wrapped; of the first of them only the end may be seen."""
        numbers = range(self._shown_first, self._shown_end)
        rows = page_to_end(self._line, numbers, width=max(1, self.line_width), rows=self._page_rows)
        return self._shown_end - rows[0].number

    def _with_status(self, strip: Strip, width: int) -> Strip:
        """The last row: with a badge at its right end."""
        told = "  ".join(self._badge())
        if not told:
            return strip
        badge = f" {told} "
        badge = fit(badge, min(width, cell_len(badge)))
        style = self._styles.get("new", Style(reverse=True))
        return Strip([*strip.adjust_cell_length(width - cell_len(badge)), Segment(badge, style)])

    def _badge(self) -> list[str]:
        """What is said of the place in the log."""
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
        """Moves by so many pages; a line of the old page stays for orientation."""
        rows = max(1, int(abs(pages) * self._page_rows) - (abs(pages) >= 1))
        self.action_move(rows if pages > 0 else -rows)

    def action_side(self, direction: int) -> None:
        """Sideways along clipped lines."""
        left = min(max(0, self._left + direction * SIDE_COLUMNS), MAX_DRAWN_BYTES)
        if left != self._left and not self._wrapped:
            self._left = left
            self.refresh()

    def action_first(self) -> None:
        """To the beginning of the log, wherever that is."""
        # What was just fed has not moved the end yet, nor has a view that is not laid out a height.
        lines = self._source.lines
        if self.max_scroll_y > 0 or lines.end - lines.first > self._page_rows or not self._source.at_start:
            self._stop_following()
        self._source.to_start()
        self._resize_content()
        self._scroll(0)
        self.refresh()
        self._read_on()

    def action_follow(self) -> None:
        """To the end, and on with it."""
        self._following = True
        self._source.to_end()
        self._show_window()
        self.refresh()
        self._read_on()

    def action_last(self) -> None:
        self.action_follow()

    def action_wrap(self) -> None:
        """Wraps long lines, or clips them again; the line at the top stays there."""
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
