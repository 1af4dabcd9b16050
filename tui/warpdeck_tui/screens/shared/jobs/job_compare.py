"""Base class of the page of a job, with the actions that compare it with its folder or with another job."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from textual import work
from textual.command import SimpleCommand

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck_tui.screens.shared.deck_screen import DeckScreen
from warpdeck_tui.screens.shared.diff_page import DiffPage
from warpdeck_tui.viewmodels.diffs.layout import Labels
from warpdeck_tui.viewmodels.diffs.parsing import FileDiff, Parsed, parse
from warpdeck_tui.viewmodels.jobs.changes import last_that_worked, option_changes
from warpdeck_tui.viewmodels.jobs.queue import how_ended

NO_SNAPSHOT = "This job has no snapshot to compare"
MAX_CHOICES = 200
"""Largest number of jobs offered for comparison, the latest ones."""


class _Compared(NamedTuple):
    """The differences of the options of two jobs, and the code diff of git."""

    options: Sequence[FileDiff]
    code: str
    note: str = ""


class ComparingScreen(DeckScreen):
    """Base class of the screens that compare the options and the code of two jobs."""

    key: str
    """The id of the job."""

    @property
    @abstractmethod
    def row(self) -> JobRow | None:
        """The row of the job, once it is known."""

    @property
    @abstractmethod
    def detail(self) -> JobDetail | None:
        """The details of the job, once they are known."""

    @work(exclusive=True, group="diff")
    async def action_diff(self) -> None:
        """Compare the job's snapshot with its folder as it is now."""
        snapshot = self.detail.snapshot if self.detail else None
        if not snapshot:
            self.app.notify(NO_SNAPSHOT, severity="warning")
            return
        try:
            code = await self.deck.core.diff_with_now(snapshot)
        except UserError as error:
            self.deck.tell_error(error)
            return
        await self._show(Labels(f"job {self._label()}", "its folder now"), _Compared((), code))

    @work(exclusive=True, group="diff")
    async def action_diff_job(self) -> None:
        """Let the user choose a job of the same user that has run, by a few letters.

        Jobs with the same name come first.
        """
        found = [
            SimpleCommand(
                f"{each.label}  {each.name}",
                partial(self._compare, each),
                f"{each.state}, {how_ended(each)}" if each.end else each.state,
            )
            for each in await self.others_that_ran()
        ]
        if found:
            await self.app.search_commands(found, placeholder="Select a job to compare with")

    async def others_that_ran(self) -> list[JobRow]:
        """Return jobs of the same user that have run, those with the same name first.

        If there are none, the user is told.
        """
        row = self.row
        try:
            ended = await self.deck.core.last_ended(row.user if row else None)
        except UserError as error:
            self.deck.tell_error(error)
            return []
        found = choices(row, [*ended, *self.deck.board.jobs.values()])
        if not found:
            self.app.notify("No other job has run", severity="warning")
        return found

    @work(exclusive=True, group="diff")
    async def _compare(self, other: JobRow) -> None:
        await self._compare_with(other)

    @work(exclusive=True, group="diff")
    async def action_what_changed(self) -> None:
        """Show how this job differs from the last completed job of its name."""
        now, core = self.detail, self.deck.core
        if now is None:
            return
        try:
            worked = last_that_worked(now.row, await core.last_completed(now.row.user, name=now.row.name))
        except UserError as error:
            self.deck.tell_error(error)
            return
        if worked is None:
            words = f"No earlier job {now.row.name} of {now.row.user} has completed"
            self.app.notify(words, severity="warning", markup=False)
            return
        await self._compare_with(worked)

    async def _compare_with(self, other: JobRow) -> None:
        """Compare the options, the environment and the code of the other job with those of this one."""
        now = self.detail
        if now is None:
            return
        try:
            compared = await self._compared(await self.deck.core.job(str(other.id)), now)
        except UserError as error:
            self.deck.tell_error(error)
            return
        await self._show(Labels(f"job {other.label}", f"job {self._label()}"), compared)

    async def _compared(self, there: JobDetail, now: JobDetail) -> _Compared:
        core, me = self.deck.core, self.deck.board.user
        variables: tuple[dict[str, str], dict[str, str]] = {}, {}
        if now.row.user == there.row.user == me:
            variables = await core.environment(there.row.label), await core.environment(now.row.label)
        options = option_changes(there, now, variables=variables)
        if not (now.snapshot and there.snapshot):
            without = now if not now.snapshot else there
            note = f"The code is not compared, because job {without.row.label} has no snapshot"
            return _Compared(options, "", note)
        return _Compared(options, await core.diff_with_job(now.snapshot, str(there.row.id)))

    async def _show(self, labels: Labels, compared: _Compared) -> None:
        code = await asyncio.to_thread(parse, compared.code)
        parsed = Parsed((*compared.options, *code.files), code.is_cut, compared.note)
        self.app.push_screen(DiffPage(f"Changes from {labels.old} (-) to {labels.new} (+)", parsed, labels))

    def _label(self) -> str:
        return self.row.label if self.row else self.key


def choices(row: JobRow | None, jobs: Sequence[JobRow]) -> list[JobRow]:
    """Return the jobs that can be compared with this one.

    They are all jobs that have run, those of the same name first, the latest first.
    """
    own, name = (row.id, row.name) if row else (0, "")
    begun = [each for each in {each.id: each for each in jobs}.values() if each.start and each.id != own]
    return sorted(begun, key=lambda each: (each.name != name, -each.id))[:MAX_CHOICES]
