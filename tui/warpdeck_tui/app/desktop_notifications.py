"""Desktop notifications about jobs that start or end: the jobs marked in the queue, or all of the user's own.

Events that arrive within a moment are combined, because nobody wants a thousand notifications for an array of
a thousand tasks.
"""

from __future__ import annotations

import os

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Delta
from warpdeck_tui.deck import Deck
from warpdeck_tui.viewmodels.jobs.arrays import fold_key
from warpdeck_tui.viewmodels.shell.notifications import bundle, desktop_sequence, event, ready_words

TOGETHER_S = 0.5
MOST_KEPT = 10_000
"""Largest number of events that are kept in half a second. Events beyond this are dropped."""


class DesktopNotifications:
    """The notifications of one app."""

    def __init__(self, deck: Deck) -> None:
        self._deck = deck
        self._news: list[tuple[str, JobRow]] = []

    def look(self, delta: Delta) -> None:
        """Note the jobs that start or end with this delta.

        Must be called before the delta is applied to the client state.
        """
        board = self._deck.board
        if not board.ready or (self._deck.settings.notify == "none" and not board.awaited):
            return
        for row in delta.jobs:
            kind = event(board.jobs.get(row.id), row)
            if kind and len(self._news) < MOST_KEPT and self._is_heeded(row):
                if not self._news:
                    self._deck.set_timer(TOGETHER_S, self._tell)
                self._news.append((kind, row))

    def _is_heeded(self, row: JobRow) -> bool:
        if row.id in self._deck.board.awaited:
            return True
        if self._deck.settings.notify == "none":
            return False
        if self._deck.settings.notify == "own" and row.user == self._deck.board.user:
            return True
        marks = self._deck.marks
        return str(row.id) in marks or (row.array_task_id is not None and fold_key(row.array_job_id) in marks)

    def _tell(self) -> None:
        ready = [row for kind, row in self._news if kind == "started" and self._is_awaited(row)]
        others = [each for each in self._news if each[1] not in ready]
        self._deck.board.awaited.difference_update(row.id for kind, row in self._news if kind == "ended")
        self._news = []
        lines = [self._ready_words(row) for row in ready] + bundle(others)
        for line in lines:
            self._deck.notify(line, markup=False)
        self._deck.write_sequence(desktop_sequence("; ".join(lines), in_tmux=bool(os.environ.get("TMUX"))))

    def _is_awaited(self, row: JobRow) -> bool:
        return row.id in self._deck.board.awaited

    def _ready_words(self, row: JobRow) -> str:
        self._deck.board.awaited.discard(row.id)
        key = "a" if self._deck.navigation.point_at(str(row.id)) else "5, then a"
        return ready_words(row.label, key=key)
