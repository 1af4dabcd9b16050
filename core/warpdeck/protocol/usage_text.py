"""Describes a job's resource usage as text, for the command line and the app.

It uses only the standard library.
"""

from __future__ import annotations

from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.memory_sizes import format_memory

JOULES_PER_KWH = 3.6e6
WORTH_TELLING_S = 1.0
"""Kernel CPU time below this is not shown, because times are shown in whole seconds."""


def gpu_name(node: str, index: int) -> str:
    """Return the name of a GPU of a job, such as "n1:3", or "n1:?" if its index is unknown."""
    return f"{node}:{index if index >= 0 else '?'}"


def used_in_words(
    *,
    cpu_seconds: float,
    system_s: float,
    peak_mem_bytes: int,
    gpu_util_pct: float | None,
    gpu_idle_pct: float | None,
    gpu_mem_peak_bytes: int | None,
    energy_j: float | None,
    gpu_source: str = "",
) -> list[str]:
    """Return the fields of rows.UsageRow as phrases.

    Fields that were not measured or are zero are left out.
    """
    words = []
    if cpu_seconds:
        kernels = f" ({format_duration(system_s)} in the kernel)" if system_s >= WORTH_TELLING_S else ""
        words.append(f"{format_duration(cpu_seconds)} of CPU{kernels}")
    if peak_mem_bytes:
        words.append(f"{format_memory(peak_mem_bytes)} of memory at most")
    if gpu_util_pct is not None:
        idle = f", under 5 % for {gpu_idle_pct:.0f} % of the time" if gpu_idle_pct else ""
        words.append(f"GPUs at {gpu_util_pct:.0f} %{idle}{origin(gpu_source)}")
    if gpu_mem_peak_bytes:
        words.append(f"{format_memory(gpu_mem_peak_bytes)} of GPU memory at most")
    if energy_j:
        words.append(_energy(energy_j))
    return words


def origin(source: str) -> str:
    """Return the origin of values about GPUs in parentheses, or "" for our agent, which is not worth telling."""
    return f" ({source})" if source not in ("", "agent") else ""


def _energy(energy_j: float) -> str:
    kwh = energy_j / JOULES_PER_KWH
    return f"{kwh:.1f} kWh" if kwh >= 1 else f"{kwh * 1000:.2g} Wh"
