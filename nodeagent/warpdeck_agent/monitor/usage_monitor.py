"""Measures all launches and the node itself.

It feeds the meters of launches, and the history of the node and of each GPU.
"""

from __future__ import annotations

import time
from typing import Dict, List, Tuple

from warpdeck_agent.health.inventory import CpuMeter, memory
from warpdeck_agent.launch.launch import Step
from warpdeck_agent.metrics.bounded_record import Values
from warpdeck_agent.metrics.node_history import History
from warpdeck_agent.registry.launch_registry import LaunchRegistry
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import AskCurves, AskMoment, Curves, GpuInfo, GpuSample, Moment

from .process_sampler import OWN, Part, ProcessSampler, Spent


class Usage:
    """The usage of the node and its launches. It is fed with every reading."""

    def __init__(self, jobs: LaunchRegistry, folder: Folder) -> None:
        self._jobs = jobs
        self._history = History(folder)
        self._cpu = CpuMeter()
        self._uuids: Dict[int, str] = {}
        self._looks = ProcessSampler(self._note)
        self._spent: Dict[Part, Tuple[float, float]] = {}
        self.cpu_pct = 0.0
        self.mem_used_bytes = 0

    def found(self, gpus: List[GpuInfo]) -> None:
        """Set the node's GPUs."""
        self._uuids = {gpu.index: gpu.uuid for gpu in gpus}
        self._history.found(gpus, time.time())

    def take(self, gpus: List[GpuSample]) -> None:
        """Add one reading that was just made."""
        now = time.time()
        cpus = self._cpu.count
        self.cpu_pct, self.mem_used_bytes = self._cpu.percent(), memory()[1]
        of_node: Values = {"cpu_pct": self.cpu_pct * cpus, "mem_bytes": float(self.mem_used_bytes)}
        self._history.take(of_node, gpus, now)
        by_uuid = {self._uuids[gpu.index]: gpu for gpu in gpus if gpu.index in self._uuids}
        running = self._jobs.running()
        spent = self._looks.take(running, now)
        keys = {job.key for job in running}
        self._spent = {part: last for part, last in self._spent.items() if part[0] in keys}
        for job in running:
            own = [by_uuid[uuid] for uuid in job.meta.gpus if uuid in by_uuid]
            more = self._values((job.key, "", ""), job.meta.started_at, spent, now)
            if own or more:
                job.meter.take(own, job_id=job.meta.job_id, more=more, now=now)
                job.meter.keep(job.folder)
            for step in job.steps.values():
                if not step.done.is_set():
                    self._take_step(step, by_uuid, spent, now)

    def answer(self, asked: AskCurves) -> Curves:
        """Return the measurements of a launch, of a step, or of the node. Empty if it is not known here."""
        if not asked.job_id:
            return Curves(ask=asked.ask, curves=self._history.curves(asked.step_s))
        job = self._jobs.find(asked.job_id, asked.restarts)
        found = job if job is None or asked.step is None else job.steps.get(asked.step)
        if found is None:
            return Curves(ask=asked.ask)
        if asked.own and job is not None:
            return Curves(
                ask=asked.ask, cpu_seconds=job.own_cpu.total_s, peak_mem_bytes=job.own_peak_mem_bytes
            )
        curve = found.meter.curve()
        return Curves(
            ask=asked.ask,
            curves=[curve] if curve else [],
            gpu=found.meter.usage(),
            cpu_seconds=found.cpu.total_s,
            peak_mem_bytes=found.peak_mem_bytes,
        )

    def moment(self, asked: AskMoment) -> Moment:
        """Return the state of the node and its GPUs at that moment."""
        return self._history.moment(asked, cpus=self._cpu.count)

    def _take_step(
        self, step: Step, by_uuid: Dict[str, GpuSample], spent: Dict[Part, Spent], now: float
    ) -> None:
        step.take_memory()
        own = [by_uuid[uuid] for uuid in step.gpus if uuid in by_uuid]
        more = self._values((step.job.key, str(step.number), ""), step.begin_unix, spent, now)
        if own or more:
            step.meter.take(own, job_id=step.job.meta.job_id, more=more, now=now)
            step.meter.keep(step.folder)

    def _note(self, found: Dict[Part, Spent]) -> None:
        """Record peaks and CPU time from a walk over the processes."""
        for (key, name, rank), spent in found.items():
            job = self._jobs.find(*key)
            if job is None:
                continue
            if name == OWN:
                job.own_cpu = max(job.own_cpu, spent.cpu)
                job.own_peak_mem_bytes = max(job.own_peak_mem_bytes, spent.peak_bytes)
                continue
            step = job.steps.get(int(name)) if name else None
            whose = step if name else job
            if whose is not None and not rank:
                whose.cpu = max(whose.cpu, spent.cpu)
                whose.peak_mem_bytes = max(whose.peak_mem_bytes, spent.peak_bytes)
            task = step.tasks.get(int(rank)) if step is not None and rank else None
            if task is not None:
                task.peak_mem_bytes = max(task.peak_mem_bytes, spent.peak_bytes)

    def _values(self, part: Part, begin_unix: float, found: Dict[Part, Spent], now: float) -> Values:
        """Return the usage of the part's processes since the last walk, as values for its curve."""
        spent = found.get(part)
        if spent is None:
            return {}
        before_s, at = self._spent.get(part, (0.0, begin_unix))
        self._spent[part] = (spent.cpu.total_s, now)
        cpu_pct = 100.0 * max(0.0, spent.cpu.total_s - before_s) / (now - at) if now > at else None
        return {"cpu_pct": cpu_pct, "mem_bytes": float(spent.mem_bytes)}
