"""What was done in the app: each change with the command line that does the same, and how it is taken back if it can be.

Hold and release take each other back, so do drain and resume; what was changed of a job, a reservation or the site's rules is
made again what it was. What a cancel or a requeue ended is gone, and a submitted job
is cancelled, which asks: these have no undo. What took something back is in the chronicle too, and is not taken back itself.
An undo that nobody answered is the next one still; one that was refused makes room for the others, and may be asked for again
by name.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from warpdeck_tui.viewmodels import Cell, Line

MOST_KEPT = 500
"""A day's work; who needs more has the accounting."""


class Undo(NamedTuple):
    """`command`: the command line that takes it back; `call` does. Raises UserError."""

    command: str
    call: Callable[[], Awaitable[object]]


class Done(NamedTuple):
    """One change; `key` tells it from all others. `is_refused`: its undo was."""

    key: str
    at_unix: float
    command: str
    undo: Undo | None
    is_refused: bool = False


class Chronicle:
    """The changes of one app, the latest last."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._done: deque[Done] = deque(maxlen=MOST_KEPT)
        self._count = 0

    def __iter__(self) -> Iterator[Done]:
        return iter(self._done)

    def add(self, command: str, undo: Undo | None = None) -> None:
        """It was done, and the controller has said so."""
        self._count += 1
        self._done.append(Done(str(self._count), self._clock(), command, undo))

    def take(self, key: str = "") -> Done | None:
        """The latest change that can be taken back, or that one if it can. It is given to nobody else until it is given back."""
        for place in range(len(self._done) - 1, -1, -1):
            done = self._done[place]
            if done.undo is not None and (done.key == key if key else not done.is_refused):
                self._done[place] = done._replace(undo=None)
                return done
        return None

    def give_back(self, done: Done, *, is_refused: bool) -> None:
        """It was not taken back."""
        for place, each in enumerate(self._done):
            if each.key == done.key:
                self._done[place] = done._replace(is_refused=is_refused)

    def command(self, key: str) -> str:
        """The command line of that change, "" if it is not kept any more."""
        return next((done.command for done in self._done if done.key == key), "")

    def rows(self) -> list[tuple[str, Line]]:
        """As a table's rows, the latest first: when, the command, and whether it can be taken back."""
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
