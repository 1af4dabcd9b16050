"""What jobs have used, and how that went over time."""

from __future__ import annotations

import msgspec

from .ids import JobId, NodeName

COLUMNS = ("gpu_util_pct", "gpu_mem_bytes", "gpu_power_w", "gpu_temp_c", "cpu_pct", "mem_bytes")
"""What curves show. `cpu_pct`: 100 is one CPU."""


class OwnUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a share has used outside of its steps."""

    cpu_seconds: float = 0.0
    system_s: float = 0.0
    peak_mem_bytes: int = 0


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity over the tasks of a step on a node. `name`: cpu_s, mem_bytes (peaks), read_bytes or written_bytes."""

    name: str
    total: float = 0.0
    most: float = 0.0
    most_rank: int = 0
    least: float = 0.0
    least_rank: int = 0


class GpuUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What a job, or a step of one, has used of its GPUs: sums over GPUs and nodes, but for the peak, which is a node's."""

    seconds: float = 0.0
    """GPU-seconds in which utilisation was known."""
    busy_s: float = 0.0
    idle_s: float = 0.0
    """GPU-seconds with less than 5 % utilisation."""
    mem_peak_bytes: int = 0
    energy_j: float = 0.0

    def plus(self, other: GpuUsage) -> GpuUsage:
        """Of both: of two nodes, or of two steps."""
        return GpuUsage(
            seconds=self.seconds + other.seconds,
            busy_s=self.busy_s + other.busy_s,
            idle_s=self.idle_s + other.idle_s,
            mem_peak_bytes=max(self.mem_peak_bytes, other.mem_peak_bytes),
            energy_j=self.energy_j + other.energy_j,
        )

    @property
    def util_pct(self) -> float | None:
        """Mean utilisation, None where it was never known."""
        return 100.0 * self.busy_s / self.seconds if self.seconds else None

    @property
    def idle_pct(self) -> float | None:
        """The share of the time with less than 5 % utilisation."""
        return 100.0 * self.idle_s / self.seconds if self.seconds else None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """Means over equal steps from `begin_unix` on. A column that is not there was not measured; None is unknown."""

    begin_unix: float
    step_s: float
    columns: dict[str, tuple[float | None, ...]] = {}


class JobCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The life of a job's share on one node, or of one of its steps there. Of a job that was requeued the last start's."""

    job_id: JobId
    node: NodeName
    curve: Curve
    step: int | None = None
    """The step's number; None: the whole job."""
