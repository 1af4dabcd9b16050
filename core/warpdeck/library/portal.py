"""An event loop in a thread of its own, and the way into it for programs that have none, or have one that must not be held up:
in a notebook the main thread's loop runs already, so nothing can be run to its end there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """The loop. Its thread is a daemon's: a program that forgets to close it can still end."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="warpdeck", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result or error. An interrupted caller cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins it, and does not wait."""
        if self.loop.is_closed():
            work.close()
            raise RuntimeError("the client was closed")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run_soon(self, function: Callable[..., None], *args: Any) -> None:
        """Has the loop call it, and does not wait. Raises RuntimeError where it has ended."""
        if self.loop.is_closed():
            raise RuntimeError("the client was closed")
        self.loop.call_soon_threadsafe(function, *args)

    def iterate(self, items: AsyncGenerator[T]) -> Iterator[T]:
        """What an asynchronous generator yields, one at a time: it is not asked for more than is taken."""
        try:
            while True:
                try:
                    yield self.call(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            if not self.loop.is_closed():
                self.call(items.aclose())

    def close(self) -> None:
        """Ends the loop and its thread; what still runs in it is cancelled."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


async def _next(items: AsyncGenerator[T]) -> T:
    return await anext(items)
