"""Ends, suspends and signals launches, on request of the controller or for a reason on the node."""

from __future__ import annotations

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.notices import Notices
from warpdeck_agent.start.gpu_sharing import StartGate
from warpdeck_agent.wire.messages import RESUMED, SUSPENDED, Kill, Notice, SetLimit

from .killing import Killing
from .launch_queue import LaunchQueue
from .launches import Launches
from .limit_enforcement import LimitEnforcement


class LaunchControl:
    """Carries out the controller's messages about a launch that exists or is being started."""

    def __init__(
        self,
        launches: Launches,
        queue: LaunchQueue,
        gate: StartGate,
        *,
        killing: Killing,
        limits: LimitEnforcement,
        notices: Notices,
    ) -> None:
        self._launches = launches
        self._queue = queue
        self._gate = gate
        self._killing = killing
        self._limits = limits
        self._notices = notices

    def kill(self, request: Kill) -> None:
        """End, suspend, resume or signal a launch.

        For a launch that does not exist yet, the controller sends Kill again when the launch reports that it
        runs.
        """
        key = (request.job_id, request.restarts)
        launch = self._launches.get(key)
        if launch is None and not request.signal:
            self._gate.give_up(key)
            self._queue.end_unbegun(key, cause=request.cause)
        if launch is None:
            return
        if request.signal and request.cause in (SUSPENDED, RESUMED):
            self._limits.suspend_or_resume(launch, request)
        else:
            self._killing.kill(
                launch,
                cause=request.cause,
                grace_s=request.grace_s,
                number=request.signal,
                whom=request.whom,
                saves=request.saves,
            )

    def end(self, launch: LocalLaunch, reason: str, *, cause: str) -> None:
        """End a launch because of an event on this node. Its user reads `reason`."""
        launch.end.message = reason
        self._killing.kill(launch, cause=cause, grace_s=launch.meta.grace_s)

    def set_limit(self, request: SetLimit) -> None:
        """Change the time limit of a running launch."""
        launch = self._launches.find(request.job_id, request.restarts)
        if launch is not None:
            self._limits.change_time_limit(launch, request.time_limit_s)

    def notify(self, notice: Notice) -> None:
        """Show a line to the users of the job."""
        launch = self._launches.find(notice.job_id, notice.restarts)
        if launch is not None:
            self._notices.write(launch, notice.text)

    async def finish_kills(self) -> None:
        """Wait, before the agent exits, for launches that were to be killed at once."""
        await self._killing.finish_kills()
