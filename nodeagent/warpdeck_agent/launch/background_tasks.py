"""Tasks of the event loop that run in the background: no other task waits for their end."""

from __future__ import annotations

import asyncio
from typing import Any, Coroutine, Set, TypeVar

_T = TypeVar("_T")


class BackgroundTasks:
    """Keeps a reference to each task until it has ended, because the event loop itself keeps none."""

    def __init__(self) -> None:
        self._tasks: Set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Run `work` as a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        """Cancel all tasks that have not ended."""
        for task in list(self._tasks):
            task.cancel()
