"""How launches begin: at once, or in the place of the one before them; what is told of it, and of those that never do.

A launch is under way from its order until it is in the table of jobs, or is known to have failed. One whose end is known
before that is told once, by its end.
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
"""Launches that follow each other more closely than this are short ones, such as an array's: telling of their starts would
cost the controller as many transactions again as their ends do."""
BEGIN_S = 10.0
"""How long a process waits for its launch to be known to have begun: the supervisor's word of it takes up to CLOSE_S."""


class Beginnings:
    """Puts each launch that has begun into `jobs`; `on_begin` gets it then, `on_end` what is known of its end by then."""

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
        """Causes of the ends of launches that were ended while their user's processes prepared them."""

    @property
    def under_way(self) -> Collection[Key]:
        """Launches that may have begun, and of which it is not known yet."""
        return self._launching.keys()

    async def settled(self, key: Key) -> None:
        """Returns when it is known whether that launch has begun, if it is under way."""
        beginning = self._launching.get(key)
        if beginning is not None:
            await asyncio.wait([beginning], timeout=BEGIN_S)

    def start(self, launch: Launch) -> None:
        """Starts a launch, or reports what is known of it."""
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
        """Whether a launch has been begun that is not among the jobs yet."""
        return bool(self._launching)

    def take_back(self, asked: TakeBack) -> None:
        """Launches that were handed ahead of time do not begin any more; who has begun is not concerned."""
        self._ahead.give_back([(job_id, restarts) for job_id, restarts in asked.launches])

    def end_unbegun(self, key: Key, *, cause: str) -> None:
        """One that waits for its place ends where it stands, and so does one for which a process of its user runs. Any other is about
        to begin, and will be ended then."""
        if key in self._ahead:
            self._ahead.remove(key)
            self._tell(JobReport(*key, phase="exited", cause=cause, ended_at=time.time()))
        elif key in self._launching and self._launcher.stop(key):
            self._stopped[key] = cause

    def has_ended(self, key: Key, said: Dict[str, Any]) -> None:
        """The supervisor's word on a launch that is not in the table: of one under way it is kept."""
        if key in self._launching:
            self._ended_early[key] = said

    def place_is_free(self, job: Job) -> None:
        """The next may begin, though how this one ended may not be told yet."""
        if not job.is_out:
            job.is_out = True
            if job.drain:
                self._ahead.close(job.key)
            job.is_followed = self._go_on(job.key)

    def _begin(self, launch: Launch, key: Key) -> None:
        self._launching[key] = asyncio.get_running_loop().create_task(self._start(launch, key))

    def _line_up(self, launch: Launch, key: Key) -> None:
        """Handed ahead of time. The one before it may have ended meanwhile, or left its line without a begin."""
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
        """Whether another has to wait for that launch's place."""
        job = self._jobs.get(key)
        if job is not None:
            return job.phase in ("running", "ending") and not job.is_out
        return key in self._launching or key in self._ahead

    def _go_on(self, gone: Key) -> bool:
        """Whether another begins in that place."""
        launch = self._ahead.next(gone)
        if launch is not None:
            self._begin(launch, (launch.job_id, launch.restarts))
        return launch is not None

    async def _start(self, launch: Launch, key: Key) -> None:
        try:
            job = self._jobs[key] = await self._launcher.start(launch)  # in there before it leaves _launching
        except LaunchError as error:
            self._ended_early.pop(key, None)
            self._tell_failure(key, error)
            self._launching.pop(key, None)
            if error.again or error.check:
                self._ahead.close(key)  # the node is to blame
            self._go_on(key)
            return
        finally:
            self._launching.pop(key, None)
            self._stopped.pop(key, None)
        self._on_begin(job)
        ended = self._ended_early.pop(key, None)
        if ended is not None:
            self._on_end(job, ended)  # its end is told soon, and tells of its start as well
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
        """At once, but while launches follow each other closely a moment later, and then of those that have not ended by then."""
        loop = asyncio.get_running_loop()
        before, self._started_at = self._started_at, loop.time()
        if self._started_at - before > CLOSE_S:
            self._tell(job.report())
        else:
            loop.call_later(CLOSE_S, self._tell_of, job.key)

    def _tell_of(self, key: Key) -> None:
        """The launch's start, if its end is not on the way, which tells of it as well."""
        job = self._jobs.get(key)
        if job is not None and job.phase == "running":
            self._tell(job.report())
