"""The "Metrics" pane of a job's page, which is also shown beside the log on a wide terminal.

It shows curves of the metrics in the job's log, curves of other runs, and the job's GPUs on the same time
axis. The data are read again regularly while the job runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Sequence
from typing import cast

from textual import work

from warpdeck.base.errors import UserError
from warpdeck.client.runs.printed_metrics import Part, Readings, readings
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.metrics.chart import MAX_RUNS, Page, Run, chart, names, run_of
from warpdeck_tui.widgets.line_pane import LinePane

AGAIN_S = 10.0
"""Seconds between two reads of a running job's log. A read takes about a megabyte, and is parsed in a
thread.
"""
READ_SHARE = 100
"""A read that took one second is repeated after at least this many seconds, so that it takes at most one percent of
a core.
"""
UNCHANGED_S = 60.0
"""Seconds between two reads of a running job whose log does not grow. They update the GPUs."""


class MetricsPane(LinePane):
    """The curves of one or more runs.

    The first run is the page's own job; the others are added for comparison.
    """

    def __init__(self, key: str, *, id: str, changed: Callable[[], None]) -> None:
        """Create the pane of the job `key`. `changed` is called when the number of metrics has changed."""
        super().__init__(id=id)
        self._keys = [key]
        self._changed = changed
        self._page = Page((), told="Reading the log...")
        self._runs: dict[str, Run] = {}
        self._ended: set[str] = set()
        """Runs that were read after their end, so they do not change any more."""
        self._read_at = -math.inf
        self._read_bytes = -1
        """Length of the log, as the log pane knew it, at the last read."""
        self._pause_s = AGAIN_S
        self._drawn = False

    @property
    def deck(self) -> Deck:
        return cast(Deck, self.app)

    @property
    def has_metrics(self) -> bool:
        """Whether a metric was found in the log."""
        return bool(names(self._page.runs))

    def look(self, *, ended: bool, log_bytes: int = 0) -> None:
        """Read the runs that are missing or old, and draw them when they arrive.

        `ended` is true if the page's own job has ended. An ended job may be started again. `log_bytes` is the part of
        its log that the log pane has received, by which a log that has grown is noticed.
        """
        if not self._drawn:
            self._draw()
        if not ended:
            self._ended.discard(self._keys[0])
        changing = any(key not in self._ended for key in self._keys)
        pause_s = self._pause_s if ended or log_bytes != self._read_bytes else max(self._pause_s, UNCHANGED_S)
        if changing and time.monotonic() - self._read_at > pause_s:
            self._read_bytes = log_bytes
            self._read()

    def recolour(self) -> None:
        """Apply the current theme."""
        self._draw()

    def next_name(self) -> None:
        """Show the next metric."""
        every = names(self._page.runs)
        if every:
            at = every.index(self._page.name) if self._page.name in every else -1
            self._page = self._page._replace(name=every[(at + 1) % len(every)])
            self._draw()

    def turn_axis(self) -> None:
        """Switch the x axis between step and time."""
        self._page = self._page._replace(by_step=not self._page.by_step)
        self._draw()

    def turn_smooth(self) -> None:
        """Switch between the printed points and their moving average."""
        self._page = self._page._replace(smooth=not self._page.smooth)
        self._draw()

    def lay_over(self, key: str) -> None:
        """Add the curves of another run. If there are too many runs, the oldest added one is removed."""
        if key not in self._keys:
            self._keys = [self._keys[0], *self._keys[1:][-(MAX_RUNS - 2) :], key]
            self._read()

    def take_away(self) -> bool:
        """Remove the run that was added last. Return False if there is none."""
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
        before, self._page = self._page, self._page._replace(runs=runs, name=name, told=told)
        self._draw()
        if len(names(before.runs)) != len(every):
            self._changed()

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
            told, took_s = await asyncio.to_thread(
                _timed_readings, parts, size_bytes=size_bytes, begin=row.start, end=end
            )
            self._pause_s = max(AGAIN_S, READ_SHARE * took_s)
            found = told | found
        with contextlib.suppress(UserError):  # the metrics are useful without the GPU curves
            return run_of(row, found, await core.curves(key))
        return run_of(row, found, [])

    def _draw(self) -> None:
        page, self._drawn = self._page, True
        self.show(lambda width, height: chart(page, width=width, height=height), self.deck.palette)


def _timed_readings(
    parts: Sequence[Part], *, size_bytes: int, begin: float, end: float
) -> tuple[Readings, float]:
    """Return the metrics, and the CPU seconds that it took to find them."""
    began = time.thread_time()
    return readings(parts, size_bytes=size_bytes, begin=begin, end=end), time.thread_time() - began
