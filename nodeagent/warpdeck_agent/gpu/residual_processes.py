"""Waits until GPUs are empty: finds the processes that still hold GPU memory when a job ends or is to start.

At a job's end its GPUs are read repeatedly, until the driver has freed the memory of its processes or RELEASE_S
is over. The controller gets this reading before the end of the job, so it never plans with a GPU that is
still occupied. Before a launch, its GPUs are read once more. If a foreign process has appeared, the job waits
with a message that names it, instead of failing for lack of memory. Memory that is used without a visible
process counts as occupied.
"""

from __future__ import annotations

import asyncio
import time
from typing import Callable, Container, Iterator, List, Sequence, Tuple

from warpdeck_agent.wire.messages import GpuProcess, GpuSample

from .gpus import GpuWatch

RELEASE_S = 10.0
"""How long a driver may take to free the memory of dead processes, in seconds. A large context takes a second
or two.
"""
CHECK_S = 0.1
"""Interval in seconds between readings of the GPUs of an ended job."""
MIN_BYTES = 64 * 1024 * 1024
"""Memory below this is ignored (a display server, a monitor)."""
GIB = 2**30

Report = Callable[[List[GpuSample]], None]


class ResidualProcesses:
    """Reads GPUs on behalf of launches. `report` gets each reading that the controller should know."""

    def __init__(self, gpus: GpuWatch, report: Report) -> None:
        self._gpus = gpus
        self._report = report

    async def wait(self, uuids: Sequence[str], *, job_id: int) -> None:
        """Wait until the ended job's processes have left its GPUs, or until RELEASE_S is over.

        The last reading is reported.
        """
        deadline = time.monotonic() + RELEASE_S
        while True:
            reading = await self._gpus.read_afresh()
            own = await self._of(reading, uuids)
            if (
                not any(gpu.error or _is_being_released(gpu, job_id) for gpu in own)
                or time.monotonic() > deadline
            ):
                self._report(reading)
                return
            await asyncio.sleep(CHECK_S)

    async def foreign_processes(self, uuids: Sequence[str], *, allowed: Container[int]) -> str:
        """Return a description of the foreign processes that hold memory on these GPUs; "" if there are none.

        Jobs in `allowed` may hold memory.
        """
        reading = await self._gpus.read_afresh()
        own = await self._of(reading, uuids)
        found = [
            f"GPU {index} is held by {_describe(process)}"
            for index, process in _foreign_processes(own, allowed)
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


def _is_being_released(gpu: GpuSample, job_id: int) -> bool:
    """Return whether a process of the ended job, or a dead process, is still listed.

    Other processes would not leave by waiting.
    """
    return gpu.unexplained_bytes > 0 or any(
        process.job_id == job_id or not process.user for process in gpu.processes
    )


def _foreign_processes(gpus: List[GpuSample], allowed: Container[int]) -> Iterator[Tuple[int, GpuProcess]]:
    for gpu in gpus:
        for process in gpu.processes:
            if process.mem_bytes >= MIN_BYTES and not (process.job_id and process.job_id in allowed):
                yield gpu.index, process


def _unexplained(gpu: GpuSample) -> str:
    return f"{gpu.unexplained_bytes / GIB:.1f} GiB of GPU {gpu.index} are in use, but no process is visible"


def _describe(process: GpuProcess) -> str:
    owner = f"{process.user or 'an unknown user'} outside the queue"
    if process.job_id:
        owner = f"job {process.job_id}, which does not have this GPU"
    return f"{owner} (pid {process.pid}, {process.mem_bytes / GIB:.1f} GiB)"
