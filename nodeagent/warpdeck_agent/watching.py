"""Noticing that a supervisor has ended: by pidfd, for own children and adopted ones alike; by its lock on old kernels."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Callable, Generic, Optional, Protocol, Set, TypeVar

from .spool import JobFolder

POLL_S = 0.05
"""How often a lock is looked at where there is no pidfd (kernels before 5.3)."""


class Supervised(Protocol):
    """A job, or a task of a step: its folder, and its supervisor where that is our own child."""

    folder: JobFolder
    process: Optional[subprocess.Popen[bytes]]

    def reap(self) -> None:
        """Takes the end of its supervisor."""


_T = TypeVar("_T", bound=Supervised)


class Watch(Generic[_T]):
    """Calls `on_end` once for each job or task whose supervisor has ended."""

    def __init__(self, on_end: Callable[[_T], None]) -> None:
        self._on_end = on_end
        self._polling: Set[asyncio.Task[None]] = set()

    def add(self, job: _T) -> None:
        """Watches from now on; a supervisor that is gone already is noticed too."""
        loop = asyncio.get_running_loop()
        pid = job.process.pid if job.process is not None else job.folder.pid()
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            task = loop.create_task(self._poll(job))
            self._polling.add(task)
            task.add_done_callback(self._polling.discard)
            return
        loop.add_reader(descriptor, self._ended, job, descriptor)

    def _ended(self, job: _T, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        self._tell(job)

    async def _poll(self, job: _T) -> None:
        while job.folder.supervisor_lives():
            await asyncio.sleep(POLL_S)
        self._tell(job)

    def _tell(self, job: _T) -> None:
        job.reap()
        self._on_end(job)
