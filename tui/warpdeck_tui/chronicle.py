"""What was done in the app: each change with the command line that does the same, and how it is taken back if it can be.

Hold and release take each other back, so do drain and resume; what was changed of a job, a reservation or the site's rules is
made again what it was. What a cancel or a requeue ended is gone, and a submitted job
is cancelled, which asks: these have no undo. What took something back is in the chronicle too, and is not taken back itself.
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
    """One change; `key` tells it from all others."""

    key: str
    at_unix: float
    command: str
    undo: Undo | None


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

    def take_undo(self) -> Undo | None:
        """How the latest change that can be taken back is; it is asked for once."""
        for place in range(len(self._done) - 1, -1, -1):
            done = self._done[place]
            if done.undo is not None:
                self._done[place] = done._replace(undo=None)
                return done.undo
        return None

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
                    Cell("yes" if done.undo else ""),
                ),
            )
            for done in reversed(self._done)
        ]
