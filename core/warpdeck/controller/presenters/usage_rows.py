"""Measured resource use as rows for clients. All functions are pure."""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.controller.state.measurements import summed
from warpdeck.model import GpuUsage, Job, ShareStatus
from warpdeck.model.step import StepPart
from warpdeck.protocol.job_rows import UsageRow


def usage_row(job: Job) -> UsageRow:
    """Return the resource use of the job's shares that have ended."""
    return use_of(job.shares)


def use_of(parts: Sequence[ShareStatus] | Sequence[StepPart]) -> UsageRow:
    """Return the summed resource use of the parts of a job or step on its nodes."""
    return shown_usage(
        summed(part.gpu for part in parts),
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        system_s=sum(part.system_s for part in parts),
        peak_mem_bytes=max((part.peak_mem_bytes for part in parts), default=0),
    )


def shown_usage(
    gpu: GpuUsage | None, *, cpu_seconds: float, peak_mem_bytes: int, system_s: float = 0.0
) -> UsageRow:
    """Return resource use in the form that clients get."""
    return UsageRow(
        cpu_seconds=cpu_seconds,
        system_s=system_s,
        peak_mem_bytes=peak_mem_bytes,
        gpu_util_pct=gpu.util_pct if gpu else None,
        gpu_idle_pct=gpu.idle_pct if gpu else None,
        gpu_mem_peak_bytes=gpu.mem_peak_bytes if gpu else None,
        energy_j=gpu.energy_j if gpu else None,
        gpu_source=gpu.source if gpu else "",
    )
