"""The two lines at the top of each screen: the names of the screens, and the state of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import cast

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text
from textual.widgets import Static

from warpdeck_tui.data.client_state import ClientState
from warpdeck_tui.deck import Deck
from warpdeck_tui.table.bindings import actions_at, key_words, keys_of
from warpdeck_tui.table.palette import PLAIN, Palette, for_terminal
from warpdeck_tui.viewmodels.shell.strips import (
    SHOW_NODES,
    TABS,
    ClusterFacts,
    Part,
    TabFacts,
    cluster_line,
    idle_gpus,
    tab_line,
)
from warpdeck_tui.widgets.cells import printable

FRESH_S = 5.0
"""Least number of seconds between two computations of the idle GPUs, which go through the running jobs."""


class StripLine:
    """A line as a Rich renderable that uses the available width."""

    def __init__(self, parts: Callable[[int], Iterable[Part]], styles: Palette) -> None:
        self._parts = parts
        self._styles = styles

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text(no_wrap=True, end="")
        for part in self._parts(options.max_width):
            click = Style.from_meta({"@click": part.command}) if part.command else PLAIN
            text.append(printable(part.text), self._styles.get(part.style, PLAIN) + click)
        yield text


class Strip(Static):
    """A line that is drawn again only if its content or its colors have changed. Its parts can be clicked."""

    auto_links = False

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._drawn: object = None

    def put(self, facts: object, parts: Callable[[int], Iterable[Part]]) -> None:
        """Draw `parts(width)` unless these facts are drawn already."""
        deck = cast(Deck, self.app)
        drawn = (facts, deck.palette)
        if drawn != self._drawn:
            self._drawn = drawn
            color_system, dark = self.app.console.color_system, self.app.current_theme.dark
            line = StripLine(parts, for_terminal(deck.palette, color_system, dark=dark))
            self.update(line, layout=False)  # it always takes one line


class TabStrip(Strip):
    """The names of the screens with their keys, the site, the connection, and the time."""

    def __init__(self) -> None:
        super().__init__(id="strip")

    def show(self, place: str) -> None:
        """Show the line with the name of the screen in front highlighted. `place` is the screen's context."""
        deck = cast(Deck, self.app)
        actions = {action.id: action for action in actions_at("app")}
        keys = {tab.action: key_words(keys_of(actions[tab.action], deck.keymap)) for tab in TABS}
        facts = TabFacts(
            place=place,
            keys=keys,
            site=deck.board.scheduler.engine.cluster or deck.board.site.name,
            away=deck.board.away,
            clock=time.strftime("%H:%M", time.localtime(time.time())),
        )
        self.put(facts, lambda width: tab_line(facts, width))


class ClusterStrip(Strip):
    """The GPUs in use, their utilization, idle GPUs, nodes in trouble, and the user's quota."""

    def __init__(self) -> None:
        super().__init__(id="cluster")
        self._idle: dict[str, int] = {}
        self._idle_at = 0.0

    def show(self, board: ClientState) -> None:
        """Show the state of the cluster. Until it is known, the line is empty."""
        if not board.ready:
            return
        facts = self._facts(board)
        self.put(facts, lambda width: _clickable(facts, width))

    def _facts(self, board: ClientState) -> ClusterFacts:
        now, cluster = time.time(), board.cluster
        if not 0 <= now - self._idle_at < FRESH_S:
            self._idle, self._idle_at = idle_gpus(cluster.holders.values(), now), now
        return ClusterFacts(
            totals=cluster.totals.without_readings,
            trend=tuple(cluster.trend.points),
            idle=self._idle,
            down=tuple(sorted(cluster.down)),
            drained=tuple(sorted(cluster.drained)),
            quota=board.site.quota,
        )


def _clickable(facts: ClusterFacts, width: int) -> list[Part]:
    return [Part(cell.text, cell.style, SHOW_NODES) for cell in cluster_line(facts, width)]
