"""The nodes and their GPUs as one heat map, with what is under the cursor beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Footer, Label, Static

from warpdeck_tui.actions import bindings
from warpdeck_tui.viewmodels import METRICS, gpu_detail, gpu_lines, node_lines
from warpdeck_tui.widgets.cell_grid import CellGrid

from .dialogs import Ask

if TYPE_CHECKING:
    from warpdeck_tui.app import DeckApp


class GpuScreen(Screen[None]):
    """`*` marks a GPU that a job holds, `!` one that a stranger holds."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("gpus")]

    def __init__(self) -> None:
        super().__init__()
        self._metric = 0

    def compose(self) -> ComposeResult:
        yield Label("", id="head", markup=False)
        yield CellGrid(self._app.palette, id="grid")
        yield Static("", id="under", markup=False)
        yield Footer()

    @property
    def _app(self) -> DeckApp:
        return cast("DeckApp", self.app)

    def on_mount(self) -> None:
        self.query_one(CellGrid).focus()

    def on_screen_resume(self) -> None:
        self.query_one(CellGrid).use_palette(self._app.palette)
        self.draw()

    def draw(self) -> None:
        """The map and what is under the cursor."""
        if not self.is_current:
            return
        metric = METRICS[self._metric]
        nodes = list(self._app.nodes.values())
        self.query_one(CellGrid).show(gpu_lines(nodes, metric))
        gpus = [gpu for node in nodes for gpu in node["gpus"]]
        held = sum(bool(gpu["job"]) for gpu in gpus)
        words = f"{len(nodes)} nodes, {held} of {len(gpus)} GPUs held"
        self.query_one("#head", Label).update(
            f" warpdeck   {words}   showing {metric} (m)   {self._app.link_words}"
        )
        self.on_cell_grid_moved()

    def on_cell_grid_moved(self) -> None:
        name, index = self.query_one(CellGrid).cursor
        node = self._app.nodes.get(name)
        lines = [] if node is None else [*node_lines(node), "", *gpu_detail(node, index)]
        self.query_one("#under", Static).update("\n".join(lines))

    def action_metric(self) -> None:
        self._metric = (self._metric + 1) % len(METRICS)
        self.draw()

    def action_drain(self) -> None:
        name, _ = self.query_one(CellGrid).cursor
        node = self._app.nodes.get(name)
        if node is None:
            return
        if node["state"] in ("drained", "draining"):
            self._app.ask_core("node_resume", name=name)
            return

        def drain(reason: str | None) -> None:
            if reason:
                self._app.ask_core("node_drain", name=name, reason=reason)

        self.app.push_screen(Ask(f"Drain {name}: why?"), drain)
