"""Resource usage of jobs: totals, and curves over time."""

from __future__ import annotations

import msgspec

from .ids import JobId, NodeName

COLUMNS = ("gpu_util_pct", "gpu_mem_bytes", "gpu_power_w", "gpu_temp_c", "cpu_pct", "mem_bytes")
"""The columns of a curve. For `cpu_pct`, 100 is one CPU."""


class OwnUse(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time and memory that a share used outside of its steps."""

    cpu_seconds: float = 0.0
    system_s: float = 0.0
    peak_mem_bytes: int = 0


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Distribution of one quantity over the tasks of a step on one node.

    `name` is cpu_s, mem_bytes (peaks), read_bytes or written_bytes.
    """

    name: str
    total: float = 0.0
    most: float = 0.0
    most_rank: int = 0
    least: float = 0.0
    least_rank: int = 0


class GpuUsage(msgspec.Struct, frozen=True, kw_only=True):
    """GPU usage of a job or of a step.

    All values are sums over GPUs and nodes, except the peak, which is the peak of one node.
    """

    seconds: float = 0.0
    """GPU-seconds for which the utilization was measured."""
    busy_s: float = 0.0
    idle_s: float = 0.0
    """GPU-seconds during which the utilization was below 5 %."""
    mem_peak_bytes: int = 0
    energy_j: float = 0.0
    source: str = "agent"
    """Origin of the values: our agent, or over Slurm a sampler in the job, sstat, sacct or jobstats."""

    def plus(self, other: GpuUsage) -> GpuUsage:
        """Return the combined usage of two nodes or of two steps."""
        return GpuUsage(
            seconds=self.seconds + other.seconds,
            busy_s=self.busy_s + other.busy_s,
            idle_s=self.idle_s + other.idle_s,
            mem_peak_bytes=max(self.mem_peak_bytes, other.mem_peak_bytes),
            energy_j=self.energy_j + other.energy_j,
            source=self.source,
        )

    @property
    def util_pct(self) -> float | None:
        """Mean utilization in percent; None if it was never measured."""
        return 100.0 * self.busy_s / self.seconds if self.seconds else None

    @property
    def idle_pct(self) -> float | None:
        """Share of the time with less than 5 % utilization, in percent; None if utilization was never
        measured.
        """
        return 100.0 * self.idle_s / self.seconds if self.seconds else None


class UsageCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Means over intervals of `step_s` seconds that begin at `begin_unix`.

    A missing column was not measured. A value of None means unknown.
    """

    begin_unix: float
    step_s: float
    columns: dict[str, tuple[float | None, ...]] = {}


class JobCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Usage over time of a job's share on one node, or of one of its steps there. For a requeued job, it
    covers the last start.
    """

    job_id: JobId
    node: NodeName
    curve: UsageCurve
    step: int | None = None
    """The step's number; None for the whole job."""
