"""Noticing that a launch has ended whose supervisor was killed, and which is nobody's child here: by pidfd, or by looking again.

The supervisor tells the end of what it watches. This is for launches whose supervisor was killed.
"""

from __future__ import annotations

import asyncio
import os
from typing import Callable, Set

from .job import Job

POLL_S = 0.05
"""How often is looked where there is no pidfd."""


class Unsupervised:
    """Calls `on_end` once for each job whose first process has ended."""

    def __init__(self, on_end: Callable[[Job], None]) -> None:
        self._on_end = on_end
        self._polling: Set[asyncio.Task[None]] = set()

    def add(self, job: Job) -> None:
        """Watches from now on; one that is gone already, or whose pid is another's, is noticed too."""
        loop, pid = asyncio.get_running_loop(), job.folder.pid()
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            task = loop.create_task(self._poll(job))
            self._polling.add(task)
            task.add_done_callback(self._polling.discard)
            return
        if job.owns(pid):
            loop.add_reader(descriptor, self._ended, job, descriptor)
        else:
            os.close(descriptor)
            self._on_end(job)

    def _ended(self, job: Job, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._on_end(job)

    async def _poll(self, job: Job) -> None:
        while job.owns(job.folder.pid()):
            await asyncio.sleep(POLL_S)
        self._on_end(job)
