"""Jobs that share a GPU: each is held to its part of the memory, and they start one after the other.

A job that looks how much memory is free when it starts, as many do, must not look while another is still growing: a sharer
begins when the memory of the one before it has stood still for STILL_S, or when `share_start_s` is over. A job that uses
more than its part is warned, and ended if it still does when `share_grace_s` is over: its neighbours have a right to theirs.
Both hold without a controller too. Nothing here isolates: what a GPU's driver does not keep apart is watched, no more.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Callable, Container, Dict, Sequence, Set

from warpdeck_agent.launch.launch import Job
from warpdeck_agent.linux.refusals import LaunchError
from warpdeck_agent.wire.messages import GpuInfo, GpuSample, Key, Launch

GIB = 2**30
STILL_S = 7.0
"""Longer than two looks at the processes on the GPUs are apart."""
STEP_BYTES = 64 * 1024 * 1024
"""Less than this is no growth."""
LOOK_S = 0.2

Tell = Callable[[Job, str], None]


@dataclass
class _Last:
    """The sharer that began last on a GPU. Times on the monotonic clock."""

    key: Key
    began: float
    mem_bytes: int = 0
    still_since: float = 0.0


class Turns:
    """Who may begin on which GPU. `say` tells those who wait what for."""

    def __init__(
        self, say: Callable[[Launch, str], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._last: Dict[str, _Last] = {}
        self._locks: Dict[str, asyncio.Lock] = {}
        self._waiting: Set[Key] = set()
        self._given_up: Set[Key] = set()

    async def wait(self, launch: Launch) -> None:
        """Returns when it is this launch's turn on its GPU. Raises LaunchError if it was given up meanwhile."""
        if launch.gpu_share_pct >= 100 or launch.share_start_s <= 0:
            return
        key = (launch.job_id, launch.restarts)
        self._waiting.add(key)
        try:
            for uuid in launch.gpus:
                async with self._locks.setdefault(uuid, asyncio.Lock()):
                    await self._settle(uuid, launch, key)
                    self._last[uuid] = _Last(key, self._clock())
        finally:
            self._waiting.discard(key)
            self._given_up.discard(key)

    def give_up(self, key: Key) -> None:
        """It is not wanted any more."""
        if key in self._waiting:
            self._given_up.add(key)

    def see(self, gpus: Sequence[GpuSample], found: Sequence[GpuInfo], *, alive: Container[Key]) -> None:
        """A reading of the node's GPUs. Nobody waits for a launch that is not `alive` any more."""
        self._last = {uuid: last for uuid, last in self._last.items() if last.key in alive}
        now, uuids = self._clock(), {gpu.index: gpu.uuid for gpu in found}
        for gpu in gpus:
            last = self._last.get(uuids.get(gpu.index, ""))
            if last is None:
                continue
            mem = sum(process.mem_bytes for process in gpu.processes if process.job_id == last.key[0])
            if abs(mem - last.mem_bytes) > STEP_BYTES:
                last.mem_bytes, last.still_since = mem, now

    def is_settled(self, uuid: str, most_s: float) -> bool:
        """Whether the next may begin there."""
        last, now = self._last.get(uuid), self._clock()
        if last is None or now - last.began >= most_s:
            return True
        return last.mem_bytes > 0 and now - last.still_since >= STILL_S

    async def _settle(self, uuid: str, launch: Launch, key: Key) -> None:
        told = False
        while not self.is_settled(uuid, launch.share_start_s):
            if key in self._given_up:
                raise LaunchError("it was ended before its turn on the GPU came")
            if not told:
                before = self._last[uuid].key[0]
                self._say(launch, f"waits until job {before}, which began on the same GPU, has its memory")
                told = True
            await asyncio.sleep(LOOK_S)


class Parts:
    """Holds sharers to their parts. `warn` and `end` get the sentence that their users read."""

    def __init__(self, *, warn: Tell, end: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._warn = warn
        self._end = end
        self._clock = clock
        self._over: Dict[Key, float] = {}

    def see(self, jobs: Sequence[Job], gpus: Sequence[GpuSample], found: Sequence[GpuInfo]) -> None:
        """A reading of the node's GPUs, and the jobs that run."""
        sizes = {gpu.index: gpu.mem_bytes for gpu in found}
        over: Dict[Key, float] = {}
        for job in jobs:
            words = _excess(job, gpus, sizes) if job.meta.gpu_share_pct < 100 and not job.cause else ""
            if words:
                over[job.key] = self._over.get(job.key, self._clock())
                self._judge(job, words, over[job.key])
        self._over = over

    def _judge(self, job: Job, words: str, since: float) -> None:
        left_s = job.meta.share_grace_s - (self._clock() - since)
        if left_s <= 0:
            self._end(job, f"it used {words}")
        elif job.key not in self._over:
            self._warn(job, f"it uses {words}: it is ended in {left_s:.0f} s unless it frees the rest")


def _excess(job: Job, gpus: Sequence[GpuSample], sizes: Dict[int, int]) -> str:
    """ "30.0 GiB of GPU 0, and its part is 20.0 GiB"; "" if it keeps to its part."""
    for gpu in gpus:
        used = sum(each.mem_bytes for each in gpu.processes if each.job_id == job.meta.job_id)
        part = sizes.get(gpu.index, 0) * job.meta.gpu_share_pct // 100
        if used > part > 0:
            return f"{used / GIB:.1f} GiB of GPU {gpu.index}, and its part is {part / GIB:.1f} GiB"
    return ""
