"""What a step has used, in sacct's and sstat's fields: the most, the least and the mean over its nodes. Pure.

Memory is measured of a step's whole part on a node, so MaxRSS is of the node on which it had most. What is not measured (pages, disk,
virtual size) is empty.
"""

from __future__ import annotations

from typing import Any

from warpdeck.slurm.units import clock, exact, rounded

Step = dict[str, Any]
KIB = 1024


def size(count_bytes: float, unit: str) -> str:
    """3276K; `unit` as --units has it, "raw" for --noconvert."""
    if unit == "raw":
        return str(int(count_bytes))
    kib = int(count_bytes) // KIB
    return rounded(kib, "K", unit=unit) if unit else exact(kib, "K")


def usage_fields(step: Step, *, unit: str = "") -> dict[str, str]:
    """Field -> text; nothing for a step that was not measured."""
    parts = [part for part in step["parts"] if part["cpu_seconds"] or part["peak_mem_bytes"]]
    if not parts:
        return {}
    most = max(parts, key=lambda part: part["peak_mem_bytes"])
    least = min(parts, key=lambda part: part["cpu_seconds"] / max(1, part["tasks"]))
    tasks = max(1, step["row"]["tasks"])
    cpu_s = sum(part["cpu_seconds"] for part in parts)
    mem = sum(part["peak_mem_bytes"] for part in parts) / max(1, len(parts))
    least_s = least["cpu_seconds"] / max(1, least["tasks"])
    found = {
        "AveCPU": clock(cpu_s / tasks),
        "AveCPUFreq": "0",
        "AveRSS": size(mem, unit),
        "MaxRSS": size(most["peak_mem_bytes"], unit),
        "MaxRSSNode": most["node"],
        "MaxRSSTask": str(most["first_task"]),
        "MinCPU": clock(least_s),
        "MinCPUNode": least["node"],
        "MinCPUTask": str(least["first_task"]),
    }
    return found | _tres(step, found, cpu_s)


def _tres(step: Step, found: dict[str, str], cpu_s: float) -> dict[str, str]:
    gpu = _gpu(step["row"]["used"] or {})
    return {
        "TRESUsageInAve": f"cpu={found['AveCPU']},mem={found['AveRSS']}{gpu}",
        "TRESUsageInMax": f"cpu={found['MinCPU'] if step['row']['tasks'] == 1 else clock(cpu_s)},mem={found['MaxRSS']}{gpu}",
        "TRESUsageInMaxNode": f"mem={found['MaxRSSNode']}",
        "TRESUsageInMaxTask": f"mem={found['MaxRSSTask']}",
        "TRESUsageInMin": f"cpu={found['MinCPU']}",
        "TRESUsageInMinNode": f"cpu={found['MinCPUNode']}",
        "TRESUsageInMinTask": f"cpu={found['MinCPUTask']}",
        "TRESUsageInTot": f"cpu={clock(cpu_s)},mem={found['MaxRSS']}{gpu}",
    }


def _gpu(used: dict[str, Any]) -> str:
    """As later releases of Slurm have it: gres/gpumem and gres/gpuutil."""
    text = ""
    if used.get("gpu_mem_peak_bytes") is not None:
        text += f",gres/gpumem={exact(int(used['gpu_mem_peak_bytes']) >> 20, 'M')}"
    if used.get("gpu_util_pct") is not None:
        text += f",gres/gpuutil={used['gpu_util_pct']:.0f}"
    return text


def cpu_times(used: dict[str, Any] | None) -> tuple[float, float]:
    """CPU seconds, and of these the kernel's."""
    known = used or {}
    total_s = float(known.get("cpu_seconds", 0.0))
    return total_s, min(total_s, float(known.get("system_s", 0.0)))


def energy_j(used: dict[str, Any] | None) -> int | None:
    """Of its GPUs, in joules; None was not measured."""
    known = (used or {}).get("energy_j")
    return None if known is None else int(known)
