"""GPUs are handed on empty: who still holds memory on a GPU when a job ends or is to start there.

At a job's end its GPUs are read again and again, until the driver has freed what its processes held or LEAVE_S is over;
then the controller gets this reading before it hears of the end, so no plan ever sees the GPU free while it is not. Before
a launch its GPUs are read once more: whoever came meanwhile is named, and the job waits instead of failing for memory.
Memory that is used though no process is seen counts as held.
"""

from __future__ import annotations

import asyncio
import time
from typing import Callable, Container, Iterator, List, Sequence, Tuple

from warpdeck_agent.wire.messages import GpuProcess, GpuSample

from .gpus import GpuWatch

LEAVE_S = 10.0
"""How long a driver may take to free the memory of processes that are dead: a large context takes a second or two."""
LOOK_S = 0.1
"""Between two looks at the processes on the GPUs of an ended job."""
MIN_BYTES = 64 * 1024 * 1024
"""Less than this is no obstacle (a display server, a monitor)."""
GIB = 2**30

Report = Callable[[List[GpuSample]], None]


class Leftovers:
    """Looks at GPUs on behalf of launches. `report` gets each reading that others should know of."""

    def __init__(self, gpus: GpuWatch, report: Report) -> None:
        self._gpus = gpus
        self._report = report

    async def wait(self, uuids: Sequence[str], *, job_id: int) -> None:
        """Until the ended job's processes have left its GPUs, or LEAVE_S is over. The last reading is reported."""
        deadline = time.monotonic() + LEAVE_S
        while True:
            reading = await self._gpus.read_afresh()
            own = await self._of(reading, uuids)
            if not any(gpu.error or _any_leaves(gpu, job_id) for gpu in own) or time.monotonic() > deadline:
                self._report(reading)
                return
            await asyncio.sleep(LOOK_S)

    async def strangers(self, uuids: Sequence[str], *, allowed: Container[int]) -> str:
        """Who holds memory there and is no job that may, in words; "" if nobody does."""
        reading = await self._gpus.read_afresh()
        own = await self._of(reading, uuids)
        found = [
            f"GPU {index} is held by {_describe(process)}" for index, process in _strangers(own, allowed)
        ]
        if not allowed:
            found += [_unexplained(gpu) for gpu in own if gpu.unexplained_bytes]
        if found:
            self._report(reading)
        return "; ".join(found)

    async def _of(self, reading: List[GpuSample], uuids: Sequence[str]) -> List[GpuSample]:
        found, _ = await self._gpus.discover()
        indices = {gpu.index for gpu in found if gpu.uuid in uuids}
        return [gpu for gpu in reading if gpu.index in indices]


def _any_leaves(gpu: GpuSample, job_id: int) -> bool:
    """Whether a process of the ended job, or one that is dead already, is still listed. Others will not leave for us."""
    return gpu.unexplained_bytes > 0 or any(
        process.job_id == job_id or not process.user for process in gpu.processes
    )


def _strangers(gpus: List[GpuSample], allowed: Container[int]) -> Iterator[Tuple[int, GpuProcess]]:
    for gpu in gpus:
        for process in gpu.processes:
            if process.mem_bytes >= MIN_BYTES and not (process.job_id and process.job_id in allowed):
                yield gpu.index, process


def _unexplained(gpu: GpuSample) -> str:
    return f"{gpu.unexplained_bytes / GIB:.1f} GiB of GPU {gpu.index} are used, and no process is seen"


def _describe(process: GpuProcess) -> str:
    owner = f"job {process.job_id}" if process.job_id else process.user or "an unknown user"
    return f"{owner} outside the queue (pid {process.pid}, {process.mem_bytes / GIB:.1f} GiB)"
