"""The queue: jobs with their state, progress and GPU use, and the reason of those that wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Footer, Label

from warpdeck_tui.actions import bindings
from warpdeck_tui.viewmodels import queue_rows
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

from .dialogs import Ask

if TYPE_CHECKING:
    from warpdeck_tui.app import DeckApp

COLUMNS = (
    Column("JOB", 12),
    Column("ST", 5),
    Column("NAME", 16),
    Column("USER", 8, 1),
    Column("GPU", 3),
    Column("TIME", 10),
    Column("LIMIT", 6, 2),
    Column("UTIL", 5, 3),
    Column("WHERE OR WHY", 0),
)


class QueueScreen(Screen[None]):
    """All jobs of the last hour, mine or everybody's."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("queue")]

    def compose(self) -> ComposeResult:
        yield Label("", id="head", markup=False)
        yield VirtualTable(COLUMNS, self._app.palette, empty="connecting ...", id="queue")
        yield Footer()

    @property
    def _app(self) -> DeckApp:
        return cast("DeckApp", self.app)

    @property
    def job_key(self) -> str:
        """The job under the cursor."""
        return self.query_one(VirtualTable).cursor_key

    def on_mount(self) -> None:
        self.set_interval(1.0, self.draw)
        self.query_one(VirtualTable).focus()
        self.draw()

    def on_screen_resume(self) -> None:
        self.query_one(VirtualTable).use_palette(self._app.palette)
        self.draw()

    def draw(self) -> None:
        """From the app's rows to the table; lines that look the same are not written."""
        if not self.is_current:
            return
        app = self._app
        user = None if app.everybody else app.user
        rows = queue_rows(list(app.jobs.values()), now=time.time(), user=user, text=app.filter_text)
        empty = "no jobs; n submits one" if app.ready else "connecting ..."
        self.query_one(VirtualTable).show(rows, empty=empty)
        running = sum(job["state"] == "RUNNING" for job in app.jobs.values())
        waiting = sum(max(1, job["tasks_pending"]) for job in app.jobs.values() if job["state"] == "PENDING")
        whose = "everybody's jobs" if app.everybody else f"jobs of {app.user}"
        narrowed = f"   filter: {app.filter_text}" if app.filter_text else ""
        head = f" warpdeck   {whose}   {running} running, {waiting} waiting{narrowed}   {app.link_words}"
        self.query_one("#head", Label).update(head)

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        self._app.open_job(event.key)

    def action_everybody(self) -> None:
        self._app.everybody = not self._app.everybody
        self.draw()

    def action_filter(self) -> None:
        def narrow(text: str | None) -> None:
            self._app.filter_text = text or ""
            self.draw()

        self.app.push_screen(Ask("Filter: words that must be found", self._app.filter_text), narrow)

    def action_cancel(self) -> None:
        self._app.change("cancel", self.job_key)

    def action_hold(self) -> None:
        self._app.change("hold", self.job_key)

    def action_release(self) -> None:
        self._app.change("release", self.job_key)

    def action_requeue(self) -> None:
        self._app.change("requeue", self.job_key)

    def action_attach(self) -> None:
        self._app.attach(self.job_key)
