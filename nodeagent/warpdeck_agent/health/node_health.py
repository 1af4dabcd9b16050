"""The node's health: the last result of every check, and the last faults of the GPUs.

Checks are repeated regularly, and changes are reported. Disks, mounts and the site's program are checked
every `interval_s`, GPUs every few seconds, Xid errors with every reading. This module only reports. The
controller decides about the consequences, such as a drain or a message to the jobs.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Container, Optional

from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.wire.messages import AskHealth, Health

from .disks import Disks
from .gpu_checks import GpuChecks
from .gpu_faults import FaultLog
from .node_checks import NodeChecks

MIN_INTERVAL_S = 1.0


class NodeHealth:
    """Runs the health checks of the node and of its GPUs.

    `tell` gets each change as a message for the controller. `gpus_in_use` returns the uuids of the GPUs that
    jobs have.
    """

    def __init__(
        self,
        spool: Spool,
        gpus: GpuWatch,
        tell: Callable[[Any], None],
        *,
        gpus_in_use: Callable[[], Container[str]] = tuple,
    ) -> None:
        self._tell = tell
        self._settings = AskHealth(at_unix=0.0)
        self._settings_changed = asyncio.Event()
        self._faults = FaultLog(spool)
        self._node = NodeChecks(spool.own, Disks((spool.path, "/tmp")))
        self._gpus = GpuChecks(gpus, self._faults, in_use=gpus_in_use)

    async def run(self) -> None:
        """Repeat the node's checks forever."""
        while True:
            await self._check_node()
            changed = asyncio.get_running_loop().create_task(self._settings_changed.wait())
            try:
                await asyncio.wait([changed], timeout=max(MIN_INTERVAL_S, self._settings.interval_s))
            finally:
                changed.cancel()
            self._settings_changed.clear()

    async def answer(self, request: AskHealth) -> Health:
        """Return the answer to AskHealth, and use its settings from now on."""
        before, self._settings = self._settings, request
        if (before.interval_s, before.program) != (request.interval_s, request.program):
            self._settings_changed.set()
        if request.ask:
            await asyncio.gather(self._check_node(), self.check_gpus())
        return self._report(request)

    def discard_node_checks(self) -> None:
        """Discard the results of the node's checks, because a launch or step has just failed on the node."""
        self._node.discard()

    async def check_gpus(self) -> None:
        """Check the GPUs, and report changes."""
        if await self._gpus.run():
            self._tell(self._report())

    def take_xids(self) -> None:
        """Process the Xid errors of the last GPU reading, and report new ones."""
        if self._gpus.take_xids():
            self._tell(self._report())

    async def _check_node(self) -> None:
        if await self._node.run(self._settings):
            self._tell(self._report())

    def _report(self, request: Optional[AskHealth] = None) -> Health:
        return Health(
            at_unix=time.time(),
            checks=[*self._node.results.checks, *self._gpus.results.checks],
            faults=self._faults.all(),
            ask=request.ask if request else 0,
            asked_at_unix=request.at_unix if request else 0.0,
        )
