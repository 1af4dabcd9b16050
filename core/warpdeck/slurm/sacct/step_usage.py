"""Resource usage of a step as columns of sacct and sstat. Pure functions.

The columns are the sum, mean, maximum and minimum over the tasks of the step. Tasks are measured individually.
Processes outside of srun's steps, and steps that still run, are measured as a whole on each node. As in
Slurm, the bytes that were read and written include pipes and sockets. Quantities that are not measured are
empty: pages, virtual size, and the memory of processes that ended immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from warpdeck.slurm.fields.field import Row
from warpdeck.slurm.format.units import clock, exact, rounded

KIB, MIB = 1 << 10, 1 << 20
SCALE = {"K": KIB, "M": MIB, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
CONSUMED = {"cpu": "cpu_s", "fs/disk": "read_bytes", "mem": "mem_bytes"}
"""TRES in the columns TRESUsageIn... -> quantity."""
WRITTEN = {"fs/disk": "written_bytes"}
"""TRES in the columns TRESUsageOut... -> quantity."""


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


class StepUsage:
    """The usage of one step, as far as columns ask for it. `unit` is that of `size`."""

    def __init__(self, step: Row, unit: str = "") -> None:
        self._step = step
        self.unit = unit

    @cached_property
    def tasks(self) -> int:
        return max(1, int(self._step["tasks"]))

    @cached_property
    def reaches(self) -> dict[str, Reach]:
        """The measured quantities over all nodes: cpu_s, mem_bytes, read_bytes and written_bytes."""
        by_name: dict[str, list[tuple[str, Row]]] = {}
        for part in self._step["parts"]:
            for each in _spreads(part):
                by_name.setdefault(each["name"], []).append((part["node"], each))
        return {name: _reach(spreads) for name, spreads in by_name.items()}

    @cached_property
    def gpu(self) -> str:
        """GPU memory and utilization as gres/gpumem and gres/gpuutil, as in later Slurm releases."""
        used, text = self._step["used"] or {}, ""
        if used.get("gpu_mem_peak_bytes") is not None:
            text += f",gres/gpumem={exact(int(used['gpu_mem_peak_bytes']) >> 20, 'M')}"
        if used.get("gpu_util_pct") is not None:
            text += f",gres/gpuutil={used['gpu_util_pct']:.0f}"
        return text


def _reach(spreads: list[tuple[str, Row]]) -> Reach:
    most_node, most = max(spreads, key=lambda pair: float(pair[1]["most"]))
    least_node, least = min(spreads, key=lambda pair: float(pair[1]["least"]))
    return Reach(
        sum(each["total"] for _, each in spreads),
        most["most"],
        most_node,
        most["most_rank"],
        least["least"],
        least_node,
        least["least_rank"],
    )


def _spreads(part: Row) -> list[dict[str, Any]]:
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


Column = Callable[[StepUsage], str]
Pick = Callable[[Reach, StepUsage], Any]


def _average(reach: Reach, use: StepUsage) -> float:
    return reach.total / use.tasks


PICKS: dict[str, Pick] = {
    "Ave": _average,
    "Max": lambda reach, use: reach.most,
    "MaxNode": lambda reach, use: reach.most_node,
    "MaxTask": lambda reach, use: reach.most_rank,
    "Min": lambda reach, use: reach.least,
    "MinNode": lambda reach, use: reach.least_node,
    "MinTask": lambda reach, use: reach.least_rank,
    "Tot": lambda reach, use: reach.total,
}
"""End of a column's name -> the value that the column shows."""
WITH_GPU = ("Ave", "Max", "Tot")
"""Values of TRESUsageIn... that include the GPUs."""


def _of(
    quantity: str, pick: Pick, form: Callable[[Any, str], str] = lambda value, unit: str(value)
) -> Column:
    """Return the column of a quantity, which is empty if the quantity was not measured."""

    def text(use: StepUsage) -> str:
        reach = use.reaches.get(quantity)
        return "" if reach is None else form(pick(reach, use), use.unit)

    return text


def _clock(seconds: float, unit: str) -> str:
    return clock(seconds)


def _tres(name: str, quantities: Mapping[str, str], *, with_gpu: bool = False) -> Column:
    """Return the column of the TRES with the names in `quantities`. GPUs follow if `with_gpu` is set."""
    pick, is_amount = PICKS[name], not name.endswith(("Node", "Task"))

    def text(use: StepUsage) -> str:
        known = {tres: use.reaches[each] for tres, each in quantities.items() if each in use.reaches}
        values = {tres: pick(reach, use) for tres, reach in known.items()}
        listed = (
            f"{tres}={_amount(tres, value, use.unit) if is_amount else value}"
            for tres, value in values.items()
        )
        return ",".join(listed) + (use.gpu if known and with_gpu else "")

    return text


def _amount(tres: str, value: float, unit: str) -> str:
    if tres == "cpu":
        return clock(value)
    return size(value, unit) if tres == "mem" else str(int(value))


def _moved(title: str, quantity: str) -> dict[str, Column]:
    """Return the columns of the bytes that the step read or wrote."""
    return {
        f"AveDisk{title}": _of(quantity, _average, disk),
        f"MaxDisk{title}": _of(quantity, PICKS["Max"], disk),
        f"MaxDisk{title}Node": _of(quantity, PICKS["MaxNode"]),
        f"MaxDisk{title}Task": _of(quantity, PICKS["MaxTask"]),
    }


USAGE: dict[str, Column] = {
    "AveCPU": _of("cpu_s", _average, _clock),
    "AveCPUFreq": _of("cpu_s", lambda reach, use: 0),
    "MinCPU": _of("cpu_s", PICKS["Min"], _clock),
    "MinCPUNode": _of("cpu_s", PICKS["MinNode"]),
    "MinCPUTask": _of("cpu_s", PICKS["MinTask"]),
    "AveRSS": _of("mem_bytes", _average, size),
    "MaxRSS": _of("mem_bytes", PICKS["Max"], size),
    "MaxRSSNode": _of("mem_bytes", PICKS["MaxNode"]),
    "MaxRSSTask": _of("mem_bytes", PICKS["MaxTask"]),
    **_moved("Read", "read_bytes"),
    **_moved("Write", "written_bytes"),
    **{f"TRESUsageIn{name}": _tres(name, CONSUMED, with_gpu=name in WITH_GPU) for name in PICKS},
    **{f"TRESUsageOut{name}": _tres(name, WRITTEN) for name in PICKS},
}
"""Column -> its text. Columns of quantities that were not measured are empty."""


def cpu_times(used: dict[str, Any] | None) -> tuple[float, float]:
    """Return the CPU time in seconds, and the part of it that the kernel used."""
    known = used or {}
    total_s = float(known.get("cpu_seconds", 0.0))
    return total_s, min(total_s, float(known.get("system_s", 0.0)))


def energy_j(used: dict[str, Any] | None) -> int | None:
    """Return the energy used by the GPUs in joules, or None if it was not measured."""
    known = (used or {}).get("energy_j")
    return None if known is None else int(known)
