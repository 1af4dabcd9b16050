"""Keys and pastes in their order: each is done, all that follows from it, before the next one is looked at.

Textual hands a key to the widget with the focus, and finds out what it means when it has travelled from there up to the app;
a key that comes meanwhile goes to the same widget, though the first one may have opened a line of text that it was meant for.
Here it waits, until a message that went the key's own way twice (the second time behind what the widget itself had to say) has
come back, and until the screen in front stands with its focus. Nothing keeps keys for ever.
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
"""So long a key waits for the one before, whose widget may have gone."""
BUSY, MOST_PATIENCES = 0.2, 5
"""Who has worked for that part of the time, on a machine that gives no more, may still be at it: so often is it waited again."""
OPENING_S = 3.0
"""What is asked for before a dialog opens may take so long; then what was typed is forgotten: it was not for this screen."""
MOST_WAITING = 1000
"""Who leans on a key for longer means none of them."""
ROUNDS = 2

Typed = events.Key | events.Paste


class Settled(Message):
    """What was in front of it is done: it comes up from the widget to the app."""

    def __init__(self, number: int, rounds: int) -> None:
        super().__init__()
        self.number = number
        self.rounds = rounds


class Keyboard:
    """`give` does what Textual does with a key; `ready` says whether the screen in front can take one."""

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

    @property
    def is_idle(self) -> bool:
        """Whether all keys are done."""
        return not self._busy and not self._waiting

    async def take(self, event: Typed) -> None:
        """A key, or a paste, has come."""
        self._waiting.append(event)
        await self.go_on()

    async def go_on(self) -> None:
        """Does what can be done now."""
        while self._waiting and not self._busy and not self._opens and self._ready():
            event = self._waiting.popleft()
            await self._give(event)
            if event.is_forwarded:
                self._busy = True
                self._number += 1
                self._look_after(self._number, MOST_PATIENCES)
                self._send(Settled(self._number, ROUNDS))

    @property
    def _opens(self) -> bool:
        return self._opening is not None and not self._opening.is_finished

    def wait_for(self, worker: Worker[None]) -> None:
        """A dialog opens as soon as the worker has what it shows: what is typed from here on is for that."""
        self._opening = worker

        async def give_up() -> None:
            if self._opening is worker and self._opens:
                self._opening = None
                self._waiting.clear()

        self._app.set_timer(OPENING_S, give_up)

    def _send(self, message: Settled) -> None:
        (self._app.focused or self._app.screen).post_message(message)

    async def settled(self, message: Settled) -> None:
        """One came back."""
        if message.number != self._number:
            return
        if message.rounds > 1:
            self._send(Settled(message.number, message.rounds - 1))
        else:
            self._busy = False
            await self.go_on()

    def _look_after(self, number: int, times: int) -> None:
        """Goes on without word from that key if it does not come, once nothing is done any more."""
        begun_s = time.process_time()

        async def look() -> None:
            if not self._busy or number != self._number:
                return
            if times > 1 and time.process_time() - begun_s > BUSY * PATIENCE_S:
                self._look_after(number, times - 1)
            else:
                self._busy = False
                await self.go_on()

        self._app.set_timer(PATIENCE_S, look)
