"""Starts launches, either at once or after the launch that they wait for, and reports starts and failures.

A launch is "under way" from its Launch message until it is in the table of jobs or is known to have failed.
If its end is known before that, only its end is reported.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Collection, Dict

from warpdeck_agent.launch.launch import Job
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.start.launch_start import Launcher
from warpdeck_agent.wire.messages import GivenBack, JobReport, Key, Launch, LaunchFailed, TakeBack

from .prefetched import Ahead

CLOSE_S = 0.02
"""If launches start at shorter intervals than this (in seconds), they are treated as short jobs, for example
of an array. Reports of their starts are then delayed, because they would cost the controller as many
transactions again as the reports of their ends.
"""
BEGIN_S = 10.0
"""How long a request from a process waits for the report that its launch began, in seconds. The supervisor's
report takes up to CLOSE_S.
"""


class LaunchQueue:
    """Puts each launch that has begun into `jobs` and then calls `on_begin`.

    If the end of the launch is known by then, it calls `on_end` with the supervisor's report.
    """

    def __init__(
        self,
        launcher: Launcher,
        jobs: Dict[Key, Job],
        tell: Callable[[Any], None],
        *,
        on_begin: Callable[[Job], None],
        on_end: Callable[[Job, Dict[str, Any]], None],
    ) -> None:
        self._launcher = launcher
        self._jobs = jobs
        self._tell = tell
        self._on_begin = on_begin
        self._on_end = on_end
        self._launching: Dict[Key, asyncio.Task[None]] = {}
        self._ahead = Ahead(tell)
        self._started_at = -CLOSE_S
        self._ended_early: Dict[Key, Dict[str, Any]] = {}
        self._stopped: Dict[Key, str] = {}
        """Cause of the end of each launch that was ended while its user's processes were preparing it."""

    @property
    def under_way(self) -> Collection[Key]:
        """The launches that are being started and are not yet known to run or to have failed."""
        return self._launching.keys()

    async def settled(self, key: Key) -> None:
        """Wait until the start of the launch has succeeded or failed, if it is under way.

        The wait is limited to BEGIN_S.
        """
        beginning = self._launching.get(key)
        if beginning is not None:
            await asyncio.wait([beginning], timeout=BEGIN_S)

    def start(self, launch: Launch) -> None:
        """Start a launch, or report its state if it already exists."""
        key = (launch.job_id, launch.restarts)
        if key in self._launching:
            return
        job = self._jobs.get(key)
        if job is not None:
            self._tell(job.report())
        elif launch.behind:
            self._line_up(launch, key)
        elif key not in self._ahead:
            self._begin(launch, key)

    @property
    def any_is_under_way(self) -> bool:
        """Whether any launch is being started that is not yet among the jobs."""
        return bool(self._launching)

    def take_back(self, asked: TakeBack) -> None:
        """Revoke prefetched launches. Launches that have already begun are not affected."""
        self._ahead.give_back([(job_id, restarts) for job_id, restarts in asked.launches])

    def end_unbegun(self, key: Key, *, cause: str) -> None:
        """End a launch that has not begun.

        A launch that waits for another one is ended at once, and so is a launch that is being prepared by a
        process of its user. Any other launch is about to begin; it is ended when it has begun.
        """
        if key in self._ahead:
            self._ahead.remove(key)
            self._tell(JobReport(*key, phase="exited", cause=cause, ended_at=time.time()))
        elif key in self._launching and self._launcher.stop(key):
            self._stopped[key] = cause

    def has_ended(self, key: Key, said: Dict[str, Any]) -> None:
        """Handle the supervisor's report on the end of a launch that is not in the table.

        It is stored if the launch is under way.
        """
        if key in self._launching:
            self._ended_early[key] = said

    def place_is_free(self, job: Job) -> None:
        """Begin the launch that waits for the resources of `job`.

        The end of `job` may not have been reported yet.
        """
        if not job.is_out:
            job.is_out = True
            if job.drain:
                self._ahead.close(job.key)
            job.is_followed = self._go_on(job.key)

    def _begin(self, launch: Launch, key: Key) -> None:
        self._launching[key] = asyncio.get_running_loop().create_task(self._start(launch, key))

    def _line_up(self, launch: Launch, key: Key) -> None:
        """Queue a prefetched launch behind the launch that it waits for.

        The earlier launch may have ended meanwhile; then this one begins at once. If the earlier launch never
        began and is gone, this launch is given back to the controller.
        """
        before = (launch.behind[0], launch.behind[1])
        if key in self._ahead:
            return
        if self._holds_a_place(before):
            self._ahead.add(launch)
        elif before in self._jobs:
            self._begin(launch, key)
        else:
            self._tell(GivenBack(launches=[list(key)]))

    def _holds_a_place(self, key: Key) -> bool:
        """Return whether other launches must wait for the launch `key`.

        That is so while it runs and holds its resources, or is starting or waiting itself.
        """
        job = self._jobs.get(key)
        if job is not None:
            return job.phase in ("running", "ending") and not job.is_out
        return key in self._launching or key in self._ahead

    def _go_on(self, gone: Key) -> bool:
        """Begin the launch that waits for `gone`. Returns whether there is one."""
        launch = self._ahead.next(gone)
        if launch is not None:
            self._begin(launch, (launch.job_id, launch.restarts))
        return launch is not None

    async def _start(self, launch: Launch, key: Key) -> None:
        try:
            # put into the table before it is removed from _launching
            job = self._jobs[key] = await self._launcher.start(launch)
        except LaunchError as error:
            self._ended_early.pop(key, None)
            self._tell_failure(key, error)
            self._launching.pop(key, None)
            if error.again or error.check:
                self._ahead.close(key)  # the node is at fault
            self._go_on(key)
            return
        finally:
            self._launching.pop(key, None)
            self._stopped.pop(key, None)
        self._on_begin(job)
        ended = self._ended_early.pop(key, None)
        if ended is not None:
            self._on_end(job, ended)  # The report of its end follows soon and includes its start.
        else:
            self._tell_start(job)

    def _tell_failure(self, key: Key, error: LaunchError) -> None:
        cause = self._stopped.get(key, "")
        if cause:
            self._tell(JobReport(*key, phase="exited", cause=cause, ended_at=time.time()))
            return
        self._tell(
            LaunchFailed(
                job_id=key[0],
                restarts=key[1],
                message=str(error),
                again=error.again,
                drain=error.drain,
                check=error.check,
            )
        )

    def _tell_start(self, job: Job) -> None:
        """Report the start of a launch at once, or after CLOSE_S if launches follow each other closely.

        The delayed report is omitted if the launch has ended by then.
        """
        loop = asyncio.get_running_loop()
        before, self._started_at = self._started_at, loop.time()
        if self._started_at - before > CLOSE_S:
            self._tell(job.report())
        else:
            loop.call_later(CLOSE_S, self._tell_of, job.key)

    def _tell_of(self, key: Key) -> None:
        """Report the start of a launch, unless it has ended; the report of the end includes the start."""
        job = self._jobs.get(key)
        if job is not None and job.phase == "running":
            self._tell(job.report())
