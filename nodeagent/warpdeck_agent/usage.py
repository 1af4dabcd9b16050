"""Measures all that run here and the node itself: meters of launches, rings of the node and of each GPU."""

from __future__ import annotations

import asyncio
import time
from typing import Dict, List, Optional, Tuple, Union

from . import processes
from .cputime import CpuTime, sum_of
from .inventory import CpuMeter, memory
from .job import Job, Key
from .jobs import Jobs
from .record import Rings, Values
from .steps import Step
from .taskstarter import STEP_VARIABLE
from .wire.messages import AskCurves, Curves, GpuInfo, GpuSample

PROCESSES_S = 10.0
"""Between two looks at the processes of launches. One walk over /proc for all, 10 us a process of the machine."""
NODE = ""
"""The key of the node's own rings, beside the uuids of its GPUs."""

Spent = Tuple[CpuTime, int]
"""(CPU time so far, bytes of memory now) of a launch's processes."""
Part = Tuple[Key, str]
"""A launch, and one of its steps by its number; "" is the launch as a whole."""


class Usage:
    """Fed with every reading."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._cpu = CpuMeter()
        self._rings: Dict[str, Rings] = {NODE: Rings()}
        self._uuids: Dict[int, str] = {}
        self._next_look = 0.0
        self._looking: Optional[asyncio.Future[Dict[Part, Spent]]] = None
        self._spent: Dict[Part, Tuple[float, float]] = {}
        self.cpu_pct = 0.0
        self.mem_used_bytes = 0

    def found(self, gpus: List[GpuInfo]) -> None:
        """The node's GPUs."""
        self._uuids = {gpu.index: gpu.uuid for gpu in gpus}
        self._rings.update({gpu.uuid: Rings() for gpu in gpus})

    def take(self, gpus: List[GpuSample]) -> None:
        """One reading, just now."""
        now = time.time()
        cpus = self._cpu.count
        self.cpu_pct, self.mem_used_bytes = self._cpu.percent(), memory()[1]
        self._rings[NODE].add({"cpu_pct": self.cpu_pct * cpus, "mem_bytes": float(self.mem_used_bytes)}, now)
        by_uuid = {self._uuids[gpu.index]: gpu for gpu in gpus if gpu.index in self._uuids}
        for uuid, gpu in by_uuid.items():
            values: Values = {
                "gpu_util_pct": gpu.util_pct,
                "gpu_mem_bytes": gpu.mem_used_bytes,
                "gpu_power_w": gpu.power_w,
            }
            self._rings[uuid].add(values, now)
        running = self._jobs.running()
        spent = self._look_at_processes(running)
        for job in running:
            own = [by_uuid[uuid] for uuid in job.meta.gpus if uuid in by_uuid]
            whole = (job.key, "")
            more = self._more(job, whole, job.meta.started_at, spent.get(whole), now)
            if own or more:
                job.meter.take(own, job_id=job.meta.job_id, more=more, now=now)
                job.meter.keep(job.folder)
            for step in job.steps.values():
                if not step.done.is_set():
                    self._take_step(step, by_uuid, spent.get((job.key, str(step.number))), now)

    def answer(self, asked: AskCurves) -> Curves:
        """What was measured of a launch, or of the node. Empty for what is not known here."""
        if not asked.job_id:
            curves = [rings.curve(asked.step_s, uuid) for uuid, rings in self._rings.items()]
            return Curves(ask=asked.ask, curves=curves)
        job = self._jobs.find(asked.job_id, asked.restarts)
        found = job if job is None or asked.step is None else job.steps.get(asked.step)
        if found is None:
            return Curves(ask=asked.ask)
        curve = found.meter.curve()
        return Curves(
            ask=asked.ask,
            curves=[curve] if curve else [],
            gpu=found.meter.usage(),
            cpu_seconds=found.cpu.total_s,
            peak_mem_bytes=found.peak_mem_bytes,
        )

    def _take_step(
        self, step: Step, by_uuid: Dict[str, GpuSample], spent: Optional[Spent], now: float
    ) -> None:
        own = [by_uuid[uuid] for uuid in step.gpus if uuid in by_uuid]
        more = self._more(step, (step.job.key, str(step.number)), step.begin_unix, spent, now)
        if own or more:
            step.meter.take(own, job_id=step.job.meta.job_id, more=more, now=now)
            step.meter.keep(step.folder)

    def _look_at_processes(self, running: List[Job]) -> Dict[Part, Spent]:
        """What the last look found, once; begins another when it is time."""
        found: Dict[Part, Spent] = {}
        if self._looking is not None and self._looking.done():
            found, self._looking = self._looking.result(), None
        if self._looking is None and running and time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + PROCESSES_S
            marks = {job.mark: (job.key, job.has_running_steps()) for job in running}
            self._looking = asyncio.get_running_loop().run_in_executor(None, _look, marks)
        keys = {job.key for job in running}
        self._spent = {part: last for part, last in self._spent.items() if part[0] in keys}
        return found

    def _more(
        self, whose: Union[Job, Step], part: Part, begin_unix: float, spent: Optional[Spent], now: float
    ) -> Values:
        """What its processes have spent since the last look; it is told of its peak too."""
        if spent is None:
            return {}
        cpu, mem_bytes = spent
        whose.cpu = max(whose.cpu, cpu)
        whose.peak_mem_bytes = max(whose.peak_mem_bytes, mem_bytes)
        before_s, at = self._spent.get(part, (0.0, begin_unix))
        self._spent[part] = (cpu.total_s, now)
        cpu_pct = 100.0 * max(0.0, cpu.total_s - before_s) / (now - at) if now > at else None
        return {"cpu_pct": cpu_pct, "mem_bytes": float(mem_bytes)}


def _look(marks: Dict[str, Tuple[Key, bool]]) -> Dict[Part, Spent]:
    """`marks`: mark -> (launch, whether it has steps). Runs in a thread."""
    found: Dict[Part, Spent] = {}
    for mark, pids in processes.marked().items():
        if mark not in marks:
            continue
        key, has_steps = marks[mark]
        for pid in pids:
            step = processes.variable(pid, STEP_VARIABLE) if has_steps else ""
            for part in {"", step}:
                cpu, mem = found.get((key, part), (CpuTime(), 0))
                found[key, part] = (
                    sum_of((cpu, processes.cpu_time(pid))),
                    mem + processes.resident_bytes(pid),
                )
    return found
