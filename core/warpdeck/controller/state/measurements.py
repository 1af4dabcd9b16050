"""Convert measurements of the agents to the model's types: readings, usage and curves."""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.model import (
    CURVE_COLUMNS,
    GpuLinks,
    GpuProcess,
    GpuReading,
    GpuUsage,
    JobId,
    NodeReading,
    OwnUse,
    Spread,
    UsageCurve,
)
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire import watch


def to_reading(sample: wire.Sample) -> NodeReading:
    """Convert an agent's sample to a `NodeReading`."""
    return NodeReading(
        at_unix=sample.at_unix,
        cpu_pct=sample.cpu_pct,
        mem_used_bytes=sample.mem_used_bytes,
        gpus=tuple(to_gpu_reading(gpu) for gpu in sample.gpus),
        idle=tuple((JobId(session.job_id), session.since_unix) for session in sample.idle),
        stalls=tuple((JobId(each.job_id), each.restarts, each.quiet_s) for each in sample.stalls),
        idle_gpus=tuple((JobId(each.job_id), each.since_unix) for each in sample.idle_gpus),
    )


def to_gpu_reading(gpu: wire.GpuSample) -> GpuReading:
    """Convert one GPU of an agent's sample to a `GpuReading`."""
    return GpuReading(
        index=gpu.index,
        util_pct=gpu.util_pct,
        mem_used_bytes=gpu.mem_used_bytes,
        power_w=gpu.power_w,
        temp_c=gpu.temp_c,
        error=gpu.error,
        unexplained_bytes=gpu.unexplained_bytes,
        links=GpuLinks() if gpu.links is None else GpuLinks(**vars(gpu.links)),
        processes=tuple(
            GpuProcess(
                pid=process.pid,
                mem_bytes=process.mem_bytes,
                job_id=JobId(process.job_id),
                user=process.user,
                command=process.command,
            )
            for process in gpu.processes
        ),
    )


def to_usage(used: wire.GpuUsage | None) -> GpuUsage | None:
    """Convert the GPU usage of a share of an allocation; None if there is none."""
    if used is None:
        return None
    return GpuUsage(
        seconds=used.seconds,
        busy_s=used.busy_s,
        idle_s=used.idle_s,
        mem_peak_bytes=used.mem_peak_bytes,
        energy_j=used.energy_j,
    )


def to_own(used: wire.OwnUse | None) -> OwnUse | None:
    """Convert the usage of a share of an allocation outside of its steps; None if there is none."""
    if used is None:
        return None
    return OwnUse(cpu_seconds=used.cpu_seconds, system_s=used.system_s, peak_mem_bytes=used.peak_mem_bytes)


def to_spreads(wire_value: Iterable[watch.Spread]) -> tuple[Spread, ...]:
    """Convert the minimum, maximum and total over the tasks of a step on one node."""
    return tuple(
        Spread(
            name=each.name,
            total=each.total,
            most=each.most,
            most_rank=each.most_rank,
            least=each.least,
            least_rank=each.least_rank,
        )
        for each in wire_value
    )


def to_curve(wire_value: wire.Curve) -> UsageCurve:
    """Convert a curve. Columns that were not measured are left out."""
    measured = {name: tuple(getattr(wire_value, name)) for name in CURVE_COLUMNS}
    return UsageCurve(
        begin_unix=wire_value.begin_unix,
        step_s=wire_value.step_s,
        columns={name: points for name, points in measured.items() if points},
    )


def summed(parts: Iterable[GpuUsage | None]) -> GpuUsage | None:
    """Return the sum of the GPU usage on all nodes of a job or step; None if nothing was measured."""
    total: GpuUsage | None = None
    for part in parts:
        if part is not None:
            total = part if total is None else total.plus(part)
    return total
