"""The list of GPUs that are allocated but not used."""

from __future__ import annotations

import time
from typing import ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from warpdeck.protocol.job_rows import JobRow, UsageRow
from warpdeck_tui.deck import Deck
from warpdeck_tui.screens.shared.deck_screen import Arrives
from warpdeck_tui.screens.shared.key_line import DialogKeys
from warpdeck_tui.table.bindings import bindings
from warpdeck_tui.viewmodels.site.idle_gpus import (
    IDLE_COLUMNS,
    MAX_ASKED,
    idle_jobs,
    idle_words,
    unmeasured_words,
    waste_row,
    wastes,
)
from warpdeck_tui.widgets.virtual_table import VirtualTable

HEADER_LINES = 1


class IdleGpus(Arrives[str], ModalScreen[str]):
    """A list of idle GPUs at the time when it was opened.

    The result is the key of the chosen job, or "" if none was chosen.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings("choose")

    @property
    def _deck(self) -> Deck:
        return cast(Deck, self.app)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog listing"):
            yield Static("", id="idle-words", classes="title", markup=False)
            yield VirtualTable(IDLE_COLUMNS, self._deck.palette, empty="", id="idle")
            yield DialogKeys("choose", opens="Open job")

    def arrive(self) -> None:
        rows = idle_jobs(self._deck.board.jobs.values(), time.time())
        self._show(rows, {})
        self.query_one(VirtualTable).focus()
        self._ask(rows)

    def _show(self, rows: list[JobRow], used: dict[int, UsageRow]) -> None:
        now = time.time()
        found = wastes(rows, used, now)
        self.query_one("#idle-words", Static).update(
            idle_words(found, unmeasured=unmeasured_words(self._deck.board.jobs.values(), now))
        )
        table = self.query_one(VirtualTable)
        table.display = bool(found)
        table.styles.height = len(found) + HEADER_LINES
        table.show([waste_row(each, now=now) for each in found])

    @work
    async def _ask(self, rows: list[JobRow]) -> None:
        if not self._deck.board.scheduler.reason("curves"):
            self._show(rows, await self._deck.core.used_by(rows[:MAX_ASKED]))

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.dismiss(event.key)

    def action_give_up(self) -> None:
        self.dismiss("")
