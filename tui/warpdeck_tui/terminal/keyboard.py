"""Processes keys and pastes strictly in order.

Each is handled completely, with all its consequences, before the next one. Textual hands a key to the focused
widget and finds its meaning only after it has bubbled up to the app. A second key that arrives meanwhile goes
to the same widget, even if the first key opened a text field that the second was meant for.
Here the second key waits until a marker message has come back and the screen in front is ready and has its
focus. The marker takes the same route as the key twice; the second time it is behind the messages that the
widget itself posted. All waits have a time limit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable

from textual import events
from textual.app import App
from textual.message import Message
from textual.worker import Worker

PATIENCE_S = 1.0
"""Seconds that a key waits for the previous one, whose widget may have been removed."""
BUSY, MOST_PATIENCES = 0.2, 5
"""A process that computed or waited for a CPU for more than the share `BUSY` of that time may still be working.
Then the wait is repeated, `MOST_PATIENCES` times at most in all.
"""
SCHEDULER_STATISTICS = "/proc/self/schedstat"
"""A file of Linux: nanoseconds on a CPU, nanoseconds of waiting for a CPU, number of time slices."""
OPENING_S = 3.0
"""Seconds within which the data for a dialog must arrive. After that the typed keys are dropped, because they
were not meant for the current screen.
"""
MOST_WAITING = 1000
"""Largest number of waiting keys. Key repeat beyond this is dropped."""
ROUNDS = 2

Typed = events.Key | events.Paste


class Settled(Message):
    """Marker message that bubbles from the widget to the app.

    When it arrives, everything posted before it is done.
    """

    def __init__(self, number: int, rounds: int) -> None:
        super().__init__()
        self.number = number
        self.rounds = rounds


class Keyboard:
    """Queue of typed keys and pastes.

    `give` passes a key to Textual's normal handling; `ready` returns whether the screen in front can take a
    key.
    """

    def __init__(
        self, app: App[None], *, give: Callable[[Typed], Awaitable[None]], ready: Callable[[], bool]
    ) -> None:
        self._app = app
        self._give = give
        self._ready = ready
        self._waiting: deque[Typed] = deque(maxlen=MOST_WAITING)
        self._number = 0
        self._busy = False
        self._opening: Worker[None] | None = None
        self._typed_at = time.monotonic()

    @property
    def rested_s(self) -> float:
        """Number of seconds since the last key."""
        return time.monotonic() - self._typed_at

    @property
    def is_idle(self) -> bool:
        """Whether all keys have been handled."""
        return not self._busy and not self._waiting

    async def take(self, event: Typed) -> None:
        """Add a key or a paste to the queue."""
        self._typed_at = time.monotonic()
        self._waiting.append(event)
        await self.go_on()

    async def go_on(self) -> None:
        """Handle the waiting keys as far as possible now."""
        while self._waiting and not self._busy and not self.is_opening and self._ready():
            event = self._waiting.popleft()
            await self._give(event)
            if event.is_forwarded:
                self._busy = True
                self._number += 1
                self._look_after(self._number, MOST_PATIENCES)
                self._send(Settled(self._number, ROUNDS))

    @property
    def is_opening(self) -> bool:
        """Whether keys are held back until a dialog opens."""
        return self._opening is not None and not self._opening.is_finished

    def wait_for(self, worker: Worker[None]) -> None:
        """Hold back keys until `worker` has finished, because it opens a dialog that the keys are meant for.

        After `OPENING_S` seconds the keys typed meanwhile are dropped.
        """
        self._opening = worker

        async def give_up() -> None:
            if self._opening is worker and self.is_opening:
                self._opening = None
                self._waiting.clear()

        self._app.set_timer(OPENING_S, give_up)

    def _send(self, message: Settled) -> None:
        (self._app.focused or self._app.screen).post_message(message)

    async def settled(self, message: Settled) -> None:
        """Handle a marker message that has come back."""
        if message.number != self._number:
            return
        if message.rounds > 1:
            self._send(Settled(message.number, message.rounds - 1))
        else:
            self._busy = False
            await self.go_on()

    def _look_after(self, number: int, times: int) -> None:
        """Set a timer that continues even if the marker of this key never arrives.

        It continues once the process is idle or the wait was repeated often enough.
        """
        begun_s = busy_s()

        async def look() -> None:
            if not self._busy or number != self._number:
                return
            if times > 1 and busy_s() - begun_s > BUSY * PATIENCE_S:
                self._look_after(number, times - 1)
            else:
                self._busy = False
                await self.go_on()

        self._app.set_timer(PATIENCE_S, look)


def busy_s() -> float:
    """Return how long this process has computed or, where Linux tells it, waited for a CPU, in seconds."""
    try:
        with open(SCHEDULER_STATISTICS, encoding="ascii") as file:
            waited_ns = int(file.read().split()[1])
    except (OSError, IndexError):
        waited_ns = 0
    return time.process_time() + waited_ns / 1e9
