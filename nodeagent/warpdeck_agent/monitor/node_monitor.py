"""Watches the usage of GPUs and CPUs and the node's health, with or without a controller.

Cheap values are read once a second. The controller gets samples as often as it asked for. Jobs that share a
GPU are limited to their shares here, so that the limits also hold on a node that has lost its controller.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, List, Tuple

from warpdeck_agent.attach.idleness import Idleness
from warpdeck_agent.gpu.gpus import GpuWatch
from warpdeck_agent.health.node_health import NodeHealth
from warpdeck_agent.progress.progress_monitor import ProgressMonitor
from warpdeck_agent.registry.launch_registry import LaunchRegistry
from warpdeck_agent.storage.spool import Spool
from warpdeck_agent.wire.messages import GpuInfo, GpuSample, Sample

from .usage_monitor import UsageMonitor

READ_S = 1.0
"""Interval in seconds between two readings, unless a controller wants them more often."""
LEAST_S = 0.1
Holders = List[Tuple[int, int, int]]
GPU_CHECK_EVERY = 5
"""Number of readings between two checks of values that change slowly."""


class NodeMonitor:
    """Watches the node. `tell` gets samples and changes of the node's health."""

    def __init__(
        self, spool: Spool, registry: LaunchRegistry, gpus: GpuWatch, tell: Callable[[Any], None]
    ) -> None:
        self._gpus = gpus
        self._shared_gpus = registry.shared_gpus
        self._tell = tell
        self._sample_s = READ_S
        self._next_sample = 0.0
        self._reported_holders: Holders = []
        self._next_reading = 0.0
        self.usage = UsageMonitor(registry.launches, spool)
        self.idleness = Idleness(registry.launches, registry.control.end)
        self.progress = ProgressMonitor(registry.launches)
        self.health = NodeHealth(spool, self._gpus, tell, gpus_in_use=registry.launches.gpus_in_use)

    @property
    def driver(self) -> str:
        return self._gpus.driver

    async def discover(self) -> Tuple[List[GpuInfo], str]:
        """Return the GPUs, and the error of GPUs that failed or of the driver."""
        return await self._gpus.discover()

    async def wait_for_gpus(self) -> List[GpuInfo]:
        """Return the GPUs, however long the driver takes."""
        return await self._gpus.wait_for_gpus()

    def sample_every(self, interval_s: float) -> None:
        """Set the interval of samples at a controller's request. The first one is sent after one interval."""
        self._sample_s = max(LEAST_S, interval_s)
        self._next_sample = time.monotonic() + self._sample_s

    async def run(self) -> None:
        """Read forever. A driver that hangs delays nothing else."""
        watch = asyncio.get_running_loop().create_task(self.health.run())
        try:
            found = await self._gpus.wait_for_gpus()
            self.usage.set_gpus(found)
            rounds = 0
            while True:
                await asyncio.sleep(min(READ_S, self._sample_s))
                gpus = await self._gpus.read() if found else []
                self._shared_gpus.update(gpus, found)
                self._measure(gpus)
                self._send(gpus)
                self.health.take_xids()
                if found and rounds % GPU_CHECK_EVERY == 0:
                    await self.health.check_gpus()
                rounds += 1
        finally:
            watch.cancel()

    def _measure(self, gpus: List[GpuSample]) -> None:
        """Record the usage once a second, however often samples are wanted."""
        if time.monotonic() >= self._next_reading:
            self._next_reading = time.monotonic() + READ_S * 0.9
            self.usage.add_reading(gpus)
            self.idleness.add_reading(gpus)
            self.progress.add_reading(self.usage.power_by_uuid(gpus))

    def _send(self, gpus: List[GpuSample]) -> None:
        """Send a sample when it is due, or at once if the processes on the GPUs have changed.

        Scheduling depends on those processes.
        """
        now, holders = time.monotonic(), _holders(gpus)
        if now < self._next_sample and (holders == self._reported_holders or self._sample_s <= READ_S):
            return
        self._reported_holders = holders
        # Count from now, not from the due time: after a driver hung, missed samples are not sent.
        self._next_sample = now + self._sample_s * 0.9
        self.show(gpus)

    def show(self, gpus: List[GpuSample]) -> None:
        """Send a sample with this reading."""
        usage = self.usage
        self._tell(
            Sample(
                at_unix=time.time(),
                cpu_pct=usage.cpu_pct,
                mem_used_bytes=usage.mem_used_bytes,
                gpus=gpus,
                idle=self.idleness.sessions(),
                stalls=self.progress.stalls(),
                idle_gpus=usage.idle_gpus(),
            )
        )


def _holders(gpus: List[GpuSample]) -> Holders:
    """Return (GPU, pid, job) of all processes on GPUs.

    The pid is 0 for memory that is used without a visible process.
    """
    unseen = [(gpu.index, 0, 0) for gpu in gpus if gpu.unexplained_bytes]
    return sorted([*unseen, *((gpu.index, each.pid, each.job_id) for gpu in gpus for each in gpu.processes)])
