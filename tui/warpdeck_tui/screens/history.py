"""The history: jobs that have ended, of any age, as the store has them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import ClassVar

from textual import work
from textual.binding import BindingType

from warpdeck.api.rows import JobRow
from warpdeck.errors import UserError
from warpdeck_tui.actions import bindings
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.usage import export, usage_text

from .dialogs import Ask, TextPage
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

    def _listed(self) -> list[JobRow]:
        """The jobs that the filter lets through, the latest end first."""
        return sorted(self.listing.jobs.values(), key=lambda row: (-(row.end or 0.0), -row.id))

    @work(exclusive=True, group="usage")
    async def action_usage(self) -> None:
        """What the listed jobs have cost; ten thousand take a moment."""
        text = await asyncio.to_thread(usage_text, self._listed())
        matching = f", {self.filter_text}" if self.filter_text else ""
        self.app.push_screen(TextPage(f"Usage: {self.words().partition(': ')[2]}{matching}", text))

    def action_export(self) -> None:
        rows = self._listed()
        if not rows:
            self.app.notify("there are no jobs to write", severity="warning")
            return

        def write(path: str | None) -> None:
            if path:
                self._export(rows, path)

        title = f"Write {plural(len(rows), 'job')} to which file? It ends in .csv, .json or .md"
        self.app.push_screen(Ask(title, required="write a name, such as jobs.csv"), write)

    @work(exclusive=True, group="export")
    async def _export(self, rows: list[JobRow], path: str) -> None:
        try:
            await asyncio.to_thread(lambda: write_new(path, export(rows, path)))
        except UserError as error:
            self.deck.tell_error(error)
        else:
            self.app.notify(f"wrote {plural(len(rows), 'job')} to {path}", markup=False)

    def action_clear(self) -> None:
        if self.filter_text or self.table.marked or self.query_one(FilterLine).has_focus:
            super().action_clear()
        else:
            self.deck.action_show_queue()


def write_new(path: str, text: str) -> None:
    """Makes that file, readable by its user alone. Raises UserError; nothing that is there is written over."""
    try:
        number = os.open(os.path.expanduser(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(number, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "choose another name") from error
