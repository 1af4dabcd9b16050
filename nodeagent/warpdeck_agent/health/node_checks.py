"""The health checks of the node itself: its disks and mounts, the agent's folder, and the site's program."""

from __future__ import annotations

import asyncio

from warpdeck_agent.storage.own_folder import OwnFolder
from warpdeck_agent.wire.messages import AskHealth

from .check_results import CheckResults
from .disks import Disks
from .health_program import HealthProgram


class NodeChecks:
    """Runs the checks, one run at a time, and keeps the last results."""

    def __init__(self, own_folder: OwnFolder, disks: Disks) -> None:
        self._own_folder = own_folder
        self._disks = disks
        self._program = HealthProgram()
        self._running = asyncio.Lock()
        self._discarded = 0
        self.results = CheckResults()

    async def run(self, settings: AskHealth) -> bool:
        """Run all checks. Returns whether the results have changed."""
        async with self._running:
            discarded, loop = self._discarded, asyncio.get_running_loop()
            checks = await self._disks.check(settings.min_free_bytes)
            if not any(check.name == "mount" and check.state == "fail" for check in checks):
                checks.append(await loop.run_in_executor(None, self._own_folder.check))
            if settings.program:
                checks.append(
                    await loop.run_in_executor(
                        None,
                        lambda: self._program.run(settings.program, timeout_s=settings.program_timeout_s),
                    )
                )
            return discarded == self._discarded and self.results.replace(checks)

    def discard(self) -> None:
        """Discard the results, including the result of a run that has not ended."""
        self._discarded += 1
        self.results.replace([])
