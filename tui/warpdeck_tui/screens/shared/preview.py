"""The pane beside a list of jobs, which shows the job under the cursor.

A job is looked at once the cursor has rested on it for a moment. At most one log is followed at a time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual import work
from textual.timer import Timer
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.cells import folded
from warpdeck_tui.viewmodels.jobs.arrays import Fold

from .frames import Frame
from .painting import paint

if TYPE_CHECKING:
    from warpdeck_tui.viewmodels.jobs.preview import About
    from warpdeck_tui.widgets.log.view import LogView

REST_S = 0.15
"""Seconds for which the cursor must rest on a job before anything is requested about it."""
TAIL_BYTES = 16 * 1024
"""Number of bytes at the end of a log that are shown and searched for metrics."""
METRICS_S = 4.0
"""Least number of seconds between two searches for metrics in a growing log."""
LEAST_LOG_ROWS = 4
MOST_FACTS = 0.7
"""Largest share of the height for the facts if a log is shown below them."""
FIRST_COLUMNS = 120
"""Least width of the screen at which there is space for the pane."""


class _Facts(Static):
    """The facts about the job, which are drawn every second."""

    auto_links = False
    """Otherwise Textual would go through all characters for links at each drawing."""


class Preview(Frame):
    """The pane. It shows nothing while it is hidden."""

    def __init__(self) -> None:
        super().__init__(_Facts("", id="facts", markup=False), id="preview")
        self._row: JobRow | None = None
        self._array: Fold | None = None
        self._looked_at = ("", "")
        """The key and the state of the job that is shown, or will be shown after a moment."""
        self._rest: Timer | None = None
        self._about: About | None = None
        self._drawn: object = None
        self._log: LogView | None = None
        self._tail = b""

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    def show(self, row: JobRow | None, array: Fold | None) -> None:
        """Show the job or the array under the cursor: at once if it is shown already, otherwise after a moment."""
        if not self.display:
            return
        self._row, self._array = (array.head if array is not None else row), array
        shown = ("", "")
        if self._row is not None:
            key = array.key if array is not None else str(self._row.id)
            shown = (key, _phase(self._row) if array is None else "")
        if shown != self._looked_at:
            self.stop()
            self._looked_at = shown
            self._rest = self.set_timer(REST_S, self._begin)
        elif self._about is not None:
            self._draw()

    def stop(self) -> None:
        """Stop following a log, because another job is shown or the screen is not in front."""
        self.workers.cancel_group(self, "look")
        if self._rest is not None:
            self._rest.stop()
        self._rest = self._about = None
        self._looked_at = ("", "")

    def _begin(self) -> None:
        # The first frame does not need the module.
        from warpdeck_tui.viewmodels.jobs.preview import About

        self._rest, self._about, self._tail = None, About(), b""
        if self._log is not None:
            self._log.clear()
        self._draw()
        if self._row is not None and self._array is None:
            self._look(self._row)

    @work(exclusive=True, group="look")
    async def _look(self, row: JobRow) -> None:
        """Request more about the job: the forecast of a waiting job, or the end of the output."""
        try:
            if row.state == "PENDING":
                await self._forecast(row)
            elif not row.interactive:
                await self._show_log()
                await (self._follow(row) if row.end is None else self._inquire(row))
        except UserError as error:
            self._tell(error.message)

    async def _forecast(self, row: JobRow) -> None:
        if not self.deck.board.scheduler.reason("forecast"):
            with contextlib.suppress(UserError):  # the row says why the job waits
                forecast = await self.deck.core.forecast(str(row.id))
                self._learn(lambda about: about._replace(forecast=forecast))

    async def _follow(self, row: JobRow) -> None:
        chunks = self.deck.core.follow_log(str(row.id), channel="out", tail_bytes=TAIL_BYTES)
        searched_at = 0.0
        async with contextlib.aclosing(chunks):
            async for at_bytes, chunk in chunks:
                if self._log is not None:
                    self._log.feed(chunk if self._tail or not at_bytes else chunk.partition(b"\n")[2])
                self._tail = (self._tail + chunk)[-TAIL_BYTES:]
                if time.monotonic() - searched_at >= METRICS_S:
                    searched_at = time.monotonic()
                    self._learn(lambda about: about._replace(tail=self._tail))

    async def _inquire(self, row: JobRow) -> None:
        """Show the end of the output of an ended job, and search it for the cause of a failure."""
        from warpdeck_tui.viewmodels.jobs.postmortem import UNSUSPECTED, post_mortem

        tail = await self.deck.core.log_tail(str(row.id), channel="out", size_bytes=TAIL_BYTES)
        if self._log is not None:
            self._log.feed(tail)
        if row.state not in UNSUSPECTED:
            detail = await self.deck.core.job(str(row.id))
            words = post_mortem(detail, tail).words
            self._learn(lambda about: about._replace(died_of=words))

    def _learn(self, learned: Callable[[About], About]) -> None:
        if self._about is not None:
            self._about = learned(self._about)
            self._draw()

    def _tell(self, words: str) -> None:
        """Show a problem in place of the output."""
        if self._log is not None and not self._tail:
            self._log.feed(words.encode())

    async def _show_log(self) -> None:
        if self._log is None:
            from warpdeck_tui.widgets.log.view import LogView

            self._log = LogView(id="preview-log", styles=self.deck.palette)
            self._log.can_focus = False
            await self.mount(self._log)
            self._log.use_palette(self.deck.palette)

    def recolour(self) -> None:
        """Apply the colors of another theme."""
        if self._log is not None:
            self._log.use_palette(self.deck.palette)

    # ---- Drawing

    def on_resize(self) -> None:
        if self._about is not None:
            self._draw()

    def _draw(self) -> None:
        """Draw the facts unless they are drawn already. Their number decides on the space for the log."""
        from warpdeck_tui.viewmodels.jobs import preview as view

        row, array, about, now = self._row, self._array, self._about, time.time()
        width, height = self.size
        if about is None or not width:
            return
        title: Line = (Cell("Preview", "title"),)
        lines: list[Line] = [(Cell(""), Cell("No job under the cursor", "muted"))]
        has_log = False
        if array is not None:
            title, lines = view.array_title(array), view.array_lines(array, now=now, width=width)
        elif row is not None:
            about = about._replace(nodes=view.gpus_of(row, self.deck.board.nodes))
            title, lines = view.preview_title(row), view.preview_lines(row, about, now=now, width=width)
            has_log = row.state != "PENDING" and not row.interactive
        lines = [part for line in lines for part in folded(line, width - 2)]
        most = max(1, min(height - LEAST_LOG_ROWS, int(height * MOST_FACTS)) if has_log else height)
        self._put(title, lines[:most], has_log=has_log)

    def _put(self, title: Line, lines: list[Line], *, has_log: bool) -> None:
        styles = self.deck.palette
        drawn = (title, lines, has_log, id(styles))
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self.show_title(paint([title], styles))
        if self._log is not None:
            self._log.display = has_log
        facts = self.query_one("#facts", Static)
        if facts.styles.height is None or facts.styles.height.value != len(lines):
            facts.styles.height = len(lines)
        facts.update(paint(lines, styles), layout=False)


def _phase(row: JobRow) -> str:
    return "ended" if row.end is not None else "waits" if row.state == "PENDING" else "runs"
