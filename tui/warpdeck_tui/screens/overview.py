"""The "Overview" screen: the cluster and the user's jobs at a glance, in panels. Each row opens its page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from warpdeck.base.errors import UserError
from warpdeck.model.finished_jobs import FinishedQuery
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeEventRow
from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.painting import paint
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.nodes.timeline import Range
from warpdeck_tui.viewmodels.overview import capacity, failures, my_jobs, trouble, unused, waiting
from warpdeck_tui.viewmodels.overview.links import Link, PanelRows, link_of
from warpdeck_tui.widgets.columns import Column
from warpdeck_tui.widgets.panel_table import ChartPane, PanelLeft, PanelTable

DRAW_S = 5.0
"""Least number of seconds between two computations of the panels, which go through all jobs."""
ASK_S = 60.0
"""Least number of seconds between two requests for the last day."""
TWO_COLUMNS, FOUR_COLUMNS = 100, 160
"""Widths from which on the panels are beside each other."""
LOW, TALL = 21, 30
"""Heights from which on there is room for three panels, or for two tall ones, below each other."""
CHART_ROWS = 9
FRAME_ROWS = 3
"""Rows of a panel that are not its content: its frame and its header."""
LEAST_ROWS, MOST_ROWS = 1, 7
"""Number of rows that a panel shows if the panels are below each other."""
CHART = "capacity"


class Panel(NamedTuple):
    """A panel with a table: the id of its frame, its columns, and the screen that it belongs to."""

    id: str
    columns: Sequence[Column]
    opens: str


PANELS = (
    Panel("mine", my_jobs.COLUMNS, "queue"),
    Panel("waiting", waiting.COLUMNS, "queue"),
    Panel("failures", failures.COLUMNS, "history"),
    Panel("unused", unused.COLUMNS, "nodes"),
    Panel("trouble", trouble.COLUMNS, "nodes"),
)


class LastDay:
    """The answers about the last day, and the time of the requests for them."""

    def __init__(self) -> None:
        self.capacity: capacity.Capacity | None = None
        self.events: list[NodeEventRow] = []
        self.failures: list[JobRow] | None = None
        self.problems: dict[str, str] = {}
        """Maps the id of a panel to the reason why it has no data."""
        self._asked_at: float | None = None
        self._asked_for: str | None = ""

    def is_due(self, user: str | None) -> bool:
        """Return whether the data are missing or old, or belong to other users."""
        old = self._asked_at is None or time.monotonic() - self._asked_at >= ASK_S
        return old or self._asked_for != user

    def note_request(self, user: str | None) -> None:
        if user != self._asked_for:
            self.failures = None
        self._asked_at, self._asked_for = time.monotonic(), user


class Panels(VerticalScroll, can_focus=False, inherit_bindings=False):
    """The panels. Their own keys scroll to them, so the container has no keys for scrolling."""


class OverviewScreen(DeckScreen):
    """The panels, in two or four columns, or below each other on a narrow terminal."""

    place = "overview"
    BINDINGS: ClassVar[list[BindingType]] = bindings("overview")

    def __init__(self) -> None:
        super().__init__()
        self._day = LastDay()
        self._drawn_at = 0.0
        self._drawn: dict[str, PanelRows] = {}

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Panels(id="panels"):
            with Frame(id=CHART, is_main=True):
                yield ChartPane(margin=capacity.AXIS_WIDTH, id="chart")
            for panel in PANELS:
                with Frame(id=panel.id):
                    yield PanelTable(
                        panel.columns, self.deck.palette, empty="Connecting...", id=f"{panel.id}-rows"
                    )
        yield KeyLine()

    def arrive(self) -> None:
        self.every(DRAW_S, self._tick)
        self._arrange()
        self._table("mine").focus()
        self._tick()

    def _table(self, panel: str) -> PanelTable:
        return self.query_one(f"#{panel}-rows", PanelTable)

    @property
    def _panels(self) -> list[Widget]:
        return [self.query_one(ChartPane), *(self._table(panel.id) for panel in PANELS)]

    @property
    def _user(self) -> str | None:
        return None if self.deck.everybody else self.deck.board.user

    @property
    def job_keys(self) -> list[str]:
        """The job under the cursor, if the focused panel shows jobs."""
        link = link_of(self.focused.cursor_key) if isinstance(self.focused, PanelTable) else None
        return [link.what] if link is not None and link.page == "job" else []

    # ---- Layout

    def on_resize(self) -> None:
        if not self.is_left:
            self._arrange()

    def _arrange(self) -> None:
        width, rows = self.size.width, self.size.height - 3
        stacked = width < TWO_COLUMNS or rows < LOW
        self.set_class(stacked, "-stacked")
        self.set_class(not stacked and width >= FOUR_COLUMNS and rows >= TALL, "-wide")
        for frame in self.query(Frame):
            height = CHART_ROWS if frame.id == CHART else self._stacked_rows(frame.id or "")
            frame.styles.height = height if stacked else None

    def _stacked_rows(self, panel: str) -> int:
        count = len(self._drawn[panel].rows) if panel in self._drawn else 0
        return FRAME_ROWS + max(LEAST_ROWS, min(MOST_ROWS, count))

    # ---- Drawing

    def draw(self) -> None:
        """Draw the panels, unless that was done a moment ago. The clock then draws the change."""
        if not self._drawn_at or time.monotonic() - self._drawn_at >= DRAW_S:
            self._tick()

    def _tick(self) -> None:
        if self.deck.front is not self:
            return
        board, now = self.deck.board, time.time()
        if not board.ready:
            self.set_head("Overview")
            return
        self._drawn_at = time.monotonic()
        if self._day.is_due(self._user):
            self._day.note_request(self._user)
            self._ask()
        rows = {
            "mine": my_jobs.my_jobs(board.jobs.values(), self._user, now),
            "waiting": waiting.waiting(board.jobs.values(), now),
            "failures": failures.failures(
                self._day.failures, self._user, now, problem=self._day.problems.get("failures", "")
            ),
            "unused": self._unused(now),
            "trouble": trouble.nodes_in_trouble(board.nodes.values(), self._day.events, now),
        }
        for name, content in rows.items():
            self._show(name, content)
        self._draw_chart()

    def _unused(self, now: float) -> PanelRows:
        board = self.deck.board
        if board.has_gpus():
            return unused.unused_gpus(board.cluster.holders.values(), board.node_list(), now)
        return unused.unused_sessions(board.jobs.values(), now)

    def _show(self, name: str, content: PanelRows) -> None:
        if self._drawn.get(name) == content:
            return
        before = self._drawn.get(name)
        self._drawn[name] = content
        table = self._table(name)
        if name == "unused" and before is None and not self.deck.board.has_gpus():
            table.use_columns(unused.SESSION_COLUMNS)
        self.query_one(f"#{name}", Frame).show_title(paint([content.title], self.styles_now))
        table.show(content.rows, empty=content.empty)
        if before is None or len(before.rows) != len(content.rows):
            self._arrange()

    def _draw_chart(self) -> None:
        day, problem = self._day.capacity, self._day.problems.get(CHART, "")
        self.set_title(capacity.title(self.deck.board.cluster.totals))
        self.query_one(ChartPane).show(
            lambda width, height: capacity.chart(day, problem=problem, width=width, height=height),
            self.deck.palette,
        )

    def recolour(self) -> None:
        super().recolour()
        self._drawn.clear()
        self._drawn_at = 0.0

    # ---- Requests

    @work(exclusive=True, group="day")
    async def _ask(self) -> None:
        """Request the use and the failures of the last day."""
        await self._load("failures", "past", self._load_failures)
        await self._load(CHART, "", self._load_capacity)
        if not self.is_left:
            self._tick()

    async def _load(self, panel: str, request: str, load: Callable[[], object]) -> None:
        """Run one of the loaders, and keep the reason if the scheduler or the server refuses."""
        problem = self.deck.board.scheduler.reason(request) if request else ""
        if not problem:
            try:
                await load()  # type: ignore[misc]
            except UserError as error:
                problem = error.message
        self._day.problems[panel] = problem

    async def _load_failures(self) -> None:
        user = self._user
        told = await self.deck.core.past(failures.failures_query(user))
        if user == self._user:
            self._day.failures = told.jobs

    async def _load_capacity(self) -> None:
        """Request the timeline of the GPUs. Without it or without GPUs, the jobs of the last day tell the use."""
        board, now = self.deck.board, time.time()
        shown = Range(now - capacity.DAY_S, now)
        if not board.scheduler.reason("timeline"):
            told = await self.deck.core.timeline(shown.since, shown.until, steps=capacity.STEPS)
            self._day.events = told.events
            if board.has_gpus():
                self._day.capacity = capacity.of_timeline(told)
                return
        past = None
        if not board.scheduler.reason("past"):
            past = (await self.deck.core.past(FinishedQuery())).jobs
        jobs = {row.id: row for row in (*(past or ()), *board.jobs.values())}
        self._day.capacity = capacity.of_jobs(
            jobs.values(), shown, board.cluster.totals, known_from=capacity.known_from(past, now)
        )

    # ---- Actions

    def action_next_panel(self) -> None:
        self._go_to_panel(1)

    def action_previous_panel(self) -> None:
        self._go_to_panel(-1)

    def _go_to_panel(self, by: int) -> Widget:
        panels = self._panels
        at = panels.index(self.focused) if self.focused in panels else 0
        wanted = panels[(at + by) % len(panels)]
        wanted.focus()
        assert isinstance(wanted.parent, Widget)
        wanted.parent.scroll_visible(animate=False)
        return wanted

    def on_panel_left(self, event: PanelLeft) -> None:
        """Go on to the next panel, to its first row, or to the last row of the panel before."""
        event.stop()
        wanted = self._go_to_panel(1 if event.forward else -1)
        if isinstance(wanted, PanelTable):
            (wanted.action_first if event.forward else wanted.action_last)()

    def action_everybody(self) -> None:
        self.deck.everybody = not self.deck.everybody
        self._tick()

    def action_back(self) -> None:
        self.deck.navigation.show_queue()

    def on_chart_pane_selected(self, event: ChartPane.Selected) -> None:
        """Open the map of GPUs, at the time of a click."""
        if event.share is None or self.deck.board.scheduler.reason("nodes_at"):
            self.deck.navigation.open_node("")
        else:
            self.deck.navigation.open_map_at(time.time() - (1.0 - event.share) * capacity.DAY_S)

    def on_virtual_table_selected(self, event: PanelTable.Selected) -> None:
        navigation = self.deck.navigation
        match link_of(event.key):
            case Link(page="job", what=what):
                navigation.open_job(what)
            case Link(page="node", what=what):
                navigation.open_node_page(what)
            case Link(page="queue", what=what):
                navigation.open_queue(what)
            case Link(page="history", what=what):
                navigation.open_history(what)
            case Link(page="map", what=what):
                navigation.open_map_at(float(what.partition(" ")[0]))
            case _:
                panel = next(each for each in PANELS if event.table.id == f"{each.id}-rows")
                self._open_screen(panel.opens)

    def _open_screen(self, name: str) -> None:
        navigation = self.deck.navigation
        match name:
            case "history" if reason := self.deck.board.scheduler.reason("past"):
                self.app.notify(reason, severity="warning", markup=False)
            case "history":
                navigation.open_history("")
            case "nodes":
                navigation.open_node("")
            case _:
                navigation.show_queue()
