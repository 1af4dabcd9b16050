"""Measurements of a simulated job. Its GPUs warm up, work, and pause for every checkpoint. Pure functions."""

from __future__ import annotations

from warpdeck_agent.wire import messages as wire

MAX_POINTS = 240
WARM_UP_S = 8.0
CHECKPOINT_S = 60.0
GIB = 2**30
IDLE_BELOW_PCT = 5
"""The agent's limit for an idle GPU."""


def curve(launch: wire.Launch, *, begin: float, end: float) -> wire.Curve:
    """Return the curve from the start to `end`. A job without GPUs has no GPU columns. The result is
    deterministic.
    """
    step_s = max(1.0, (end - begin) / MAX_POINTS)
    times = [number * step_s for number in range(max(1, int((end - begin) / step_s)))]
    if not launch.gpus:
        return wire.Curve(begin_unix=begin, step_s=step_s, cpu_pct=[90.0 for _ in times])
    use: list[float | None] = [_use(launch, at) for at in times]
    watts: list[float | None] = [len(launch.gpus) * (80 + 6.0 * (percent or 0)) for percent in use]
    mem: list[float | None] = [float(len(launch.gpus) * held_bytes(launch)) for _ in times]
    return wire.Curve(begin_unix=begin, step_s=step_s, gpu_util_pct=use, gpu_power_w=watts, gpu_mem_bytes=mem)


def gpu_usage(launch: wire.Launch, *, begin: float, end: float) -> wire.GpuUsage | None:
    """Return the use of GPUs up to `end`, computed from the curve."""
    made = curve(launch, begin=begin, end=end)
    if not launch.gpus:
        return None
    known = [percent or 0.0 for percent in made.gpu_util_pct]
    seconds = len(launch.gpus) * max(0.0, end - begin)
    return wire.GpuUsage(
        seconds=seconds,
        busy_s=seconds * sum(known) / (100 * len(known)),
        idle_s=seconds * sum(percent < IDLE_BELOW_PCT for percent in known) / len(known),
        mem_peak_bytes=int(max(each or 0 for each in made.gpu_mem_bytes)),
        energy_j=max(0.0, end - begin) * sum(each or 0 for each in made.gpu_power_w) / len(known),
    )


def span_of(at_unix: float, *, since: float, now: float) -> tuple[float, float] | None:
    """Return the begin and length of the step for a past time in the records of a node's agent.

    Returns None if the agent would not keep that time.
    """
    for step_s, points in wire.RINGS:
        begin = at_unix // step_s * step_s
        if since <= at_unix <= now < begin + step_s * points:
            return begin, step_s
    return None


def gpu_then(index: int, launch: wire.Launch | None, at: float, *, foreign_bytes: int = 0) -> wire.GpuSample:
    """Return the reading of a GPU `at` seconds after the start of its launch, or of a GPU without a launch."""
    if foreign_bytes:
        return wire.GpuSample(
            index=index, util_pct=20, mem_used_bytes=foreign_bytes, power_w=180.0, temp_c=44
        )
    if launch is None:
        return wire.GpuSample(index=index, util_pct=0, mem_used_bytes=0, power_w=72.0, temp_c=33)
    use = round(_use(launch, at + index))  # GPUs of one job differ a little
    size = held_bytes(launch)
    return wire.GpuSample(
        index=index, util_pct=use, mem_used_bytes=size, power_w=80 + 6.0 * use, temp_c=35 + use // 3
    )


def held_bytes(launch: wire.Launch) -> int:
    """Return the memory that a launch uses on each of its GPUs."""
    return (30 + launch.job_id * 7 % 45) * GIB


def _use(launch: wire.Launch, at: float) -> float:
    """Return the utilization in percent. It is 0 for a shell."""
    if launch.pty:
        return 0.0
    job_id = launch.job_id
    noise = (int(at) * 29 + job_id * 17) % 11
    if at < WARM_UP_S:
        return 6.0 + noise
    return 30.0 + noise if at % CHECKPOINT_S < CHECKPOINT_S / 15 else 84.0 + noise
