"""Jobs that share a GPU: each is limited to its share of the memory, and they start one after the other.

Many jobs read the amount of free memory when they start, and must not do so while another job is still
allocating. So a sharer begins when the memory of the previous sharer has been constant for SETTLED_S, or after
`share_start_s`. A job that exceeds its share is warned, and ended if it still exceeds it after
`share_grace_s`, to protect the other jobs on the GPU. Both rules work without a controller. This module does
not isolate jobs: it only watches the usage that the GPU's driver does not separate.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Callable, Container, Dict, Sequence, Set

from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import GpuInfo, GpuSample, Key, Launch

GIB = 2**30
SETTLED_S = 7.0
"""Seconds without growth after which a job's memory counts as settled. It is longer than the interval between
two readings of GPU processes.
"""
GROWTH_BYTES = 64 * 1024 * 1024
"""A smaller change of GPU memory does not count as growth."""
CHECK_S = 0.2

Tell = Callable[[LocalLaunch, str], None]


@dataclass
class _LastSharer:
    """The sharer that began last on a GPU. Times are on the monotonic clock."""

    key: Key
    began: float
    mem_bytes: int = 0
    unchanged_since: float = 0.0


class StartGate:
    """Orders the starts of launches on shared GPUs. `say` gives a waiting launch the reason for its wait."""

    def __init__(
        self, say: Callable[[Launch, str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._last: Dict[str, _LastSharer] = {}
        self._locks: Dict[str, asyncio.Lock] = {}
        self._waiting: Set[Key] = set()
        self._given_up: Set[Key] = set()

    async def wait(self, request: Launch) -> None:
        """Wait until this launch may begin on its GPUs.

        Raises LaunchError if the launch is given up meanwhile.
        """
        if request.gpu_share_pct >= 100 or request.share_start_s <= 0:
            return
        key = (request.job_id, request.restarts)
        self._waiting.add(key)
        try:
            for uuid in request.gpus:
                async with self._locks.setdefault(uuid, asyncio.Lock()):
                    await self._settle(uuid, request, key)
                    self._last[uuid] = _LastSharer(key, self._clock())
        finally:
            self._waiting.discard(key)
            self._given_up.discard(key)

    def give_up(self, key: Key) -> None:
        """Cancel the waiting launch `key`."""
        if key in self._waiting:
            self._given_up.add(key)

    def update(self, gpus: Sequence[GpuSample], found: Sequence[GpuInfo], *, alive: Container[Key]) -> None:
        """Process a reading of the node's GPUs. Launches that are not in `alive` no longer delay others."""
        self._last = {uuid: last for uuid, last in self._last.items() if last.key in alive}
        now, uuids = self._clock(), {gpu.index: gpu.uuid for gpu in found}
        for gpu in gpus:
            last = self._last.get(uuids.get(gpu.index, ""))
            if last is None:
                continue
            mem = sum(process.mem_bytes for process in gpu.processes if process.job_id == last.key[0])
            if abs(mem - last.mem_bytes) > GROWTH_BYTES:
                last.mem_bytes, last.unchanged_since = mem, now

    def is_settled(self, uuid: str, most_s: float) -> bool:
        """Return whether the next launch may begin on the GPU `uuid`."""
        last, now = self._last.get(uuid), self._clock()
        if last is None or now - last.began >= most_s:
            return True
        return last.mem_bytes > 0 and now - last.unchanged_since >= SETTLED_S

    async def _settle(self, uuid: str, request: Launch, key: Key) -> None:
        reported = False
        while not self.is_settled(uuid, request.share_start_s):
            if key in self._given_up:
                raise LaunchError("the job was ended while it waited for the shared GPU")
            if not reported:
                before = self._last[uuid].key[0]
                self._say(request, f"waits until job {before} has allocated its memory on the shared GPU")
                reported = True
            await asyncio.sleep(CHECK_S)


class GpuShareLimits:
    """Limits each sharer to its share of GPU memory.

    `warn` and `end` get the sentence that the job's user reads.
    """

    def __init__(self, *, warn: Tell, end: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._warn = warn
        self._end = end
        self._clock = clock
        self._over: Dict[Key, float] = {}

    def update(
        self, jobs: Sequence[LocalLaunch], gpus: Sequence[GpuSample], found: Sequence[GpuInfo]
    ) -> None:
        """Check the running `jobs` against a reading of the node's GPUs."""
        sizes = {gpu.index: gpu.mem_bytes for gpu in found}
        over: Dict[Key, float] = {}
        for launch in jobs:
            excess = (
                _excess_text(launch, gpus, sizes)
                if launch.meta.gpu_share_pct < 100 and not launch.end.cause
                else ""
            )
            if excess:
                over[launch.key] = self._over.get(launch.key, self._clock())
                self._judge(launch, excess, over[launch.key])
        self._over = over

    def _judge(self, launch: LocalLaunch, excess: str, since: float) -> None:
        left_s = launch.meta.share_grace_s - (self._clock() - since)
        if left_s <= 0:
            self._end(launch, f"the job used {excess}")
        elif launch.key not in self._over:
            self._warn(
                launch, f"the job uses {excess}; it will be ended in {left_s:.0f} s unless it frees memory"
            )


def _excess_text(launch: LocalLaunch, gpus: Sequence[GpuSample], sizes: Dict[int, int]) -> str:
    """Return a text like "30.0 GiB of GPU 0, but its share is 20.0 GiB".

    Returns "" if the job is within its share.
    """
    for gpu in gpus:
        used = sum(each.mem_bytes for each in gpu.processes if each.job_id == launch.meta.job_id)
        share = sizes.get(gpu.index, 0) * launch.meta.gpu_share_pct // 100
        if used > share > 0:
            return f"{used / GIB:.1f} GiB of GPU {gpu.index}, but its share is {share / GIB:.1f} GiB"
    return ""
