"""Reads GPUs through NVML in a dedicated thread.

A driver may hang, and the first call may take seconds per GPU. Only one call runs at a time. A caller waits
for a limited time, and then gets the result that the driver does not answer. Cheap values (utilization,
memory, power, temperature) are read every time. Process lists can cost milliseconds and a global lock in the
driver, so they are read every PROCESS_EVERY readings. A value that the driver does not give is None, never 0.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from warpdeck_agent.isolation.job_processes import JobTag, is_running, job_of, owner_of
from warpdeck_agent.linux.procfs import text
from warpdeck_agent.wire.messages import GpuInfo, GpuProcess, GpuSample

from .gpu_health import Card, GpuHealth, GpuState, Xid
from .gpu_links import GpuTraffic
from .nvlink import islands

PROCESS_EVERY = 3
"""The process lists are read at every Nth reading, where N is this number."""
UTILISATION_S = 5.0
"""Time range in seconds of the utilization by process: a little more than the time between two reads."""
MPS = "nvidia-cuda-mps"
"""The process name of the daemon and servers of MPS."""
UNEXPLAINED_BYTES, UNEXPLAINED_PART = 2 * 2**30, 0.03
"""Memory in use without any process counts as unexplained (a leak, or a hidden process) if it is at least
this many bytes and at least this fraction of the card's memory. No driver uses this much itself.
"""
DEADLINE_S = 2.0
"""A reading that takes longer (in seconds) is reported as unknown."""
SILENT = "the driver does not answer"
OPEN_S = 12.0
"""How long the Welcome waits for a starting driver, in seconds. It is less than the controller waits for the
Welcome.
"""


class GpuReader:
    """Reads the GPUs of this node through NVML.

    Without a driver there are no GPUs. `jobs` returns the jobs of this node by their job tags. It is called
    from a thread.
    """

    def __init__(
        self, jobs: Callable[[], Mapping[JobTag, int]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self._nvml: Any = None
        self._cards: List[Card] = []
        self._health: Optional[GpuHealth] = None
        self._traffic: Optional[GpuTraffic] = None
        self._xids: List[Xid] = []
        self._processes: Dict[int, List[GpuProcess]] = {}
        self._unexplained: Dict[int, int] = {}
        self._round = 0
        self._found: List[GpuInfo] = []
        self.driver = ""
        self.error = ""

    def open(self) -> List[GpuInfo]:
        """Find the GPUs and return them.

        Blocks as long as the driver does. A GPU that does not answer is omitted, and `error` names it.
        """
        try:
            pynvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            self.error = f"pynvml is missing: {error}"
            return []
        try:
            pynvml.nvmlInit()
            self._nvml = pynvml
            self.driver = _text(pynvml.nvmlSystemGetDriverVersion())
            for index in range(pynvml.nvmlDeviceGetCount()):
                self._add(pynvml, index)
            joined = islands(pynvml, [card.handle for card in self._cards])
            self._found = [dataclasses.replace(gpu, island=joined[at]) for at, gpu in enumerate(self._found)]
            self._health = GpuHealth(pynvml, self._cards)
            self._traffic = GpuTraffic(pynvml, self._cards, self._clock)
        except pynvml.NVMLError as error:
            no_driver = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
            if error.value not in no_driver:
                self.error = f"NVML: {error}"
        return self._found

    def _add(self, pynvml: Any, index: int) -> None:
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(pynvml.nvmlDeviceGetUUID(handle))
        except pynvml.NVMLError as error:  # one dead GPU must not hide the others
            self.error = f"{self.error}, GPU {index}: {error}" if self.error else f"GPU {index}: {error}"
            return
        self._cards.append(Card(index, uuid, handle))
        self._found.append(
            GpuInfo(
                index=index,
                uuid=uuid,
                name=_text(self._ask("nvmlDeviceGetName", handle) or "NVIDIA GPU"),
                mem_bytes=self._memory(handle)[0] or 0,
                minor=self._ask("nvmlDeviceGetMinorNumber", handle) or 0,
                bus_id=_text(getattr(self._ask("nvmlDeviceGetPciInfo", handle), "busId", "")),
                numa_node=_number(self._ask("nvmlDeviceGetNumaNodeId", handle), -1),
                isolation=self._isolation(handle),
            )
        )

    def _isolation(self, handle: Any) -> str:
        """Return the isolation between jobs on one GPU.

        MIG divides the card itself. MPS limits its clients to their shares if the card admits no other
        process.
        """
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        if mode is not None and mode[0]:
            return "mig"
        exclusive = self._nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
        if self._ask("nvmlDeviceGetComputeMode", handle) == exclusive and is_running(MPS):
            return "mps"
        return ""

    def read(self, afresh: bool = False) -> List[GpuSample]:
        """Return one reading of all GPUs.

        Blocks as long as the driver does. With `afresh`, the process lists are read now.
        """
        self._round += 1
        with_processes = afresh or self._round % PROCESS_EVERY == 1
        if self._health is not None:
            self._xids += self._health.xids()
        return [self._read_one(card, with_processes) for card in self._cards]

    def take_xids(self) -> List[Xid]:
        """Return the Xid errors that the last readings found, each once."""
        found, self._xids = self._xids, []
        return found

    def read_states(self) -> List[GpuState]:
        """Return slowly changing states: lost cards, memory errors, heat.

        Blocks as long as the driver does.
        """
        states = self._health.read_states() if self._health is not None else []
        return [
            dataclasses.replace(state, unexplained_bytes=self._unexplained.get(state.card.index, 0))
            for state in states
        ]

    def unknown(self) -> List[GpuSample]:
        """Return the samples that are reported while a reading hangs."""
        return [GpuSample(index=card.index, error=SILENT) for card in self._cards]

    def _read_one(self, card: Card, with_processes: bool) -> GpuSample:
        began, index, handle = self._clock(), card.index, card.handle
        utilization = self._ask("nvmlDeviceGetUtilizationRates", handle)
        total, used = self._memory(handle)
        power = self._ask("nvmlDeviceGetPowerUsage", handle)
        temperature = self._ask("nvmlDeviceGetTemperature", handle, 0)
        if with_processes:
            found = self._processes[index] = self._read_processes(handle)
            least = max(UNEXPLAINED_BYTES, UNEXPLAINED_PART * (total or 0))
            self._unexplained[index] = used if used is not None and used >= least and not found else 0
        links = self._traffic.read(card) if self._traffic is not None else None
        if self._clock() - began > DEADLINE_S:
            return GpuSample(index=index, error="the driver took too long to answer")
        return GpuSample(
            index=index,
            util_pct=getattr(utilization, "gpu", None),
            mem_used_bytes=used,
            power_w=None if power is None else power / 1000.0,
            temp_c=temperature,
            processes=self._processes.get(index, []),
            unexplained_bytes=self._unexplained.get(index, 0),
            error="" if used is not None or utilization is not None else "the GPU does not answer",
            links=links,
        )

    def _memory(self, handle: Any) -> Tuple[Optional[int], Optional[int]]:
        found = self._ask("nvmlDeviceGetMemoryInfo", handle)
        return (None, None) if found is None else (int(found.total), int(found.used))

    def _read_processes(self, handle: Any) -> List[GpuProcess]:
        found: Dict[int, int] = {}
        for call in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
            for process in self._ask(call, handle) or ():
                found[process.pid] = max(found.get(process.pid, 0), process.usedGpuMemory or 0)
        utils = self._utilization(handle) if len(found) > 1 else {}
        return [self._describe(pid, mem, utils.get(pid)) for pid, mem in sorted(found.items())]

    def _utilization(self, handle: Any) -> Dict[int, int]:
        """Return the utilization of the GPU by process in percent, over the last seconds.

        Useful if several processes share the GPU.
        """
        since_us = int((time.time() - UTILISATION_S) * 1e6)
        rates = self._ask("nvmlDeviceGetProcessUtilization", handle, since_us) or ()
        return {each.pid: int(each.smUtil) for each in rates if each.smUtil <= 100}

    def _describe(self, pid: int, mem_bytes: int, util_pct: Optional[int]) -> GpuProcess:
        return GpuProcess(
            pid=pid,
            mem_bytes=mem_bytes,
            job_id=job_of(pid, self._jobs()),
            user=owner_of(pid),
            command=text(f"/proc/{pid}/comm"),
            util_pct=util_pct,
        )

    def _ask(self, call: str, *args: Any) -> Any:
        try:
            return getattr(self._nvml, call)(*args)
        except (self._nvml.NVMLError, AttributeError):
            return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default


class GpuWatch:
    """A GpuReader in its own thread, with a time limit for each call."""

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nvml")
        self._opening: Optional[asyncio.Future[List[GpuInfo]]] = None
        self._reading: Optional[asyncio.Future[List[GpuSample]]] = None
        self._reading_states: Optional[asyncio.Future[List[GpuState]]] = None

    @property
    def driver(self) -> str:
        return self._reader.driver

    async def discover(self) -> Tuple[List[GpuInfo], str]:
        """Return the GPUs that were found at the start, and the error of the driver or of GPUs that failed."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().run_in_executor(self._thread, self._reader.open)
        done, _ = await asyncio.wait([self._opening], timeout=OPEN_S)
        return (self._opening.result(), self._reader.error) if done else ([], SILENT)

    async def wait_for_gpus(self) -> List[GpuInfo]:
        """Return the GPUs, however long the driver takes."""
        await self.discover()
        assert self._opening is not None
        return await asyncio.shield(self._opening)

    async def minors(self, uuids: Sequence[str]) -> Optional[Tuple[int, ...]]:
        """Return the minor numbers of these GPUs, None if one is not known (yet)."""
        if not uuids:
            return ()
        found, _ = await self.discover()
        known = {gpu.uuid: gpu.minor for gpu in found}
        return tuple(known[uuid] for uuid in uuids) if known.keys() >= set(uuids) else None

    async def read_afresh(self) -> List[GpuSample]:
        """Return a new reading with the present processes. A reading that runs already is not used."""
        reading = asyncio.get_running_loop().run_in_executor(self._thread, self._reader.read, True)
        done, _ = await asyncio.wait([reading], timeout=DEADLINE_S)
        return reading.result() if done else self._reader.unknown()

    async def read(self) -> List[GpuSample]:
        """Return a reading, or unknown samples while one hangs."""
        if self._reading is None:
            self._reading = asyncio.get_running_loop().run_in_executor(self._thread, self._reader.read)
        done, _ = await asyncio.wait([self._reading], timeout=DEADLINE_S)
        if not done:
            return self._reader.unknown()
        found, self._reading = self._reading.result(), None
        return found

    async def read_states(self) -> Optional[List[GpuState]]:
        """Return the states of the cards, None while the driver does not answer."""
        if self._reading_states is None:
            self._reading_states = asyncio.get_running_loop().run_in_executor(
                self._thread, self._reader.read_states
            )
        done, _ = await asyncio.wait([self._reading_states], timeout=DEADLINE_S)
        if not done:
            return None
        found, self._reading_states = self._reading_states.result(), None
        return found

    def take_xids(self) -> List[Xid]:
        """Return the Xid errors of completed readings, each once."""
        return self._reader.take_xids()
