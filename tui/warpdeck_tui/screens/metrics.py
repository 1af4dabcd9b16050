"""A job's metrics: what it prints as a curve, other runs over it, its GPUs on the same axis. Read anew while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Sequence
from typing import cast

from textual import work

from warpdeck.base.errors import UserError
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.jobs.chart import MAX_RUNS, Page, Run, chart, names, run_of
from warpdeck_tui.viewmodels.jobs.readings import Part, Readings, readings
from warpdeck_tui.widgets.line_pane import LinePane

AGAIN_S = 10.0
"""How often the log of a running job is read anew: about a megabyte, in a thread."""
MAX_CHOICES = 200
"""Of the latest jobs, to lay over."""


class MetricsPane(LinePane):
    """The first run is the page's own; the others are laid over it."""

    def __init__(self, key: str, *, id: str) -> None:
        super().__init__(id=id)
        self._keys = [key]
        self._page = Page((), told="reading what it prints ...")
        self._runs: dict[str, Run] = {}
        self._ended: set[str] = set()
        """Runs that were read after their end: they do not change."""
        self._read_at = -math.inf
        self._drawn = False

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    def look(self, *, ended: bool) -> None:
        """Reads what is missing or old, and draws it when it is there: not again until something has changed.

        `ended`: whether the page's own job has; it may be started again."""
        if not self._drawn:
            self._draw()
        if not ended:
            self._ended.discard(self._keys[0])
        changing = any(key not in self._ended for key in self._keys)
        if changing and time.monotonic() - self._read_at > AGAIN_S:
            self._read()

    def recolour(self) -> None:
        """Another theme."""
        self._draw()

    def next_name(self) -> None:
        """The next of the numbers that it prints."""
        every = names(self._page.runs)
        if every:
            at = every.index(self._page.name) if self._page.name in every else -1
            self._page = self._page._replace(name=every[(at + 1) % len(every)])
            self._draw()

    def turn_axis(self) -> None:
        """By step, or by time."""
        self._page = self._page._replace(by_step=not self._page.by_step)
        self._draw()

    def turn_smooth(self) -> None:
        """Each point as it was printed, or the mean of those around it."""
        self._page = self._page._replace(smooth=not self._page.smooth)
        self._draw()

    def lay_over(self, key: str) -> None:
        """Another run over these; the oldest such goes where they are too many."""
        if key not in self._keys:
            self._keys = [self._keys[0], *self._keys[1:][-(MAX_RUNS - 2) :], key]
            self._read()

    def take_away(self) -> bool:
        """The run that was laid over last; False if there is none."""
        if len(self._keys) == 1:
            return False
        self._keys.pop()
        self._settle("")
        return True

    @work(exclusive=True, group="metrics")
    async def _read(self) -> None:
        self._read_at = time.monotonic()
        for key in list(self._keys):
            if key not in self._ended:
                try:
                    self._runs[key] = await self._read_run(key)
                except UserError as error:
                    self._keys = [each for each in self._keys if each != key or each == self._keys[0]]
                    self._settle(error.message)
                    return
        self._settle("")

    def _settle(self, told: str) -> None:
        runs = tuple(self._runs[key] for key in self._keys if key in self._runs)
        every = names(runs)
        name = self._page.name if self._page.name in every else (every[0] if every else "")
        self._page = self._page._replace(runs=runs, name=name, told=told)
        self._draw()

    async def _read_run(self, key: str) -> Run:
        core = self.deck.core
        detail = await core.job(key)
        row, found = detail.row, Readings()
        if row.end is not None:
            self._ended.add(key)
        if row.start is None:
            return run_of(row, found, [])
        for channel in ["out", "err"] if detail.stderr not in ("", detail.stdout) else ["out"]:
            size_bytes, pieces = await core.log_parts(key, channel=channel)
            parts = [Part(at_bytes, data) for at_bytes, data in pieces]
            end = row.end or time.time()
            told = await asyncio.to_thread(readings, parts, size_bytes=size_bytes, begin=row.start, end=end)
            found = told | found
        with contextlib.suppress(UserError):  # its numbers are worth showing without its GPUs
            return run_of(row, found, await core.curves(key))
        return run_of(row, found, [])

    def _draw(self) -> None:
        page, self._drawn = self._page, True
        self.show(lambda width, height: chart(page, width=width, height=height), self.deck.palette)


def choices(row: JobRow | None, jobs: Sequence[JobRow]) -> list[JobRow]:
    """Jobs to lay over this one: all that have run, those of its name first, the latest first."""
    own, name = (row.id, row.name) if row else (0, "")
    begun = [each for each in {each.id: each for each in jobs}.values() if each.start and each.id != own]
    return sorted(begun, key=lambda each: (each.name != name, -each.id))[:MAX_CHOICES]
