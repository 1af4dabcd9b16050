"""The usage of a launch, of a step, and of the tasks of a step."""

from __future__ import annotations

from typing import Dict, List, Mapping

from warpdeck_agent.isolation.launch_cgroups import CgroupUsage
from warpdeck_agent.linux.cpu_time import CpuTime, sum_of
from warpdeck_agent.metrics.metering import UsageMeter
from warpdeck_agent.tasks.task import Task
from warpdeck_agent.wire.messages import OwnUse
from warpdeck_agent.wire.watch import Spread


class ProcessUsage:
    """The usage of some processes: CPU time, peak memory, and the meter of their usage over time."""

    def __init__(self, meter: UsageMeter) -> None:
        self.meter = meter
        self.cpu = CpuTime()
        self.peak_mem_bytes = 0

    def note_memory(self, mem_bytes: int) -> None:
        """Record that all the processes together used `mem_bytes` of memory."""
        self.peak_mem_bytes = max(self.peak_mem_bytes, mem_bytes)

    def note(self, cpu: CpuTime, mem_bytes: int) -> None:
        """Record a measurement of CPU time and peak memory."""
        self.cpu = max(self.cpu, cpu)
        self.note_memory(mem_bytes)


class LaunchUsage(ProcessUsage):
    """The usage of a launch, and the part of it outside of its steps."""

    def __init__(self, meter: UsageMeter) -> None:
        super().__init__(meter)
        self.had_steps = False
        self._own_cpu = CpuTime()
        self._own_peak_mem_bytes = 0
        """The usage of the processes that belong to no step."""
        self._steps_cpu = CpuTime()
        """CPU time of the steps that have ended."""

    @property
    def own(self) -> OwnUse:
        """The usage without the usage of the launch's steps."""
        return OwnUse(*self._own_cpu, self._own_peak_mem_bytes)

    def note_own(self, cpu: CpuTime, mem_bytes: int) -> None:
        """Record a measurement of the processes that belong to no step."""
        self._own_cpu = max(self._own_cpu, cpu)
        self._own_peak_mem_bytes = max(self._own_peak_mem_bytes, mem_bytes)

    def note_first_process(self, cpu: CpuTime, mem_bytes: int) -> None:
        """Record the usage of the launch's first process and its children, which has ended."""
        self._own_cpu = cpu
        self._own_peak_mem_bytes = max(self._own_peak_mem_bytes, mem_bytes)
        self.note(self._own_cpu, self._own_peak_mem_bytes)

    def note_step(self, cpu: CpuTime) -> None:
        """Add the CPU time of a step that has ended."""
        self._steps_cpu = sum_of((self._steps_cpu, cpu))

    def note_cgroups(self, used: CgroupUsage) -> None:
        """Record the usage that the kernel has counted in the launch's cgroups."""
        self.note_memory(used.peak_mem_bytes)
        self.cpu = max(self.cpu, used.cpu, sum_of((self._own_cpu, self._steps_cpu)))


def per_task_minmax(tasks: Mapping[int, Task]) -> List[Spread]:
    """Return the distributions of a step's usage over its ended tasks on this node.

    A quantity that is zero for all tasks was not measured, and is omitted.
    """
    moved = {rank: task.transferred() for rank, task in tasks.items()}
    found = (
        _minmax("cpu_s", {rank: task.cpu().total_s for rank, task in tasks.items()}),
        _minmax("mem_bytes", {rank: float(task.peak_mem_bytes) for rank, task in tasks.items()}),
        _minmax("read_bytes", {rank: float(each[0]) for rank, each in moved.items()}),
        _minmax("written_bytes", {rank: float(each[1]) for rank, each in moved.items()}),
    )
    return [each for each in found if each.most]


def _minmax(name: str, values: Dict[int, float]) -> Spread:
    """Return sum, maximum and minimum of `values` by rank. Of equal values, the lowest rank is given."""
    if not values:
        return Spread(name)
    most_rank = min(values, key=lambda rank: (-values[rank], rank))
    least_rank = min(values, key=lambda rank: (values[rank], rank))
    return Spread(name, sum(values.values()), values[most_rank], most_rank, values[least_rank], least_rank)
