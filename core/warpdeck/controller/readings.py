"""An agent's sample as the model's reading."""

from __future__ import annotations

from warpdeck.model import GpuProcess, GpuReading, JobId, Reading
from warpdeck_agent.wire import messages as wire


def to_reading(sample: wire.Sample) -> Reading:
    """The same facts in the controller's own types."""
    return Reading(
        at_unix=sample.at_unix,
        cpu_pct=sample.cpu_pct,
        mem_used_bytes=sample.mem_used_bytes,
        gpus=tuple(_gpu(gpu) for gpu in sample.gpus),
    )


def _gpu(gpu: wire.GpuSample) -> GpuReading:
    return GpuReading(
        index=gpu.index,
        util_pct=gpu.util_pct,
        mem_used_bytes=gpu.mem_used_bytes,
        power_w=gpu.power_w,
        temp_c=gpu.temp_c,
        error=gpu.error,
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
