"""Starts launches, either at once or after the launch that they wait for, and reports starts and failures.

A launch is "under way" from its Launch message until it is in the table of jobs or is known to have failed.
If its end is known before that, only its end is reported.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Collection, Dict

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.start.launch_start import Launcher
from warpdeck_agent.wire.messages import GivenBack, JobReport, Key, Launch, LaunchFailed, TakeBack

from .launches import Launches
from .prefetched import PrefetchedLaunches

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
    """Adds each launch that has begun to `launches` and then calls `on_begin`.

    If the end of the launch is known by then, it calls `on_end` with the supervisor's report.
    """

    def __init__(
        self,
        launcher: Launcher,
        launches: Launches,
        tell: Callable[[Any], None],
        *,
        on_begin: Callable[[LocalLaunch], None],
        on_end: Callable[[LocalLaunch, Dict[str, Any]], None],
    ) -> None:
        self._launcher = launcher
        self._launches = launches
        self._tell = tell
        self._on_begin = on_begin
        self._on_end = on_end
        self._starting: Dict[Key, asyncio.Task[None]] = {}
        self._prefetched = PrefetchedLaunches(tell)
        self._trees: Dict[Key, str] = {}
        """Digest of the code of each launch that was not running yet when it was last looked at."""
        self._started_at = -CLOSE_S
        self._ended_early: Dict[Key, Dict[str, Any]] = {}
        self._stopped: Dict[Key, str] = {}
        """Cause of the end of each launch that was ended while its user's processes were preparing it."""

    @property
    def under_way(self) -> Collection[Key]:
        """The launches that are being started and are not yet known to run or to have failed."""
        return self._starting.keys()

    async def wait_for_start(self, key: Key) -> None:
        """Wait until the start of the launch has succeeded or failed, if it is under way.

        The wait is limited to BEGIN_S.
        """
        beginning = self._starting.get(key)
        if beginning is not None:
            await asyncio.wait([beginning], timeout=BEGIN_S)

    def start(self, request: Launch) -> None:
        """Start a launch, or report its state if it already exists."""
        key = (request.job_id, request.restarts)
        if key in self._starting:
            return
        launch = self._launches.get(key)
        if launch is None and request.tree is not None:
            self._trees[key] = request.tree.sha256
        if launch is not None:
            self._tell(launch.report())
        elif request.behind:
            self._enqueue(request, key)
        elif key not in self._prefetched:
            self._begin(request, key)

    def trees_in_use(self) -> Collection[str]:
        """Return the digests of the code of all launches that are under way or wait for another launch."""
        waiting = {key: tree for key, tree in self._trees.items() if self._is_waiting(key)}
        self._trees = waiting
        return set(waiting.values())

    def _is_waiting(self, key: Key) -> bool:
        return key in self._starting or key in self._prefetched

    @property
    def any_is_under_way(self) -> bool:
        """Whether any launch is being started that is not yet among the jobs."""
        return bool(self._starting)

    def revoke(self, request: TakeBack) -> None:
        """Revoke prefetched launches. Launches that have already begun are not affected."""
        self._prefetched.revoke([(job_id, restarts) for job_id, restarts in request.launches])

    def drop_prefetched(self) -> None:
        """Drop the launches that wait for others, because another controller, or another start of it, has connected.

        It sends its launches again. It may not know the others.
        """
        self._prefetched.clear()

    def end_unbegun(self, key: Key, *, cause: str) -> None:
        """End a launch that has not begun.

        A launch that waits for another one is ended at once, and so is a launch that is being prepared by a
        process of its user. Any other launch is about to begin; it is ended when it has begun.
        """
        if key in self._prefetched:
            self._prefetched.remove(key)
            self._tell(JobReport(*key, phase="exited", cause=cause, ended_at=time.time()))
        elif key in self._starting and self._launcher.stop(key):
            self._stopped[key] = cause

    def has_ended(self, key: Key, report: Dict[str, Any]) -> None:
        """Handle the supervisor's report on the end of a launch that is not in the table.

        It is stored if the launch is under way.
        """
        if key in self._starting:
            self._ended_early[key] = report

    def resources_are_free(self, launch: LocalLaunch) -> None:
        """Begin the launch that waits for the resources of `launch`.

        The end of `launch` may not have been reported yet.
        """
        if not launch.resources_free:
            launch.resources_free = True
            if launch.end.drain_reason:
                self._prefetched.close(launch.key)
            launch.has_successor = self._begin_successor(launch.key)

    def _begin(self, request: Launch, key: Key) -> None:
        self._starting[key] = asyncio.get_running_loop().create_task(self._start(request, key))

    def _enqueue(self, request: Launch, key: Key) -> None:
        """Queue a prefetched launch behind the launch that it waits for.

        The earlier launch may have ended meanwhile; then this one begins at once. If the earlier launch never
        began and is gone, this launch is given back to the controller.
        """
        before = (request.behind[0], request.behind[1])
        if key in self._prefetched:
            return
        if self._holds_resources(before):
            self._prefetched.add(request)
        elif self._launches.get(before) is not None:
            self._begin(request, key)
        else:
            self._tell(GivenBack(launches=[list(key)]))

    def _holds_resources(self, key: Key) -> bool:
        """Return whether other launches must wait for the launch `key`.

        That is so while it runs and holds its resources, or is starting or waiting itself.
        """
        launch = self._launches.get(key)
        if launch is not None:
            return launch.phase in ("running", "ending") and not launch.resources_free
        return key in self._starting or key in self._prefetched

    def _begin_successor(self, gone: Key) -> bool:
        """Begin the launch that waits for `gone`. Returns whether there is one."""
        request = self._prefetched.next(gone)
        if request is not None:
            self._begin(request, (request.job_id, request.restarts))
        return request is not None

    async def _start(self, request: Launch, key: Key) -> None:
        try:
            launch = await self._launcher.start(request)
            self._launches.add(launch)  # before it is removed from _starting
        except LaunchError as error:
            self._ended_early.pop(key, None)
            self._tell_failure(key, error)
            self._starting.pop(key, None)
            if error.again or error.check:
                self._prefetched.close(key)  # the node is at fault
            self._begin_successor(key)
            return
        finally:
            self._starting.pop(key, None)
            self._stopped.pop(key, None)
        self._on_begin(launch)
        ended = self._ended_early.pop(key, None)
        if ended is not None:
            self._on_end(launch, ended)  # The report of its end follows soon and includes its start.
        else:
            self._tell_start(launch)

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

    def _tell_start(self, launch: LocalLaunch) -> None:
        """Report the start of a launch at once, or after CLOSE_S if launches follow each other closely.

        The delayed report is omitted if the launch has ended by then.
        """
        loop = asyncio.get_running_loop()
        before, self._started_at = self._started_at, loop.time()
        if self._started_at - before > CLOSE_S:
            self._tell(launch.report())
        else:
            loop.call_later(CLOSE_S, self._tell_running, launch.key)

    def _tell_running(self, key: Key) -> None:
        """Report the start of a launch, unless it has ended; the report of the end includes the start."""
        launch = self._launches.get(key)
        if launch is not None and launch.phase == "running":
            self._tell(launch.report())
