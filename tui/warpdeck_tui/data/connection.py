"""The app's only connection to the controller, which reconnects by itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.asyncio_client import GONE, AsyncioClient
from warpdeck.client.blocking_client import SyncClient
from warpdeck.protocol import requests
from warpdeck.protocol.request_base import RequestMessage
from warpdeck.protocol.results import Delta, Welcome
from warpdeck.protocol.site_rows import EngineRow

if TYPE_CHECKING:
    pass

RECONNECT_FIRST_S = 0.2
RECONNECT_MOST_S = 5.0
PULSE_S = 5.0
"""Seconds between two requests that only test whether the controller still answers."""
LATE_S = 5.0
"""After this many seconds without an answer the user is informed. A slow disk or a debugger can stop the
controller for minutes.
"""
FINISHED_S = 3600.0
"""Jobs that ended at most this many seconds ago are still shown in the queue."""
T = TypeVar("T")


class Listener(Protocol):
    """Interface for the events of the connection. The app implements it."""

    def linked(self, welcome: Welcome) -> None:
        """A connection was made. The complete state will be sent again."""

    def told(self, delta: Delta) -> None: ...

    def looked(self, engine: EngineRow) -> None:
        """The scheduler was read again, perhaps without any change of its jobs and nodes."""

    def went_away(self, words: str) -> None:
        """There is no connection or no answer; `words` says why."""

    def came_back(self) -> None:
        """The controller answers again after a delay."""


def _hangs() -> str:
    return "The server does not respond; waiting"


@contextlib.contextmanager
def _answering(listener: Listener, late_s: float, words: Callable[[], str] = _hangs) -> Iterator[None]:
    """Notify the listener if the requests within this context are late, and again when they are answered.

    A request is late if it is not answered within `late_s` seconds. `words` then returns the message.
    """
    late = False

    def tell() -> None:
        nonlocal late
        late = True
        listener.went_away(words())

    timer = asyncio.get_running_loop().call_later(late_s, tell)
    try:
        yield
        if late:
            listener.came_back()
    finally:
        timer.cancel()


class ServerConnection:
    """The connection to the controller of one app. `watch` keeps it alive."""

    def __init__(
        self, paths: Paths, *, rng: random.Random, pulse_s: float = PULSE_S, late_s: float = LATE_S
    ) -> None:
        self.paths = paths
        self._rng = rng
        self._pulse_s, self._late_s = pulse_s, late_s
        self._client: AsyncioClient | None = None
        self._up = asyncio.Event()
        self._engine = EngineRow()
        self._was_up = False
        """Whether there was a connection since the app started."""

    async def watch(self, listener: Listener) -> None:
        """Report all changes to the listener, forever.

        Until the first connection, a controller is started if none is running, and again if its start failed. Later a
        controller is started again only if it crashed, because after `warpdeck down` it should stay stopped.
        """
        start, wait_s = True, RECONNECT_FIRST_S
        while True:
            try:
                client = await self._connected(listener, start=start)
                async with client:
                    wait_s = RECONNECT_FIRST_S
                    self._client, self._was_up = client, True
                    self._up.set()
                    listener.linked(client.welcome)
                    await self._tell(client, listener)
            except UserError as error:
                listener.went_away(self._why_away(error))
            finally:
                self._client = None
                self._up.clear()
            start = not self._was_up or os.path.exists(self.paths.socket)
            await asyncio.sleep(wait_s * self._rng.uniform(0.5, 1.0))
            wait_s = min(2 * wait_s, RECONNECT_MOST_S)

    async def _connected(self, listener: Listener, *, start: bool) -> AsyncioClient:
        """Return a connection, after starting a controller if none runs. The listener is told about the start. Raises UserError."""
        if self._was_up:
            with _answering(listener, self._late_s):
                return await AsyncioClient.connect(self.paths, start=start, name="app")
        # Only now, because the first frame does not need the module.
        from .server_start import late_words, start_words

        if words := start_words(self.paths):
            listener.went_away(words)
        with _answering(listener, self._late_s, lambda: late_words(self.paths) if words else _hangs()):
            return await AsyncioClient.connect(self.paths, start=start, name="app")

    def _why_away(self, error: UserError) -> str:
        if not self._was_up:
            from .server_start import failure_words

            return failure_words(self.paths, error)
        if error.code != GONE:
            return f"{error.message}; reconnecting"
        has_socket = os.path.exists(self.paths.socket)
        fact = "The connection to the server is lost" if has_socket else "The server has stopped"
        return f"{fact}; reconnecting"

    async def _tell(self, client: AsyncioClient, listener: Listener) -> None:
        """Report changes to the listener for as long as the connection lasts."""
        lost: UserError | None = None
        async with asyncio.TaskGroup() as group:
            pulse = group.create_task(self._feel_pulse(client, listener))
            try:
                async with contextlib.aclosing(client.subscribe(finished_s=FINISHED_S)) as deltas:
                    async for delta in deltas:
                        self._engine = delta.engine
                        listener.told(delta)
            except UserError as error:
                lost = error
            pulse.cancel()
        if lost is not None:
            raise lost

    async def _feel_pulse(self, client: AsyncioClient, listener: Listener) -> None:
        """Send a cheap request now and then.

        Otherwise a server that hangs would not be noticed, and the clocks would go on. If the data of the scheduler have
        an age, ask for it, because a subscription is silent while no job or node changes.
        """
        while not client.lost:
            await asyncio.sleep(self._pulse_s)
            with contextlib.suppress(UserError), _answering(listener, self._late_s):
                if self._engine == EngineRow(version=self._engine.version):
                    await client.ask(requests.Forwards())
                else:
                    listener.looked((await client.ask(requests.Status())).engine)

    async def start_controller(self) -> None:
        """Start a controller after it was stopped; `watch` then connects to it."""
        await (await AsyncioClient.connect(self.paths, name="app")).close()

    async def connected(self) -> None:
        """Return once there is a connection.

        A connection that was just lost does not count, even before `watch` notices it.
        """
        if self._client is not None and self._client.lost:
            self._up.clear()
        await self._up.wait()

    async def ask(self, request: RequestMessage[T]) -> T:
        """Return the result of a request. Raises UserError."""
        return await self._live().ask(request)

    def relay_client(self, *, start: bool = True) -> SyncClient:
        """Return a separate connection for a terminal. Raises UserError."""
        return SyncClient.connect(self.paths, start=start)

    def _live(self) -> AsyncioClient:
        if self._client is None:
            raise UserError("The server is not reachable", "Wait until it is back", code=GONE)
        return self._client
