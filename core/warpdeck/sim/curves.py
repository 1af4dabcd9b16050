"""What would have been measured of a simulated job: its GPUs warm up, work, and wait for every checkpoint. Pure."""

from __future__ import annotations

from warpdeck_agent.wire import messages as wire

MAX_POINTS = 240
WARM_UP_S = 8.0
CHECKPOINT_S = 60.0
GIB = 2**30


def curve(launch: wire.Launch, *, begin: float, end: float) -> wire.Curve:
    """From its start to `end`; without GPU columns where it has none. The same whenever it is asked for."""
    step_s = max(1.0, (end - begin) / MAX_POINTS)
    times = [number * step_s for number in range(max(1, int((end - begin) / step_s)))]
    if not launch.gpus:
        return wire.Curve(begin_unix=begin, step_s=step_s, cpu_pct=[90.0 for _ in times])
    use: list[float | None] = [_use(launch.job_id, at) for at in times]
    watts: list[float | None] = [len(launch.gpus) * (80 + 6.0 * (percent or 0)) for percent in use]
    mem: list[float | None] = [float(len(launch.gpus) * (30 + launch.job_id * 7 % 45) * GIB) for _ in times]
    return wire.Curve(begin_unix=begin, step_s=step_s, gpu_util_pct=use, gpu_power_w=watts, gpu_mem_bytes=mem)


def _use(job_id: int, at: float) -> float:
    noise = (int(at) * 29 + job_id * 17) % 11
    if at < WARM_UP_S:
        return 6.0 + noise
    return 30.0 + noise if at % CHECKPOINT_S < CHECKPOINT_S / 15 else 84.0 + noise
