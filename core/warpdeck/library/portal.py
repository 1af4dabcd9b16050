"""An event loop in its own thread, and calls into it from other threads.

It serves programs without an event loop, and programs whose loop must not be blocked. In a notebook the main
thread's loop is already running, so a call cannot run it to completion there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Portal:
    """The event loop and its thread. It is a daemon thread, so a program that forgets to close it can still
    exit.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="warpdeck", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result or raise its error. Interrupting the caller cancels the
        coroutine.
        """
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine without waiting for it."""
        if self.loop.is_closed():
            work.close()
            raise RuntimeError("the client was closed")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run_soon(self, function: Callable[..., None], *args: Any) -> None:
        """Let the loop call a function, without waiting. Raises RuntimeError if the loop has ended."""
        if self.loop.is_closed():
            raise RuntimeError("the client was closed")
        self.loop.call_soon_threadsafe(function, *args)

    def iterate(self, items: AsyncGenerator[T]) -> Iterator[T]:
        """Yield the items of an asynchronous generator. Each item is requested when it is taken, and not
        before.
        """
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
        """End the loop and its thread. Tasks that still run in it are cancelled."""
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
