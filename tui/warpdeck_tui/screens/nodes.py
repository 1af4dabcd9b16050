"""The nodes: their GPUs as one heat map or the nodes as a list, and what is under the cursor beside it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from warpdeck.api.rows import NodeRow
from warpdeck_tui.actions import bindings
from warpdeck_tui.viewmodels import Line
from warpdeck_tui.viewmodels.nodes import (
    METRIC_WORDS,
    METRICS,
    fragmentation,
    gpu_detail,
    gpu_lines,
    legend,
    node_lines,
    node_row,
    summary,
)
from warpdeck_tui.viewmodels.queue import Question
from warpdeck_tui.widgets.cell_grid import CellGrid
from warpdeck_tui.widgets.virtual_table import Column, VirtualTable

from .base import Folded
from .idle import IdleGpus
from .keyline import KeyLine
from .node_add import NodeAdd
from .node_page import NodeScreen
from .nodeverbs import NodeVerbs

COLUMNS = (
    Column("NODE", 12, flex=1, most=24),
    Column("STATE", 10),
    Column("CPUS", 9, align="right"),
    Column("LOAD", 6, 2),
    Column("MEMORY", 6, 2),
    Column("GPUS", 12),
    Column("JOBS", 4, 1, align="right"),
    Column("JOBS OR REASON", 0),
)


class NodesScreen(NodeVerbs):
    """The map says of each GPU what the chosen metric is; beside it, what is under the cursor."""

    place = "nodes"
    BINDINGS: ClassVar[list[BindingType]] = bindings("nodes")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (136, "-wide")]  # noqa: RUF012  (as Textual declares it)
    VERTICAL_BREAKPOINTS = [(0, "-low"), (32, "-tall")]  # noqa: RUF012

    def __init__(self, name: str = "") -> None:
        """`name`: the node that the cursor begins on."""
        super().__init__()
        self._first = name
        self._metric = 0
        self._listed = False

    def compose(self) -> ComposeResult:
        yield Static("", id="head", markup=False)
        with Container(id="split"):
            with Vertical(id="main"):
                yield CellGrid(self.deck.palette, id="grid")
                yield VirtualTable(COLUMNS, self.deck.palette, empty="no nodes; A adds one", id="nodes")
            yield Static("", id="under", markup=False)
        yield KeyLine()

    def arrive(self) -> None:
        self._show_list(False)

    @property
    def cursor(self) -> tuple[str, int]:
        """(node, GPU index or -1) under the cursor."""
        if self._listed:
            return self.query_one("#nodes", VirtualTable).cursor_key, -1
        return self.query_one(CellGrid).cursor

    @property
    def node(self) -> NodeRow | None:
        return self.deck.board.nodes.get(self.cursor[0])

    def recolour(self) -> None:
        self.query_one(CellGrid).use_palette(self.deck.palette)
        self.query_one("#nodes", VirtualTable).use_palette(self.deck.palette)

    def draw(self) -> None:
        if self.deck.front is not self:
            return
        nodes = self.deck.board.node_list()
        metric = METRICS[self._metric]
        if self._listed:
            self.query_one("#nodes", VirtualTable).show([node_row(node) for node in nodes])
        else:
            self.query_one(CellGrid).show(
                gpu_lines(nodes, metric), legend=legend(metric), ramp=metric != "owner"
            )
            if self._first and self.query_one(CellGrid).go_to(self._first):
                self._first = ""
        self.show_keys()
        shown = "" if self._listed else f"   showing {METRIC_WORDS[metric]}"
        free = f"   {fragmentation(nodes)}" if metric == "owner" and not self._listed else ""
        self.set_head(f"{summary(nodes)}{shown}{free}")
        self._describe()

    def applies(self, action: str) -> bool:
        if action in ("drain", "remove", "copy", "page"):
            return self.node is not None
        return not self._listed if action == "metric" else True

    def on_cell_grid_moved(self) -> None:
        self._describe()

    def on_virtual_table_moved(self) -> None:
        self._describe()

    def on_virtual_table_selected(self) -> None:
        self.action_page()

    def _describe(self) -> None:
        node, index = self.node, self.cursor[1]
        lines: list[Line] = []
        if node is not None:
            lines = node_lines(node) if index < 0 else [*gpu_detail(node, index), (), *node_lines(node)]
        self.query_one("#under", Static).update(Folded(lines, self.deck.palette))

    def go_to(self, name: str) -> None:
        """Puts the cursor on that node."""
        (self.query_one("#nodes", VirtualTable) if self._listed else self.query_one(CellGrid)).go_to(name)

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
        self._metric = (self._metric + 1) % len(METRICS)
        self.draw()

    def action_idle(self) -> None:
        def opened(key: str | None) -> None:
            if key:
                self.deck.open_job(key)

        self.app.push_screen(IdleGpus(), opened)

    def action_copy(self) -> None:
        self.deck.copy(self.cursor[0])

    def action_back(self) -> None:
        self.deck.action_show_queue()

    def on_cell_grid_selected(self) -> None:
        node, index = self.node, self.cursor[1]
        gpu = next((each for each in node.gpus if each.index == index), None) if node else None
        if gpu is None or not gpu.job:
            self.app.notify("no job holds this GPU")
            return
        job = next((row for row in self.deck.board.jobs.values() if row.label == gpu.job), None)
        if job is not None:
            self.deck.open_job(str(job.id))

    def action_page(self) -> None:
        if self.node is not None:
            self.app.push_screen(NodeScreen(self.node.name))

    def action_add(self) -> None:
        self.app.push_screen(NodeAdd(self.deck.core))

    def action_remove(self) -> None:
        name = self.cursor[0]
        if name:
            question = Question(f"Remove the node {name}?", f"warpdeck node rm {name}")
            self.confirmed(question, lambda: self.deck.core.node_remove(name))
