"""Opens the screens and moves between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.app import App

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui import screens
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.queue import QueueScreen
from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.viewmodels.jobs.order import Order
from warpdeck_tui.widgets.virtual_table import VirtualTable

NO_JOB_YET = "No job to show. Press 1 and move the cursor to a job, then 3"


class Start(NamedTuple):
    """The screen to begin with, and the job or node that it shows.

    If `screen` is "", the user's settings choose it. If `moment` is given, the screen shows the state at that time
    (unix seconds).
    """

    screen: str = ""
    what: str = ""
    moment: float | None = None


class Navigator:
    """Navigation in one app."""

    def __init__(self, deck: Deck, app: App[None]) -> None:
        self._deck = deck
        self._app = app
        self._last_job = ""

    @property
    def queue(self) -> QueueScreen | None:
        """The screen of the queue, which is below all others, or None if it is not open yet."""
        return next((each for each in self._app.screen_stack if isinstance(each, QueueScreen)), None)

    def begin(self, start: Start) -> None:
        """Open the queue, and above it the screen to begin with."""
        self._app.push_screen(QueueScreen())
        match start.screen:
            case "overview":
                self._app.push_screen(screens.OverviewScreen())
            case "job":
                self.open_job(start.what)
            case "node":
                self._app.push_screen(screens.NodesScreen(start.what))
                self._app.push_screen(screens.NodeScreen(start.what))
            case "gpus":
                self._app.push_screen(screens.NodesScreen(at=start.moment))
            case "nodes":
                self._app.push_screen(screens.NodesScreen(listed=True, at=start.moment))
            case "history":
                self._app.push_screen(screens.HistoryScreen())
            case "site":
                self._app.push_screen(screens.AdminScreen())
            case "sessions":
                self._app.push_screen(screens.SessionsScreen())

    def show_queue(self) -> None:
        while len(self._app.screen_stack) > 2:
            self._app.pop_screen()

    def show(self, kind: type[DeckScreen]) -> None:
        """Open a screen of this class above the queue, unless it is in front already."""
        if not isinstance(self._app.screen, kind):
            self.show_queue()
            self._app.push_screen(kind())

    def show_job(self) -> None:
        """Open the page of the job under the cursor, or else that of the job that was opened last."""
        if isinstance(self._app.screen, screens.JobScreen):
            return
        keys = self._deck.front.job_keys if self._deck.front is not None else []
        if key := keys[0] if keys else self._last_job:
            self.open_job(key)
        else:
            self._app.notify(NO_JOB_YET, severity="warning")

    def open_job(self, key: str, *, pane: str = "", channel: str = "out", others: Sequence[str] = ()) -> None:
        self._last_job = key
        self._app.push_screen(screens.JobScreen(key, pane=pane, channel=channel, others=others))

    def open_runs(self, row: JobRow) -> None:
        from warpdeck_tui.screens.runs import open_runs  # The first frame must not wait for it.

        self._app.push_screen(open_runs(self._deck, row))

    def point_at(self, key: str) -> bool:
        """Move the cursor of the screen in front to the job with this id.

        Return whether an action on jobs, such as attach, then applies to it.
        """
        front = self._deck.front
        if isinstance(front, QueueScreen):
            front.go_to(key)
            return True
        if isinstance(front, DeckScreen) and front.place == "sessions":
            front.query_one(VirtualTable).go_to(key)
            return True
        return front is not None and key in front.job_keys

    def open_node(self, name: str) -> None:
        if isinstance(self._app.screen, screens.NodesScreen):
            self._app.screen.go_to(name)
        else:
            self.show_queue()
            self._app.push_screen(screens.NodesScreen(name))

    def open_map_at(self, at: float) -> None:
        """Open the map of GPUs at a past time, in unix seconds."""
        if isinstance(self._app.screen, screens.NodesScreen):
            self._app.screen.look_at(at)
        else:
            self.show_queue()
            self._app.push_screen(screens.NodesScreen(at=at))

    def open_node_page(self, name: str) -> None:
        self._app.push_screen(screens.NodeScreen(name))

    def open_user(self, user: str) -> None:
        self.open_queue(f"user:{user}")

    def open_queue(self, filter_text: str) -> None:
        self.show_queue()
        self._deck.everybody = True
        assert self.queue is not None
        self.queue.narrow(filter_text)

    def filter_queue(self, text: str) -> None:
        self.show_queue()
        assert self.queue is not None
        self.queue.narrow(text)

    def sort_queue(self, column: str) -> None:
        self.show_queue()
        assert self.queue is not None
        self.queue.sort_by(Order(column))

    def open_history(self, filter_text: str) -> None:
        self._app.push_screen(screens.HistoryScreen(filter_text))
