"""The history: jobs that have ended, of any age, as the store has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import work
from textual.binding import BindingType

from warpdeck.api.rows import JobRow
from warpdeck.errors import UserError
from warpdeck_tui.actions import bindings

from .joblist import FilterLine, JobListScreen


class HistoryScreen(JobListScreen):
    """Asked for when it is opened and when the choice changes; it does not change by itself."""

    place = "history"
    BINDINGS: ClassVar[list[BindingType]] = bindings("history")

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[int, JobRow] = {}
        self._words = "looking it up ..."

    def on_screen_resume(self) -> None:
        if not self.is_left:
            self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        user = None if self.deck.everybody else self.deck.user
        try:
            self._rows = {row.id: row for row in await self.deck.core.history(user)}
            self._words = "none have ended yet"
        except UserError as error:
            self._words = error.message
        self.draw()

    def source(self) -> Mapping[int, JobRow]:
        return self._rows

    def words(self) -> str:
        whose = "everybody's" if self.deck.everybody else f"{self.deck.user}'s"
        return f"history: {whose} last {len(self._rows)} jobs"

    def nothing(self) -> str:
        return "nothing matches the filter; Esc takes it away" if self._rows else self._words

    def action_everybody(self) -> None:
        super().action_everybody()
        self._load()

    def action_clear(self) -> None:
        if self.filter_text or self.table.marked or self.query_one(FilterLine).has_focus:
            super().action_clear()
        else:
            self.deck.action_show_queue()
