"""The page of a node."""

from __future__ import annotations

import time
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from warpdeck.base.errors import UserError
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.screens.shared.deck_screen import TextPane
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.node_verbs import NodeVerbs
from warpdeck_tui.screens.shared.painting import paint
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels import Cell
from warpdeck_tui.viewmodels.nodes.details import about_node
from warpdeck_tui.viewmodels.nodes.node_charts import NodeCurves, charts, node_panels
from warpdeck_tui.viewmodels.nodes.node_page import SPANS, Missing, page
from warpdeck_tui.widgets.line_pane import LinePane

ASK_S = 5.0
"""Seconds between two requests for the curves. They grow by at most one point a second, so more requests
would show little more.
"""


PANE_MARGIN = 3
"""Columns of a text pane that its text cannot use: its padding and its scroll bar."""
CHARTS_FROM = 120
"""Width from which on the charts are beside the text."""


class NodeScreen(NodeVerbs):
    """A node's properties, its state, and its curves, which are stored by its agent."""

    place = "node"
    BINDINGS: ClassVar[list[BindingType]] = bindings("node")

    def __init__(self, name: str) -> None:
        super().__init__()
        self._node_name = name
        self._span = 0
        self._curves = NodeCurves()
        self._told = "Loading..."
        self._no_curves = ""
        """Why another scheduler has no curves of this node. Our own one has them, except while a node is away."""

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Horizontal(id="split"):
            with Frame(id="facts-of-node", is_main=True):
                yield TextPane(id="node-page")
            with Frame(id="charts"):
                yield LinePane()
        yield KeyLine()

    def arrive(self) -> None:
        self.query_one(TextPane).focus()
        self.every(ASK_S, self._ask)
        self._ask()
        self.draw()

    @property
    def node(self) -> NodeRow | None:
        return self.deck.board.nodes.get(self._node_name)

    def draw(self) -> None:
        if self.deck.front is not self:
            return
        node = self.node
        self.set_head(f"node {self._node_name}" + ("" if node is not None else " (removed)"))
        if node is not None:
            reason = self.deck.board.scheduler.reason
            beside = self._draw_charts(node)
            width = self.query_one("#facts-of-node").content_size.width - PANE_MARGIN
            jobs = {job.label: job for job in self.deck.board.jobs.values() if job.label in node.jobs}
            lines = page(
                node,
                self._curves,
                span=self._span,
                told=self._told,
                width=width,
                about=about_node(
                    node, jobs=jobs, now=time.time(), width=width, is_own=self.deck.board.scheduler.is_own
                ),
                has_charts=not beside,
                missing=Missing(curves=self._no_curves, checks=reason("node_check")),
            )
            self.query_one(TextPane).show(lines, self.deck.palette)
        self.show_keys()

    def _draw_charts(self, node: NodeRow) -> bool:
        """Draw the charts beside the text, if there is room for them. Return whether there is."""
        frame, curves, span = self.query_one("#charts", Frame), self._curves, SPANS[self._span][1]
        beside = self.size.width >= CHARTS_FROM and not self._no_curves
        frame.display = beside
        if not beside:
            return False
        panels = node_panels(node, curves)
        title = Cell(f"last {span}", "title"), Cell(f"  {self._told}" if self._told else "", "muted")
        frame.show_title(paint([title], self.styles_now))
        self.query_one(LinePane).show(
            lambda width, height: charts(panels, curves, span=span, width=width, height=height),
            self.deck.palette,
        )
        return True

    def on_resize(self) -> None:
        if not self.is_left:
            self.call_after_refresh(self.draw)

    @work(exclusive=True)
    async def _ask(self) -> None:
        if self.deck.front is not self:
            return
        scheduler = self.deck.board.scheduler
        self._no_curves = scheduler.reason("curves")
        if not self._no_curves:
            try:
                told = await self.deck.core.node_curves(self._node_name, step_s=SPANS[self._span][0])
                self._curves, self._told = NodeCurves(told.curves), ""
            except UserError as error:
                self._curves, self._told = NodeCurves(), error.message
                self._no_curves = "" if scheduler.is_own else error.message
        self.draw()

    def applies(self, action: str) -> bool:
        if action == "span":
            return not self._no_curves
        return action != "drain" or self.node is not None

    def action_span(self) -> None:
        """Show a longer time span. After one day, start again with the last minutes."""
        self._span = (self._span + 1) % len(SPANS)
        self._curves, self._told = NodeCurves(), "Loading..."
        self.draw()
        self._ask()

    def action_copy(self) -> None:
        self.deck.copy(self._node_name)

    def action_back(self) -> None:
        self.app.pop_screen()
