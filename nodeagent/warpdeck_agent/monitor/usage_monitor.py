"""Measures all launches and the node itself.

It feeds the meters of launches, and the history of the node and of each GPU.
"""

from __future__ import annotations

import time
from typing import Dict, List, Optional, Tuple

from warpdeck_agent.health.inventory import CpuMeter, memory
from warpdeck_agent.launch.launch import LocalStep
from warpdeck_agent.metrics.bounded_record import Values
from warpdeck_agent.metrics.node_history import NodeHistory
from warpdeck_agent.registry.launches import Launches
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import AskCurves, AskMoment, Curves, GpuInfo, GpuSample, IdleGpus, Moment

from .process_sampler import OUTSIDE_STEPS, Part, ProcessSampler, SampledUsage

LEAST_IDLE_S = 5.0
"""Seconds without use after which the GPUs of a job are reported as idle."""


class UsageMonitor:
    """The usage of the node and its launches. It is fed with every reading."""

    def __init__(self, launches: Launches, folder: Folder) -> None:
        self._launches = launches
        self._history = NodeHistory(folder)
        self._cpu = CpuMeter()
        self._uuids: Dict[int, str] = {}
        self._sampler = ProcessSampler(self._note)
        self._last_cpu: Dict[Part, Tuple[float, float]] = {}
        self.cpu_pct = 0.0
        self.mem_used_bytes = 0

    def set_gpus(self, gpus: List[GpuInfo]) -> None:
        """Set the node's GPUs."""
        self._uuids = {gpu.index: gpu.uuid for gpu in gpus}
        self._history.set_gpus(gpus, time.time())

    def add_reading(self, gpus: List[GpuSample]) -> None:
        """Add one reading that was just made."""
        now = time.time()
        cpus = self._cpu.count
        self.cpu_pct, self.mem_used_bytes = self._cpu.percent(), memory()[1]
        of_node: Values = {"cpu_pct": self.cpu_pct * cpus, "mem_bytes": float(self.mem_used_bytes)}
        self._history.add_reading(of_node, gpus, now)
        by_uuid = {self._uuids[gpu.index]: gpu for gpu in gpus if gpu.index in self._uuids}
        running = self._launches.running()
        usages = self._sampler.take(running, now)
        keys = {launch.key for launch in running}
        self._last_cpu = {part: last for part, last in self._last_cpu.items() if part[0] in keys}
        for launch in running:
            own = [by_uuid[uuid] for uuid in launch.meta.gpus if uuid in by_uuid]
            more = self._values((launch.key, "", ""), launch.meta.started_at, usages, now)
            if own or more:
                launch.usage.meter.add_reading(own, job_id=launch.meta.job_id, more=more, now=now)
                launch.usage.meter.keep(launch.folder)
            if launch.limit is not None and launch.limit.suspended:
                launch.usage.meter.gpus_used_at = now
            for step in launch.steps.values():
                if not step.is_done:
                    self._take_step(step, by_uuid, usages, now)

    def power_by_uuid(self, gpus: List[GpuSample]) -> Dict[str, Optional[float]]:
        """Return the power of each GPU by its uuid."""
        return {self._uuids[gpu.index]: gpu.power_w for gpu in gpus if gpu.index in self._uuids}

    def idle_gpus(self) -> List[IdleGpus]:
        """Return the running jobs that use none of their GPUs on this node."""
        now = time.time()
        return [
            IdleGpus(job_id=launch.meta.job_id, since_unix=launch.usage.meter.gpus_used_at)
            for launch in self._launches.running()
            if launch.meta.gpus and now - launch.usage.meter.gpus_used_at >= LEAST_IDLE_S
        ]

    def answer(self, request: AskCurves) -> Curves:
        """Return the measurements of a launch, of a step, or of the node. Empty if it is not known here."""
        if not request.job_id:
            return Curves(ask=request.ask, curves=self._history.curves(request.step_s))
        launch = self._launches.find(request.job_id, request.restarts)
        found = launch if launch is None or request.step is None else launch.steps.get(request.step)
        if found is None:
            return Curves(ask=request.ask)
        if request.own and launch is not None:
            own = launch.usage.own
            return Curves(ask=request.ask, cpu_seconds=own.cpu_seconds, peak_mem_bytes=own.peak_mem_bytes)
        usage = found.usage
        curve = usage.meter.curve()
        return Curves(
            ask=request.ask,
            curves=[curve] if curve else [],
            gpu=usage.meter.usage(),
            cpu_seconds=usage.cpu.total_s,
            peak_mem_bytes=usage.peak_mem_bytes,
        )

    def moment(self, request: AskMoment) -> Moment:
        """Return the state of the node and its GPUs at that moment."""
        return self._history.moment(request, cpus=self._cpu.count)

    def _take_step(
        self, step: LocalStep, by_uuid: Dict[str, GpuSample], usages: Dict[Part, SampledUsage], now: float
    ) -> None:
        step.take_memory()
        own = [by_uuid[uuid] for uuid in step.gpus if uuid in by_uuid]
        more = self._values((step.launch.key, str(step.number), ""), step.begin_unix, usages, now)
        if own or more:
            step.usage.meter.add_reading(own, job_id=step.launch.meta.job_id, more=more, now=now)
            step.usage.meter.keep(step.folder)

    def _note(self, found: Dict[Part, SampledUsage]) -> None:
        """Record peaks and CPU time from a walk over the processes."""
        for (key, name, rank), usages in found.items():
            launch = self._launches.find(*key)
            if launch is None:
                continue
            if name == OUTSIDE_STEPS:
                launch.usage.note_own(usages.cpu, usages.peak_bytes)
                continue
            step = launch.steps.get(int(name)) if name else None
            measured = step if name else launch
            if measured is not None and not rank:
                measured.usage.note(usages.cpu, usages.peak_bytes)
            task = step.tasks.get(int(rank)) if step is not None and rank else None
            if task is not None:
                task.peak_mem_bytes = max(task.peak_mem_bytes, usages.peak_bytes)

    def _values(self, part: Part, begin_unix: float, found: Dict[Part, SampledUsage], now: float) -> Values:
        """Return the usage of the part's processes since the last walk, as values for its curve."""
        usages = found.get(part)
        if usages is None:
            return {}
        before_s, at = self._last_cpu.get(part, (0.0, begin_unix))
        self._last_cpu[part] = (usages.cpu.total_s, now)
        cpu_pct = 100.0 * max(0.0, usages.cpu.total_s - before_s) / (now - at) if now > at else None
        return {"cpu_pct": cpu_pct, "mem_bytes": float(usages.mem_bytes)}
