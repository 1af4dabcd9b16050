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
from warpdeck_agent.registry.launches import Launches
from warpdeck_agent.storage.spool import Folder
from warpdeck_agent.wire.messages import AskCurves, AskMoment, Curves, GpuInfo, GpuSample, Moment

from .process_sampler import OWN, Part, ProcessSampler, Spent


class Usage:
    """The usage of the node and its launches. It is fed with every reading."""

    def __init__(self, launches: Launches, folder: Folder) -> None:
        self._launches = launches
        self._history = History(folder)
        self._cpu = CpuMeter()
        self._uuids: Dict[int, str] = {}
        self._sampler = ProcessSampler(self._note)
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
        running = self._launches.running()
        spent = self._sampler.take(running, now)
        keys = {launch.key for launch in running}
        self._spent = {part: last for part, last in self._spent.items() if part[0] in keys}
        for launch in running:
            own = [by_uuid[uuid] for uuid in launch.meta.gpus if uuid in by_uuid]
            more = self._values((launch.key, "", ""), launch.meta.started_at, spent, now)
            if own or more:
                launch.usage.meter.take(own, job_id=launch.meta.job_id, more=more, now=now)
                launch.usage.meter.keep(launch.folder)
            for step in launch.steps.values():
                if not step.is_done:
                    self._take_step(step, by_uuid, spent, now)

    def answer(self, asked: AskCurves) -> Curves:
        """Return the measurements of a launch, of a step, or of the node. Empty if it is not known here."""
        if not asked.job_id:
            return Curves(ask=asked.ask, curves=self._history.curves(asked.step_s))
        launch = self._launches.find(asked.job_id, asked.restarts)
        found = launch if launch is None or asked.step is None else launch.steps.get(asked.step)
        if found is None:
            return Curves(ask=asked.ask)
        if asked.own and launch is not None:
            own = launch.usage.own
            return Curves(ask=asked.ask, cpu_seconds=own.cpu_seconds, peak_mem_bytes=own.peak_mem_bytes)
        usage = found.usage
        curve = usage.meter.curve()
        return Curves(
            ask=asked.ask,
            curves=[curve] if curve else [],
            gpu=usage.meter.usage(),
            cpu_seconds=usage.cpu.total_s,
            peak_mem_bytes=usage.peak_mem_bytes,
        )

    def moment(self, asked: AskMoment) -> Moment:
        """Return the state of the node and its GPUs at that moment."""
        return self._history.moment(asked, cpus=self._cpu.count)

    def _take_step(
        self, step: Step, by_uuid: Dict[str, GpuSample], spent: Dict[Part, Spent], now: float
    ) -> None:
        step.take_memory()
        own = [by_uuid[uuid] for uuid in step.gpus if uuid in by_uuid]
        more = self._values((step.launch.key, str(step.number), ""), step.begin_unix, spent, now)
        if own or more:
            step.usage.meter.take(own, job_id=step.launch.meta.job_id, more=more, now=now)
            step.usage.meter.keep(step.folder)

    def _note(self, found: Dict[Part, Spent]) -> None:
        """Record peaks and CPU time from a walk over the processes."""
        for (key, name, rank), spent in found.items():
            launch = self._launches.find(*key)
            if launch is None:
                continue
            if name == OWN:
                launch.usage.note_own(spent.cpu, spent.peak_bytes)
                continue
            step = launch.steps.get(int(name)) if name else None
            measured = step if name else launch
            if measured is not None and not rank:
                measured.usage.note(spent.cpu, spent.peak_bytes)
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
