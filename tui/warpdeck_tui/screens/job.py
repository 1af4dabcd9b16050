"""A job's page: its log, live, with its facts, code and history a key away. Ended jobs look the same."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Footer, Label, Static

from warpdeck.errors import UserError
from warpdeck_tui.actions import bindings
from warpdeck_tui.viewmodels import GLYPHS, job_lines
from warpdeck_tui.widgets.log_view import LogView

from .dialogs import Page

if TYPE_CHECKING:
    from warpdeck_tui.app import DeckApp


class JobScreen(Screen[None]):
    """One job."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("job")]

    def __init__(self, label: str) -> None:
        super().__init__()
        self._label = label
        self._channel = "out"
        self._stop = threading.Event()
        self._detail: dict[str, Any] = {}

    def compose(self) -> ComposeResult:
        yield Label("", id="head", markup=False)
        yield Static("", id="facts", markup=False)
        yield LogView(id="log")
        yield Footer()

    @property
    def _app(self) -> DeckApp:
        return cast("DeckApp", self.app)

    def on_mount(self) -> None:
        self.query_one(LogView).focus()
        self.query_one("#facts").display = False
        self.set_interval(2.0, self.look)
        self.look()
        self._follow()

    def on_unmount(self) -> None:
        self._stop.set()

    @work(thread=True, exclusive=True, group="look")
    def look(self) -> None:
        """Asks for the job's facts."""
        try:
            detail = self._app.core.call("job", job=self._label)
        except UserError as error:
            self.app.call_from_thread(self._say, error.message)
            return
        self.app.call_from_thread(self._draw, detail)

    def _draw(self, detail: dict[str, Any]) -> None:
        self._detail = detail
        row = detail["row"]
        state = f"{GLYPHS.get(row['state'], '?')} {row['state']}"
        where = row["node_list"] or (row.get("why") or {}).get("sentence", "")
        channel = "stderr" if self._channel == "err" else "stdout"
        self._say(f" job {row['label']}  {row['name']}   {state}   {where}   {channel}")
        self.query_one("#facts", Static).update("\n".join(job_lines(detail)))

    def _say(self, text: str) -> None:
        self.query_one("#head", Label).update(text)

    @work(thread=True, exclusive=True, group="log")
    def _follow(self) -> None:
        stop = self._stop = threading.Event()
        view = self.query_one(LogView)

        def take(data: bytes) -> None:
            if not stop.is_set():
                self.app.call_from_thread(view.feed, data)

        try:
            self._app.core.follow_log(self._label, channel=self._channel, stop=stop, on_data=take)
        except UserError as error:
            if not stop.is_set():
                self.app.call_from_thread(view.feed, f"[{error.message}]\n".encode())

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_stream(self) -> None:
        self._stop.set()
        self._channel = "out" if self._channel == "err" else "err"
        self.query_one(LogView).clear()
        self._follow()
        self.look()

    def action_facts(self) -> None:
        facts = self.query_one("#facts")
        facts.display = not facts.display

    @work(thread=True)
    def action_diff(self) -> None:
        snapshot = self._detail.get("snapshot")
        try:
            if not snapshot:
                raise UserError("the job has no snapshot", "")
            text = self._app.core.code_diff(snapshot) or "nothing has changed since it was submitted"
        except UserError as error:
            text = error.message
        self.app.call_from_thread(self.app.push_screen, Page(f"Code of job {self._label}, and now", text))

    def action_cancel(self) -> None:
        self._app.change("cancel", self._label)

    def action_attach(self) -> None:
        self._app.attach(self._label)
