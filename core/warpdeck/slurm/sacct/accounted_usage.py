"""Resource usage of a step as fields of sacct and sstat. Pure functions.

The fields are the sum, mean, maximum and minimum over the tasks of the step. Tasks are measured individually.
Processes outside of srun's steps, and steps that still run, are measured as a whole on each node. As in
Slurm, the bytes that were read and written include pipes and sockets. Quantities that are not measured are
empty: pages, virtual size, and the memory of processes that ended immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.slurm.format.units import clock, exact, rounded

Step = dict[str, Any]
Part = dict[str, Any]
KIB, MIB = 1 << 10, 1 << 20


class Reach(NamedTuple):
    """One quantity over the tasks of a step.

    It has the sum, and the maximum and minimum with their node and task rank.
    """

    total: float
    most: float
    most_node: str
    most_rank: int
    least: float
    least_node: str
    least_rank: int


def size(count_bytes: float, unit: str) -> str:
    """Format a size, for example 3276K. `unit` is the letter of --units, or "raw" for --noconvert."""
    if unit == "raw":
        return str(int(count_bytes))
    kib = int(count_bytes) // KIB
    return rounded(kib, "K", unit=unit) if unit else exact(kib, "K")


def disk(count_bytes: float, unit: str) -> str:
    """Format the size of disk I/O, for example 200.02M.

    It ignores --noconvert; only sizes above 1M use the unit of --units.
    """
    if not count_bytes:
        return "0"
    if unit in SCALE and count_bytes > MIB:
        return f"{count_bytes / SCALE[unit]:.2f}{unit}"
    return f"{count_bytes / MIB:.2f}M"


SCALE = {"K": KIB, "M": MIB, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def usage_fields(step: Step, *, unit: str = "") -> dict[str, str]:
    """Return the usage fields as text by name. A step that was not measured has none."""
    cpu, mem = reach(step, "cpu_s"), reach(step, "mem_bytes")
    moved = {"Read": reach(step, "read_bytes"), "Write": reach(step, "written_bytes")}
    tasks = max(1, step["row"]["tasks"])
    found: dict[str, str] = {}
    if cpu is not None:
        found = {
            "AveCPU": clock(cpu.total / tasks),
            "AveCPUFreq": "0",
            "MinCPU": clock(cpu.least),
            "MinCPUNode": cpu.least_node,
            "MinCPUTask": str(cpu.least_rank),
        }
    if mem is not None:
        found |= {
            "AveRSS": size(mem.total / tasks, unit),
            "MaxRSS": size(mem.most, unit),
            "MaxRSSNode": mem.most_node,
            "MaxRSSTask": str(mem.most_rank),
        }
    for name, each in moved.items():
        if each is not None:
            found |= {
                f"AveDisk{name}": disk(each.total / tasks, unit),
                f"MaxDisk{name}": disk(each.most, unit),
                f"MaxDisk{name}Node": each.most_node,
                f"MaxDisk{name}Task": str(each.most_rank),
            }
    return found | _tres(step, {"cpu": cpu, "fs/disk": moved["Read"], "mem": mem}, moved["Write"], unit)


def reach(step: Step, name: str) -> Reach | None:
    """Return the quantity over all nodes, or None if it was not measured."""
    told = [(part["node"], each) for part in step["parts"] for each in _spreads(part) if each["name"] == name]
    if not told:
        return None
    most_node, most = max(told, key=lambda pair: float(pair[1]["most"]))
    least_node, least = min(told, key=lambda pair: float(pair[1]["least"]))
    return Reach(
        sum(each["total"] for _, each in told),
        most["most"],
        most_node,
        most["most_rank"],
        least["least"],
        least_node,
        least["least_rank"],
    )


def _spreads(part: Part) -> list[dict[str, Any]]:
    """Return the quantities of a node's tasks.

    If they were only measured as a whole, the CPU time is divided equally and all the memory counts as one
    task's.
    """
    if part.get("spreads"):
        return list(part["spreads"])
    tasks, rank = max(1, part["tasks"]), part["first_task"]
    wholes = {"cpu_s": (part["cpu_seconds"], tasks), "mem_bytes": (part["peak_mem_bytes"], 1)}
    if not any(total for total, _ in wholes.values()):
        return []
    return [
        {
            "name": name,
            "total": total,
            "most": total / count,
            "most_rank": rank,
            "least": total / count,
            "least_rank": rank,
        }
        for name, (total, count) in wholes.items()
    ]


def _tres(step: Step, taken: dict[str, Reach | None], written: Reach | None, unit: str) -> dict[str, str]:
    """Return the usage as lists of TRES.

    "In" fields are what the step consumed or read, "Out" fields what it wrote.
    """
    known = {name: each for name, each in taken.items() if each is not None}
    if not known:
        return {}
    tasks = max(1, step["row"]["tasks"])
    gpu = _gpu(step["row"]["used"] or {})

    def listed(pick: Callable[[Reach], float]) -> str:
        return ",".join(f"{name}={_amount(name, pick(each), unit)}" for name, each in known.items())

    def where(pick: Callable[[Reach], object]) -> str:
        return ",".join(f"{name}={pick(each)}" for name, each in known.items())

    found = {
        "TRESUsageInAve": listed(lambda each: each.total / tasks) + gpu,
        "TRESUsageInMax": listed(lambda each: each.most) + gpu,
        "TRESUsageInMaxNode": where(lambda each: each.most_node),
        "TRESUsageInMaxTask": where(lambda each: each.most_rank),
        "TRESUsageInMin": listed(lambda each: each.least),
        "TRESUsageInMinNode": where(lambda each: each.least_node),
        "TRESUsageInMinTask": where(lambda each: each.least_rank),
        "TRESUsageInTot": listed(lambda each: each.total) + gpu,
    }
    if written is not None:
        found |= {
            "TRESUsageOutAve": f"fs/disk={int(written.total / tasks)}",
            "TRESUsageOutMax": f"fs/disk={int(written.most)}",
            "TRESUsageOutMaxNode": f"fs/disk={written.most_node}",
            "TRESUsageOutMaxTask": f"fs/disk={written.most_rank}",
            "TRESUsageOutMin": f"fs/disk={int(written.least)}",
            "TRESUsageOutMinNode": f"fs/disk={written.least_node}",
            "TRESUsageOutMinTask": f"fs/disk={written.least_rank}",
            "TRESUsageOutTot": f"fs/disk={int(written.total)}",
        }
    return found


def _amount(name: str, value: float, unit: str) -> str:
    if name == "cpu":
        return clock(value)
    return size(value, unit) if name == "mem" else str(int(value))


def _gpu(used: dict[str, Any]) -> str:
    """Return the GPU memory and utilization as gres/gpumem and gres/gpuutil, as in later Slurm releases."""
    text = ""
    if used.get("gpu_mem_peak_bytes") is not None:
        text += f",gres/gpumem={exact(int(used['gpu_mem_peak_bytes']) >> 20, 'M')}"
    if used.get("gpu_util_pct") is not None:
        text += f",gres/gpuutil={used['gpu_util_pct']:.0f}"
    return text


def cpu_times(used: dict[str, Any] | None) -> tuple[float, float]:
    """Return the CPU time in seconds, and the part of it that the kernel used."""
    known = used or {}
    total_s = float(known.get("cpu_seconds", 0.0))
    return total_s, min(total_s, float(known.get("system_s", 0.0)))


def energy_j(used: dict[str, Any] | None) -> int | None:
    """Return the energy used by the GPUs in joules, or None if it was not measured."""
    known = (used or {}).get("energy_j")
    return None if known is None else int(known)
