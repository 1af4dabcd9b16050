"""The cells of the heat map, the rows of the node table, and the details under the cursor.

The details are those of a node or a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.node_rows import GpuRow, NodeRow, PastNodeRow
from warpdeck_tui.viewmodels.cells import TITLE_WIDTH, Cell, Line, fact, known, memory, plural
from warpdeck_tui.widgets.cell_grid import GridCell, GridLine, node_role
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.meter import bar, heat_step

METRICS = ("util", "memory", "power", "temp", "owner")
METRIC_WORDS = {
    "util": "utilization",
    "memory": "memory",
    "power": "power",
    "temp": "temperature",
    "owner": "owner",
}
FULL_POWER_W = 700.0
"""Top of the power scale, the limit of an H100 in watts."""
HOT_C = 90.0
"""Top of the temperature scale in °C, at which data-center GPUs begin to slow down."""
OUT = ("down", "connecting", "absent")
CLOSED = (*OUT, "drained", "draining")
MAX_JOBS_NAMED = 8
UNKNOWN_JOB = "?"
"""Label of the job on a GPU that is known to be allocated, but not to which job."""
ALLOCATED, THIS_JOB, FREE = ("alloc", 4), ("=this", 7), ("free", 0)
"""Text and heat step of a GPU without readings."""
NO_READINGS = "no readings"
UNMEASURED_LEGEND = "no readings   alloc: allocated   =this: to this job   ! unavailable"
UNMEASURED_OWNERS = "job on the GPU   · free   ? allocated to an unknown job"
OWNER_LEGEND = "job on the GPU   · free   other: process outside any job"


def gpu_lines(nodes: Sequence[NodeRow], metric: str, *, job: str = "") -> list[GridLine]:
    """Return the heat map: one line per node as ("name state", cells). The GPUs of `job` are highlighted."""
    return [
        (
            f"{node.name} {node.state}",
            tuple(gpu_cell(node.name, gpu, metric, out=_is_out(node), job=job) for gpu in node.gpus),
        )
        for node in nodes
    ]


def _is_out(node: NodeRow) -> bool:
    """Return whether nothing is known about the node's GPUs.

    For a past time at which the node was disconnected, its agent may have reported the values later.
    """
    return node.state in OUT and not (isinstance(node, PastNodeRow) and node.step_s)


def gpu_cell(node: str, gpu: GpuRow, metric: str, *, out: bool, job: str = "") -> GridCell:
    """Return the cell of a GPU: five characters, a heat step and a percentage.

    `*` marks a GPU that is allocated to a job, `=` a GPU of the job `job`, and `!` a GPU that cannot be used.
    """
    key = (node, gpu.index)
    if out or gpu.error:
        return key, "!", -1, None
    if metric == "owner":
        return (key, *_owner(gpu), None)
    is_this = gpu.job == job != UNKNOWN_JOB
    if is_unmeasured(gpu):
        text, step = FREE if not gpu.job else THIS_JOB if is_this else ALLOCATED
        return key, "!" if gpu.blocked else text, -1 if gpu.blocked else step, None
    value, most, unit = _reading(gpu, metric)
    if value is None:
        return key, "?", -1, None
    held = "=" if is_this else "*"
    mark = "!" if gpu.blocked else held if gpu.job else " "
    percent = 100 * value / most
    return key, f"{value:>3.0f}{unit}{mark}", heat_step(percent), percent


def is_unmeasured(gpu: GpuRow) -> bool:
    """Return whether nobody measures the GPU, so that only its allocation is known. Our agents always report a UUID."""
    is_described = gpu.uuid or gpu.mem_bytes
    return not is_described and gpu.util_pct is gpu.mem_used_bytes is gpu.power_w is gpu.temp_c is None


def all_unmeasured(nodes: Sequence[NodeRow]) -> bool:
    """Return whether there are GPUs, all without readings."""
    gpus = [gpu for node in nodes for gpu in node.gpus]
    return bool(gpus) and all(map(is_unmeasured, gpus))


def _owner(gpu: GpuRow) -> tuple[str, int]:
    """Return the label of the job and a color that differs from its neighbors.

    So fragmentation becomes visible.
    """
    if gpu.job:
        number = int("".join(char for char in gpu.job if char.isdigit()) or 0)
        return f"{gpu.job[:5]:^5}", 1 + number % 6
    return ("other", 7) if gpu.blocked else ("  ·  ", 0)


def _reading(gpu: GpuRow, metric: str) -> tuple[float | None, float, str]:
    """Return (value, top of its scale, unit)."""
    if metric == "memory":
        used = gpu.mem_used_bytes
        return None if used is None else 100 * used / max(1, gpu.mem_bytes), 100.0, "%"
    if metric == "power":
        return gpu.power_w, FULL_POWER_W, "W"
    if metric == "temp":
        return gpu.temp_c, HOT_C, "°"
    return gpu.util_pct, 100.0, "%"


def legend(metric: str, *, past: bool = False, unmeasured: bool = False) -> str:
    """Return the explanation of the symbols in the tiles, for now or for a past time.

    `unmeasured` is true if no GPU has readings.
    """
    if unmeasured:
        return UNMEASURED_OWNERS if metric == "owner" else UNMEASURED_LEGEND
    if metric == "owner":
        return (
            "job on the GPU at that time   · free   other: process outside any job" if past else OWNER_LEGEND
        )
    if past:
        return "at that time: * allocated  = this job  ! unavailable  ? unknown"
    return "* allocated  = this job  ! unavailable  ? unknown"


def summary(nodes: Sequence[NodeRow]) -> str:
    """Return a summary, such as "8 nodes (1 down), 59 of 64 GPUs allocated, 2 blocked"."""
    gpus = [gpu for node in nodes for gpu in node.gpus]
    held = sum(bool(gpu.job) for gpu in gpus)
    blocked = sum(bool(gpu.blocked) for gpu in gpus)
    down = sum(node.state == "down" for node in nodes)
    words = plural(len(nodes), "node") + (f" ({down} down)" if down else "")
    if gpus:
        words += f", {held} of {plural(len(gpus), 'GPU')} allocated"
    return words + (f", {blocked} blocked" if blocked else "")


def fragmentation(nodes: Sequence[NodeRow]) -> str:
    """Return the free GPUs available to a large job.

    An example is "free: 2 whole nodes, 5 GPUs on 3 others, at most 4 per node".
    """
    whole = 0
    parts: list[int] = []
    for node in nodes:
        free = sum(not (gpu.job or gpu.blocked or gpu.error) for gpu in node.gpus)
        if not free or node.state in CLOSED:
            continue
        if free == len(node.gpus):
            whole += 1
        else:
            parts.append(free)
    words = [plural(whole, "whole node")] if whole else []
    if parts:
        others = (
            f"{len(parts)} other{'' if len(parts) == 1 else 's'}" if whole else plural(len(parts), "node")
        )
        most = f", at most {max(parts)} per node" if len(parts) > 1 else ""
        words.append(f"{plural(sum(parts), 'GPU')} on {others}{most}")
    return f"free: {', '.join(words)}" if words else "no free GPUs"


def node_row(node: NodeRow) -> tuple[str, Line]:
    """Return (key, cells): name, state, CPUs, load, memory, GPUs, number of jobs, and the jobs or the
    reason.
    """
    held = sum(bool(gpu.job) for gpu in node.gpus)
    kind = node.gpus[0].type if node.gpus else ""
    used = 100 * (node.mem_used_bytes or 0) / max(1, node.mem_bytes)
    return (
        node.name,
        (
            Cell(node.name, "accent"),
            Cell(node.state, node_role(node.state)),
            Cell(f"{node.cpus_used}/{node.cpus}"),
            Cell(bar(node.cpu_pct, 6), "muted"),
            Cell(bar(None if node.mem_used_bytes is None else used, 6), "muted"),
            Cell(f"{held}/{len(node.gpus)} {kind}" if node.gpus else "none"),
            Cell(str(len(node.jobs))),
            Cell(printable(node.reason or ", ".join(node.jobs)), "muted"),
        ),
    )


def node_lines(node: NodeRow) -> list[Line]:
    """Return the details of a node."""
    title = (Cell(printable(node.name), "accent"), Cell(f"  {node.state}", node_role(node.state)))
    lines: list[Line] = [title]
    if node.reason:
        lines.append((Cell(printable(node.reason), "warn"),))
    lines += [
        fact("CPUs", f"{node.cpus_used}/{node.cpus} allocated, {known(node.cpu_pct, '%')} busy"),
        fact("memory", memory(node.mem_used_bytes, node.mem_bytes)),
    ]
    if node.jobs:
        more = len(node.jobs) - MAX_JOBS_NAMED
        lines.append(
            fact("jobs", ", ".join(node.jobs[:MAX_JOBS_NAMED]) + (f" and {more} more" if more > 0 else ""))
        )
    if node.features:
        lines.append(fact("features", printable(", ".join(node.features))))
    address = printable(node.target or node.address or node.hostname)
    lines.append(fact("address", address + (f", driver {node.driver}" if node.driver else "")))
    if not node.gpus:
        lines.append(fact("GPUs", printable(node.gpu_error) or "no NVIDIA GPUs"))
    return lines


def gpu_detail(node: NodeRow, index: int) -> list[Line]:
    """Return the details of the GPU under the cursor, with all its processes and their jobs."""
    gpu = next((each for each in node.gpus if each.index == index), None)
    if gpu is None:
        return []
    lines: list[Line] = [
        (Cell(f"GPU {index}", "accent"), Cell(f"  {printable(gpu.name)}", "muted")),
        *(_gauges(gpu) if not is_unmeasured(gpu) else [fact("readings", "none", "muted")]),
        gpu_holder(gpu),
        *sharer_lines(gpu),
    ]
    return lines + process_lines(gpu)


def _gauges(gpu: GpuRow) -> list[Line]:
    """Return the readings of a GPU."""
    used = None if gpu.mem_used_bytes is None else 100 * gpu.mem_used_bytes / max(1, gpu.mem_bytes)
    return [
        _gauge("util", gpu.util_pct, known(gpu.util_pct, "%")),
        _gauge("memory", used, memory(gpu.mem_used_bytes, gpu.mem_bytes)),
        fact("power", f"{known(gpu.power_w, ' W')} at {known(gpu.temp_c, ' °C')}"),
    ]


def gpu_holder(gpu: GpuRow) -> Line:
    """Return the job that holds the GPU, or why it cannot be used."""
    if gpu.error:
        return (Cell(printable(gpu.error), "warn"),)
    if gpu.blocked:
        return fact("blocked", printable(gpu.blocked), "warn")
    if gpu.job == UNKNOWN_JOB:
        return fact("job", "allocated to an unknown job", "muted")
    if gpu.job:
        of = f" of {printable(gpu.job_user)}" if gpu.job_user else ""
        return (*fact("job", gpu.job, "accent"), Cell(of))
    return fact("job", "free", "RUNNING")


def sharer_lines(gpu: GpuRow) -> list[Line]:
    """Return all jobs that share the GPU."""
    return [
        (
            *fact("" if at else "shared by", each.job, "accent"),
            Cell(f" of {printable(each.user)} ({each.share_pct} %)"),
        )
        for at, each in enumerate(gpu.sharers)
    ]


def process_lines(gpu: GpuRow) -> list[Line]:
    """Return every process on the GPU with its job."""
    lines: list[Line] = []
    for process in gpu.processes:
        lines.append(
            (
                Cell(f"{process.pid or '':>8} ", "muted"),
                Cell(f"{printable(process.command)[:16]:<16} {printable(process.user)[:8]:<8} "),
                Cell(f"{format_memory(process.mem_bytes):>6} "),
                Cell(f"job {process.job}", "accent") if process.job else Cell("no job", "warn"),
            )
        )
    return lines


def _gauge(title: str, percent: float | None, words: str) -> Line:
    return (Cell(f"{title:>{TITLE_WIDTH}} ", "muted"), Cell(bar(percent, 10), "accent"), Cell(f" {words}"))
