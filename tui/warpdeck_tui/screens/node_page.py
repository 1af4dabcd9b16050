"""The page of a node."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import CurveRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.screens.shared.deck_screen import TextPane
from warpdeck_tui.screens.shared.frames import Frame
from warpdeck_tui.screens.shared.key_line import KeyLine
from warpdeck_tui.screens.shared.node_verbs import NodeVerbs
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.nodes.node_page import SPANS, Missing, page

ASK_S = 5.0
"""Seconds between two requests for the curves. They grow by at most one point a second, so more requests
would show little more.
"""


class NodeScreen(NodeVerbs):
    """A node's properties, its state, and its curves, which are stored by its agent."""

    place = "node"
    BINDINGS: ClassVar[list[BindingType]] = bindings("node")

    def __init__(self, name: str) -> None:
        super().__init__()
        self._node_name = name
        self._span = 0
        self._curves: list[CurveRow] = []
        self._told = "Loading..."
        self._no_curves = ""
        """Why another scheduler has no curves of this node. Our own one has them, except while a node is away."""

    def compose(self) -> ComposeResult:
        yield from self.top()
        with Frame(is_main=True):
            yield TextPane(id="node-page")
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
            lines = page(
                node,
                self._curves,
                span=self._span,
                told=self._told,
                width=self.size.width,
                missing=Missing(curves=self._no_curves, checks=reason("node_check")),
            )
            self.query_one(TextPane).show(lines, self.deck.palette)
        self.show_keys()

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
                self._curves, self._told = told.curves, ""
            except UserError as error:
                self._curves, self._told = [], error.message
                self._no_curves = "" if scheduler.is_own else error.message
        self.draw()

    def applies(self, action: str) -> bool:
        if action == "span":
            return not self._no_curves
        return action != "drain" or self.node is not None

    def action_span(self) -> None:
        """Show a longer time span. After one day, start again with the last minutes."""
        self._span = (self._span + 1) % len(SPANS)
        self._curves, self._told = [], "Loading..."
        self.draw()
        self._ask()

    def action_copy(self) -> None:
        self.deck.copy(self._node_name)

    def action_back(self) -> None:
        self.app.pop_screen()
