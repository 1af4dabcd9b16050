"""The "Sessions" screen: interactive jobs and forwarded ports, which the user can join, watch or end."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import ForwardRow, JobRow
from warpdeck_tui.screens.shared.deck_screen import DeckScreen, paint
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.preview import FIRST_COLUMNS
from warpdeck_tui.screens.shared.stack import Stack
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.cells import folded
from warpdeck_tui.viewmodels.jobs.waiting import why_words
from warpdeck_tui.viewmodels.shell.replay import Screen
from warpdeck_tui.viewmodels.shell.sessions import (
    FORWARD,
    forward_facts,
    glance_text,
    glance_title,
    leads_to,
    return_lines,
    session_rows,
    sessions,
    summary,
    url,
)
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

TICK_S = 1.0
ASK_TICKS = 3
"""Number of ticks between two requests for the forwards. The controller does not push them, so they are
polled while the screen is visible.
"""
COLS = 200
"""Assumed width of a session's screen in columns, because the real width is unknown. Programs that position
their text state the column.
"""
GLANCE_ROWS = 10
MAX_REPLAYED_BYTES = 64 * 1024
"""Largest number of bytes of a session's output that are replayed. This is several screens, and fast to
replay.
"""
COLUMNS = (
    Column("JOB", 8),
    Column("STATE", 5),
    Column("NAME", 14, flex=1, most=24),
    Column("USER", 8, 2),
    Column("GPU", 3, align="right"),
    Column("TIME", 7, align="right"),
    Column("NODES", 23, flex=2),
    Column("", 12, 1, key="use", flex=3),
)


class ShownSessions(NamedTuple):
    """The screen of a session, and the offset up to which its output was read."""

    screen: Screen
    offset: int = 0


class SessionsScreen(DeckScreen):
    """Waiting and running interactive jobs, and the forwarded ports.

    The jobs are those of the user or of everybody, as in the queue.
    """

    place = "sessions"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (FIRST_COLUMNS, "-wide")]  # noqa: RUF012  (as Textual declares it)
    VERTICAL_BREAKPOINTS = [(0, "-low"), (40, "-tall")]  # noqa: RUF012  (as Textual declares it)
    BINDINGS: ClassVar[list[BindingType]] = bindings("sessions")

    def __init__(self) -> None:
        super().__init__()
        self._forwards: list[ForwardRow] = []
        self._ticks = self._rows = 0
        self._drawn = {"#glance": Text(), "#session": Text(), "#told": Text()}
        self._seen: dict[str, ShownSessions] = {}
        """The screens of the sessions that were looked at, by job key."""
        self._whole: tuple[str, str] = ("", "")
        """The key of the forward whose URL is shown with its token, and that URL. The next move of the cursor
        hides it.
        """

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Container(id="pair"):
            table = VirtualTable(COLUMNS, self.deck.palette, empty="", id="sessions")
            yield Stack(Frame(table, is_main=True), Frame(Static("", id="session", markup=False), id="about"))
            with Frame(id="terminal"):
                yield Static("", id="glance", markup=False)
        yield Static("", id="told", markup=False)
        yield KeyLine()

    @property
    def table(self) -> VirtualTable:
        return self.query_one(VirtualTable)

    @property
    def job_keys(self) -> list[str]:
        """The session under the cursor."""
        key = self.table.cursor_key
        return [key] if key and not key.startswith(FORWARD) else []

    def applies(self, action: str) -> bool:
        if action == "watch":
            return super().applies("attach")
        if action in ("end_forward", "whole_url"):
            return self._forward() is not None
        return super().applies(action)

    def arrive(self) -> None:
        self.every(TICK_S, self._tick)
        self.table.focus()
        self._ask()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        if not self.is_left:
            self._ask()

    def on_resize(self) -> None:
        if not self.is_left:
            self.call_after_refresh(self._show_panes)  # the frames have their new sizes then

    def recolour(self) -> None:
        self.table.use_palette(self.deck.palette)

    def _tick(self) -> None:
        if self.deck.front is not self:
            return
        self._ticks += 1
        if self._ticks % ASK_TICKS == 0:
            self._ask()
            self._look()
        elif self.rests:
            return
        self.draw()

    @work(exclusive=True)
    async def _ask(self) -> None:
        try:
            self._forwards = await self.deck.core.forwards()
        except UserError:  # there is no connection, as the line at the top says
            self._forwards = []
        self.draw()

    @work(exclusive=True, group="glance")
    async def _look(self) -> None:
        """Update the screen of the session under the cursor."""
        row = self.deck.find_job(self.job_keys[0]) if self.job_keys else None
        if row is None or row.state != "RUNNING" or row.user != self.deck.board.user:
            return
        seen = self._seen.get(str(row.id), ShownSessions(Screen(cols=COLS)))
        try:
            found = await self.deck.core.glance(row.label, offset=seen.offset)
        except UserError:  # the session is starting, ending, or its node is unreachable; the table shows that
            return
        self._seen[str(row.id)] = seen._replace(
            offset=found.offset
        )  # set before the await, because the thread continues if this is canceled
        await asyncio.to_thread(seen.screen.feed, found.data[-MAX_REPLAYED_BYTES:])
        self._show_panes()

    def _show_panes(self) -> None:
        if self.is_left:
            return
        self._show_glance()
        self._show_about()

    def _show_glance(self) -> None:
        """Show the last lines of the screen under the cursor.

        If there is none, the pane shows the facts about the session on a wide terminal, and is hidden on a narrow one.
        """
        frame = self.query_one("#terminal", Frame)
        key = self.job_keys[0] if self.job_keys else ""
        seen, row = self._seen.get(key), self.deck.find_job(key) if key else None
        live = seen if row is not None and row.end is None else None
        frame.display = live is not None or self.size.width >= FIRST_COLUMNS
        if not frame.display:
            return
        if live is not None and row is not None:
            rows = max(1, frame.size.height or GLANCE_ROWS)
            drawn = glance_text(live.screen.lines(), rows=rows, styles=self.styles_now)
            self._put(frame, "#glance", glance_title(row), drawn)
            return
        title, lines = self._facts(row, width=frame.size.width)
        self._put(frame, "#glance", title, self._folded(lines, frame))

    def _show_about(self) -> None:
        """Show the facts about the session below a short table, while its terminal is beside the table."""
        key = self.job_keys[0] if self.job_keys else ""
        row = self.deck.find_job(key) if key in self._seen else None
        is_wanted = row is not None and row.end is None and self.size.width >= FIRST_COLUMNS
        if self.query_one(Stack).fit(rows=self._rows, headers=1, wants_below=is_wanted):
            frame = self.query_one("#about", Frame)
            title, lines = self._facts(row, width=frame.size.width)
            self._put(frame, "#session", title, self._folded(lines, frame))

    def _folded(self, lines: list[Line], frame: Frame) -> Text:
        width = max(1, frame.size.width)
        return paint([part for line in lines for part in folded(line, width)], self.styles_now)

    def _put(self, frame: Frame, pane: str, title: Line, drawn: Text) -> None:
        frame.show_title(paint([title], self.styles_now))
        if drawn != self._drawn[pane]:
            self._drawn[pane] = drawn
            self.query_one(pane, Static).update(drawn, layout=False)

    def _facts(self, row: JobRow | None, *, width: int) -> tuple[Line, list[Line]]:
        """Return the title and the facts about the session or the forward under the cursor."""
        from warpdeck_tui.viewmodels.jobs.preview import About, gpus_of, preview_lines, preview_title

        forward = self._forward()
        if forward is not None:
            return forward_facts(forward, now=time.time())
        if row is None:
            return (Cell("Session", "title"),), [(Cell(""), Cell(self._nothing(), "muted"))]
        about = About(nodes=gpus_of(row, self.deck.board.nodes))
        lines = preview_lines(row, about, now=time.time(), width=width)
        return preview_title(row), [*lines, *return_lines(row, user=self.deck.board.user)]

    def draw(self) -> None:
        board = self.deck.board
        found = sessions(board.jobs.values(), user=None if self.deck.everybody else self.deck.board.user)
        rows = session_rows(found, self._forwards, now=time.time())
        self._rows = len(rows)
        self.table.show(rows, empty=self._nothing())
        self.set_head(summary(found, self._forwards))
        self._show_panes()
        self._tell()

    def _nothing(self) -> str:
        no_shell = self.deck.board.scheduler.refusal("app", "shell")
        return "No sessions" if no_shell else "No sessions. Press i to open a shell"

    def on_virtual_table_moved(self) -> None:
        self._whole = ("", "")
        self._tell()
        self._show_panes()
        self._look()

    def _tell(self) -> None:
        """Show the row under the cursor in full, and the key that opens a shell.

        The table cuts off long texts.
        """
        board, forward = self.deck.board, self._forward()
        words = f"{url(forward)}   {leads_to(forward)}" if forward is not None else ""
        shown, whole = self._whole
        if whole and shown == self.table.cursor_key:
            words = whole
        row = self.deck.find_job(self.job_keys[0]) if self.job_keys else None
        if row is not None and row.why is not None:
            words = why_words(row.why)
        no_shell = board.scheduler.refusal("app", "shell")
        opens = no_shell or "i opens a shell of the size that you choose"
        told = Text(f"{printable(words)}\n{opens}")
        if told != self._drawn["#told"]:
            self._drawn["#told"] = told
            self.query_one("#told", Static).update(told, layout=False)
        self.show_keys()

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        if not event.key.startswith(FORWARD):
            self.deck.navigation.open_job(event.key)

    def _forward(self) -> ForwardRow | None:
        """Return the forward under the cursor, or None."""
        key = self.table.cursor_key
        return next((row for row in self._forwards if key == f"{FORWARD}{row.number}"), None)

    def action_watch(self) -> None:
        if self.job_keys:
            self.deck.verbs.attach(self.job_keys[0], watch=True)

    @work
    async def action_end_forward(self) -> None:
        row = self._forward()
        if row is None:
            self.app.notify("No forwarded port under the cursor", severity="warning", markup=False)
            return
        try:
            await self.deck.core.end_forward(row.number)
        except UserError as error:
            self.deck.tell_error(error)
            return
        self.deck.chronicle.add(f"warpdeck forward --end {row.number}")
        self.app.notify(f"Stopped forwarding port {row.local_port}", markup=False)
        self._ask()

    def action_copy(self) -> None:
        row = self._forward()
        if row is None:
            super().action_copy()
        else:
            self._copy_url(row)

    @work(exclusive=True, group="url")
    async def _copy_url(self, row: ForwardRow) -> None:
        if whole := await self._whole_url(row):
            self.deck.copy(whole, shown=url(row))

    @work(exclusive=True, group="url")
    async def action_whole_url(self) -> None:
        """Show or hide the token of the forward's URL."""
        key, row = self.table.cursor_key, self._forward()
        if key == self._whole[0]:
            self._whole = ("", "")
        elif row is not None:
            whole = await self._whole_url(row)
            self._whole = (key, whole) if key == self.table.cursor_key else ("", "")
        self._tell()

    async def _whole_url(self, row: ForwardRow) -> str:
        """Return the URL with its token. If that fails, show why and return ""."""
        try:
            return url(row, page=await self.deck.core.forward_page(row.number))
        except UserError as error:
            self.deck.tell_error(error)
            return ""

    def action_back(self) -> None:
        self.deck.navigation.show_queue()
