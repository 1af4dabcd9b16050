"""Applies the rules for jobs that share a GPU to each reading of the GPUs."""

from __future__ import annotations

from typing import Callable, List

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.launch.notices import Notices
from warpdeck_agent.start.gpu_sharing import GpuShareLimits, StartGate
from warpdeck_agent.wire.messages import GpuInfo, GpuSample, Key

from .launch_control import LaunchControl
from .launch_queue import LaunchQueue
from .launches import Launches


class SharedGpus:
    """Starts the launches on a shared GPU one after the other, and limits each to its share of the memory.

    `remark` sends a text for the users of a launch to the controller.
    """

    def __init__(
        self,
        launches: Launches,
        queue: LaunchQueue,
        gate: StartGate,
        *,
        control: LaunchControl,
        notices: Notices,
        remark: Callable[[Key, str], None],
    ) -> None:
        self._launches = launches
        self._queue = queue
        self._gate = gate
        self._control = control
        self._notices = notices
        self._remark = remark
        self._limits = GpuShareLimits(warn=self._warn, end=self._end)

    def update(self, gpus: List[GpuSample], found: List[GpuInfo]) -> None:
        """Process a GPU reading.

        It enforces the GPU share of each job on a shared GPU. It also lets the next sharer begin once the
        previous one has allocated its memory.
        """
        running = self._launches.running()
        alive = {*(launch.key for launch in running), *self._queue.under_way}
        self._gate.update(gpus, found, alive=alive)
        self._limits.update(running, gpus, found)

    def _warn(self, launch: LocalLaunch, text: str) -> None:
        self._notices.write(launch, text)
        self._remark(launch.key, text)

    def _end(self, launch: LocalLaunch, text: str) -> None:
        self._notices.write_termination_message(launch, cause="gpu memory")
        self._control.end(launch, text, cause="oom")
