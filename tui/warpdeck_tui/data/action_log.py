"""The log of the changes made in the app: each with its equivalent command line and, where possible, an undo.

Hold and release undo each other, and so do drain and resume. Changes of a job, a reservation or the site's
rules are undone by restoring the old values. Cancel and requeue have no undo, because the ended work is lost.
Submitting has none either, because the job can be canceled, which asks for confirmation. An undo is logged,
too, but cannot be undone itself. If nobody answers an undo, it remains the next one to try. If it is refused,
the app skips it in favor of the others, but the user can still request it by its key.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from warpdeck_tui.viewmodels import Cell, Line

MOST_KEPT = 500
"""Number of changes kept, about a day's work. For older ones there is the accounting."""


class Undo(NamedTuple):
    """How to undo a change: `call` does it and may raise UserError; `command` is the equivalent command
    line.
    """

    command: str
    call: Callable[[], Awaitable[object]]


class Done(NamedTuple):
    """One change with its unique `key`. `is_refused` is true if its undo was refused."""

    key: str
    at_unix: float
    command: str
    undo: Undo | None
    is_refused: bool = False


class ActionLog:
    """The changes made in this app, the latest last."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._done: deque[Done] = deque(maxlen=MOST_KEPT)
        self._count = 0

    def __iter__(self) -> Iterator[Done]:
        return iter(self._done)

    def add(self, command: str, undo: Undo | None = None) -> None:
        """Record a change that the controller has confirmed."""
        self._count += 1
        self._done.append(Done(str(self._count), self._clock(), command, undo))

    def take(self, key: str = "") -> Done | None:
        """Return the latest change that can be undone, or the one with this key, and mark it as being undone.

        The change is not returned again until `give_back`. Returns None if there is no suitable change.
        """
        for place in range(len(self._done) - 1, -1, -1):
            done = self._done[place]
            if done.undo is not None and (done.key == key if key else not done.is_refused):
                self._done[place] = done._replace(undo=None)
                return done
        return None

    def give_back(self, done: Done, *, is_refused: bool) -> None:
        """Make the change available for undo again, because undoing it failed."""
        for place, each in enumerate(self._done):
            if each.key == done.key:
                self._done[place] = done._replace(is_refused=is_refused)

    def command(self, key: str) -> str:
        """Return the command line of the change with this key, or "" if it is no longer kept."""
        return next((done.command for done in self._done if done.key == key), "")

    def rows(self) -> list[tuple[str, Line]]:
        """Return the changes as table rows, the latest first: time, command, and whether it can be undone."""
        return [
            (
                done.key,
                (
                    Cell(time.strftime("%H:%M:%S", time.localtime(done.at_unix)), "muted"),
                    Cell(done.command),
                    _undo_cell(done),
                ),
            )
            for done in reversed(self._done)
        ]


def _undo_cell(done: Done) -> Cell:
    if done.undo is None:
        return Cell("")
    return Cell("refused", "warn") if done.is_refused else Cell("yes")
