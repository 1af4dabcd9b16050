"""The "Nodes" screen: a heat map of all GPUs or a list of the nodes, and details beside it.

The details are those of the node or GPU under the cursor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from warpdeck.base.errors import UserError
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.screens.shared.deck_screen import Folded
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.painting import paint
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.user_files.map_color import keep_map_color, read_map_color
from warpdeck_tui.viewmodels import Cell, Line
from warpdeck_tui.viewmodels.cells import height
from warpdeck_tui.viewmodels.jobs.queue import STARTS_UP_S, Question
from warpdeck_tui.viewmodels.nodes.details import details
from warpdeck_tui.viewmodels.nodes.gpu_history import STEP_S as HISTORY_STEP_S
from warpdeck_tui.viewmodels.nodes.gpu_history import GpuHistory
from warpdeck_tui.viewmodels.nodes.gpu_map import (
    METRIC_WORDS,
    METRICS,
    NAMED,
    NO_READINGS,
    OUT,
    UNKNOWN_JOB,
    MapContext,
    all_unmeasured,
    gpu_lines,
    legend_words,
    named_by,
    wasted_words,
)
from warpdeck_tui.viewmodels.nodes.nodes import fragmentation, node_row, summary
from warpdeck_tui.viewmodels.nodes.owner_colors import OwnerColors
from warpdeck_tui.viewmodels.nodes.past_nodes import (
    clock_words,
    moment_words,
)
from warpdeck_tui.widgets.cell_grid import CellGrid
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.tile import SPARK_HEIGHT
from warpdeck_tui.widgets.timeline import TimelinePane
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

from .idle import IdleGpus
from .node_add import NodeAdd
from .node_page import NodeScreen
from .time_travel import TimeTravel

COLUMNS = (
    Column("NODE", 12, flex=1, most=24),
    Column("STATE", 10),
    Column("CPUS", 9, align="right"),
    Column("LOAD", 8, 2, flex=1, most=14),
    Column("MEMORY", 8, 2, flex=1, most=14),
    Column("GPUS", 12),
    Column("JOBS", 4, 1, align="right"),
    Column("JOBS OR REASON", 0),
)
HISTORY_S = 60.0
"""Seconds between two requests for the stored measurements of all nodes."""
MAX_HISTORIES = 16
"""Largest number of nodes whose stored measurements are requested. On a larger site cells have no sparklines."""
OF_NOW = ("page", "idle", "drain", "add", "remove", "new_job")
"""Actions that are not available while a past state is shown."""


class NodesScreen(TimeTravel):
    """The map shows the chosen metric of each GPU.

    The details of the node under the cursor are shown beside it.
    """

    place = "nodes"
    BINDINGS: ClassVar[list[BindingType]] = bindings("nodes")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide"), (160, "-broad")]  # noqa: RUF012  (as Textual declares it)
    VERTICAL_BREAKPOINTS = [(0, "-low"), (28, "-middle"), (36, "-tall")]  # noqa: RUF012

    def __init__(self, name: str = "", *, listed: bool = False, at: float | None = None) -> None:
        """Create the screen. `name` is the node under the cursor at first.

        `at` is a time in the past to begin with, in unix seconds.
        """
        super().__init__(at)
        self._first = name
        kept = read_map_color()
        self._metric = kept if kept in METRICS else METRICS[0]
        self._colors, self._history = OwnerColors(), GpuHistory()
        self._listed = listed
        self._described: tuple[str, list[Line]] = "", []
        """The title and the lines of the details that are shown."""
        self._pointed_out = ""
        """The label of the job under the cursor, whose GPUs are highlighted."""

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Container(id="split"):
            with Vertical(id="map"):
                with Frame(id="main", is_main=True):
                    yield CellGrid(self.deck.palette, id="grid", bars=not self.deck.low_bandwidth)
                    yield VirtualTable(COLUMNS, self.deck.palette, empty="", id="nodes")
                with Frame(id="timeline"):
                    yield TimelinePane()
            with Frame(id="under"):
                yield Static("", id="details", markup=False)
        yield KeyLine()

    def arrive(self) -> None:
        self._show_list(self._listed)
        if self._wanted_at is not None:
            self._look_at(self._wanted_at)
        self.every(HISTORY_S, self._ask_history)
        self._ask_history()

    @property
    def cursor(self) -> tuple[str, int]:
        """The node under the cursor and the index of the GPU, or -1 if there is none."""
        if self._listed:
            return self.query_one("#nodes", VirtualTable).cursor_key, -1
        return self.query_one(CellGrid).cursor

    @property
    def node(self) -> NodeRow | None:
        name = self.cursor[0]
        return next((node for node in self._shown() if node.name == name), None)

    def _shown(self) -> Sequence[NodeRow]:
        """Return the nodes now or at the past time that is shown."""
        return self.deck.board.node_list() if self._at is None else self._then

    def recolour(self) -> None:
        self._described = "", []
        self.query_one(CellGrid).use_palette(self.deck.palette)
        self.query_one("#nodes", VirtualTable).use_palette(self.deck.palette)

    def draw(self) -> None:
        if self.deck.front is not self:
            return
        nodes = self._shown()
        metric, starting = self._metric, self._starting()
        if self._at is None:
            self._history.note(nodes, time.time())
        if self._listed:
            rows = [node_row(node) for node in nodes]
            self.query_one("#nodes", VirtualTable).show(rows, empty=self._nothing())
        else:
            self._draw_map(nodes, starting)
            if self._first and self.query_one(CellGrid).go_to(self._first):
                self._first = ""
        self.show_keys()
        shown = "" if self._listed else METRIC_WORDS[metric]
        if shown and metric not in NAMED and all_unmeasured(nodes):
            shown += f" ({NO_READINGS})"
        words = [summary(nodes), wasted_words(nodes, starting)]
        if metric in NAMED and not self._listed and self._at is None:
            words.insert(0, fragmentation(nodes))
        self.query_one("#main").set_class(self._at is not None, "past")
        self.set_class(self._wanted_at is not None, "past")
        self.set_head(self._head(shown, "   ".join(filter(None, words))))
        self._describe()
        self.draw_timeline()

    def _starting(self) -> Set[str]:
        """Return the labels of the jobs that began a moment ago. Their GPUs are not used yet."""
        begun = time.time() - STARTS_UP_S
        return {
            job.label for job in self.deck.board.jobs.values() if job.gpus and job.start and job.start > begun
        }

    def _head(self, shown: str, words: str) -> str:
        """Return the head line's text: the past time, if one is shown, then the summary."""
        now = time.time()
        color = f"color: {shown}" if shown else ""
        if self._at is not None:
            words = "   ".join(filter(None, (moment_words(self._then, self._at, now), color, words)))
        elif color:
            words = f"{color}   {words}"
        looks = self._wanted_at is not None and self._wanted_at != self._at
        return f"loading {clock_words(self._wanted_at or now, now)}...   {words}" if looks else words

    def applies(self, action: str) -> bool:
        if self._at is not None and action in OF_NOW:
            return False
        if action in ("later", "bit_later", "now", "next_event", "timeline_range"):
            return self._wanted_at is not None
        if action in ("drain", "remove", "copy", "page"):
            return self.node is not None
        return not self._listed if action.startswith(("metric", "color")) else True

    def _nothing(self) -> str:
        if self._at is not None:
            return "No data for this time"
        no_nodes = self.advised("No nodes", "Press A to add one", "add")
        return no_nodes if self.deck.board.ready else "Connecting..."

    def _draw_map(self, nodes: Sequence[NodeRow], starting: Set[str]) -> None:
        """Draw the map with all GPUs of the job under the cursor highlighted.

        The job under the cursor is known only after the map is drawn, so the map may be drawn twice.
        """
        grid, metric, past = self.query_one(CellGrid), self._metric, self._at is not None
        gpus = [gpu for node in nodes for gpu in node.gpus]
        colors: dict[str, int] = {}
        if metric in NAMED:
            colors = self._colors.assign(name for gpu in gpus if (name := named_by(gpu, metric)))
        while True:
            tall = grid.cell_height
            context = MapContext(
                self._pointed_out, colors, starting, None if past or tall < SPARK_HEIGHT else self._history
            )
            words = legend_words(nodes, metric, colors, past=past, tall=tall > 1)
            has_ramp = metric not in NAMED and bool(nodes) and not all_unmeasured(nodes)
            ramp = f"{METRIC_WORDS[metric]}: low" if has_ramp else ""
            grid.show(
                gpu_lines(nodes, metric, context=context), legend=words, ramp=ramp, empty=self._nothing()
            )
            gpu = self._gpu
            job = gpu.job if gpu is not None else ""
            if job == self._pointed_out and tall == grid.cell_height:
                break
            self._pointed_out = job

    @work(group="history", exclusive=True)
    async def _ask_history(self) -> None:
        """Request the stored measurements of all nodes for the sparklines, if the site is small enough."""
        if self.deck.front is not self or self._at is not None or self.deck.low_bandwidth:
            return
        if not self.deck.board.ready:
            await self.deck.core.connected()
        names = [node.name for node in self.deck.board.node_list() if node.gpus and node.state not in OUT]
        if len(names) > MAX_HISTORIES or self.deck.board.scheduler.reason("curves"):
            return
        for name in names:
            try:
                told = await self.deck.core.node_curves(name, step_s=HISTORY_STEP_S)
            except UserError:
                continue  # The sparkline of this node begins with the readings that the app has seen.
            self._history.fill(name, told.curves)
        self.draw()

    def on_cell_grid_moved(self) -> None:
        gpu = self._gpu
        if self._pointed_out != (gpu.job if gpu is not None else ""):
            self.draw()
        else:
            self._describe()

    @property
    def _gpu(self) -> GpuRow | None:
        """The GPU under the cursor."""
        node, index = self.node, self.cursor[1]
        return next((each for each in node.gpus if each.index == index), None) if node else None

    def on_virtual_table_moved(self) -> None:
        self._describe()

    def on_virtual_table_selected(self) -> None:
        self.action_page()

    def _describe(self) -> None:
        node, index = self.node, self.cursor[1]
        pane, lines = self.query_one("#under", Frame), list[Line]()
        if node is not None:
            jobs = {job.label: job for job in self.deck.board.jobs.values() if job.label in node.jobs}
            lines = details(
                node,
                index,
                jobs=jobs,
                now=time.time(),
                width=pane.content_size.width,
                is_low=self.has_class("-narrow"),
                is_own=self.deck.board.scheduler.is_own,
            )
        title = printable(node.name) if node is not None else ""
        if (title, lines) != self._described:
            pane.show_title(paint([(Cell(title, "title"),)], self.styles_now))
            shown = self.query_one("#details", Static)
            width = shown.content_size.width
            is_as_high = height(lines, width) == height(self._described[1], width)
            self._described = title, lines
            shown.update(Folded(lines, self.deck.palette), layout=not is_as_high)

    def go_to(self, name: str) -> None:
        """Move the cursor to this node."""
        (self.query_one("#nodes", VirtualTable) if self._listed else self.query_one(CellGrid)).go_to(name)

    def on_resize(self) -> None:
        if not self.is_left:
            self.call_after_refresh(self.draw)

    def _show_list(self, listed: bool) -> None:
        name = self.cursor[0]
        self._listed = listed
        grid, table = self.query_one(CellGrid), self.query_one("#nodes", VirtualTable)
        grid.display, table.display = not listed, listed
        (table if listed else grid).focus()
        self.draw()
        if name:
            self.go_to(name)

    def action_map_or_list(self) -> None:
        self._show_list(not self._listed)

    def action_metric(self) -> None:
        self.action_color(METRICS[(METRICS.index(self._metric) + 1) % len(METRICS)])

    def action_color(self, metric: str) -> None:
        """Color the map by this value, and store the choice."""
        self._metric = metric
        self.draw()
        try:
            keep_map_color(metric)
        except UserError as error:
            self.deck.tell_error(error)

    def action_idle(self) -> None:
        def opened(key: str | None) -> None:
            if key:
                self.deck.navigation.open_job(key)

        self.app.push_screen(IdleGpus(), opened)

    def action_copy(self) -> None:
        self.deck.copy(self.cursor[0])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        of_then = self._at is not None and action in OF_NOW
        return False if of_then else super().check_action(action, parameters)

    def action_back(self) -> None:
        """Return from a past time to now or, if now is shown, to the queue."""
        if self._wanted_at is not None:
            self._look_at(None)
        else:
            self.deck.navigation.show_queue()

    def on_cell_grid_selected(self) -> None:
        gpu = self._gpu
        if gpu is None or not gpu.job:
            self.app.notify("No job on this GPU")
            return
        if gpu.job == UNKNOWN_JOB:
            self.app.notify("The job on this GPU is unknown")
            return
        if self._at is not None:
            self.deck.navigation.open_job(gpu.job)
            return
        job = next((row for row in self.deck.board.jobs.values() if row.label == gpu.job), None)
        if job is not None:
            self.deck.navigation.open_job(str(job.id))

    def action_page(self) -> None:
        if self.node is not None:
            self.app.push_screen(NodeScreen(self.node.name))

    def action_add(self) -> None:
        self.app.push_screen(NodeAdd(self.deck.core))

    def action_remove(self) -> None:
        name = self.cursor[0]
        if name:
            question = Question(f"Remove node {name}?", f"warpdeck node rm {name}")
            self.confirmed(question, lambda: self.deck.core.node_remove(name), done=f"Removed node {name}")
