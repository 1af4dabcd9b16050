"""The cells of the map: GPUs, and for nodes without GPUs their CPUs and memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from warpdeck.protocol.node_rows import GpuRow, NodeRow, PastNodeRow
from warpdeck_tui.viewmodels.cells import plural
from warpdeck_tui.viewmodels.jobs.queue import IDLE_BELOW_PCT
from warpdeck_tui.widgets.cell_grid import GridLine, Words
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.meter import heat_step
from warpdeck_tui.widgets.tile import IDLE, OWNER, GridCell

from .gpu_history import STEP_S, GpuHistory, Points

METRICS = ("util", "memory", "owner", "job", "temp", "power")
"""Values that can decide the color of a cell, in the order in which the key shows them."""
METRIC_WORDS = {
    "util": "utilization",
    "memory": "memory",
    "owner": "owner",
    "job": "job",
    "temp": "temperature",
    "power": "power",
}
NAMED = ("owner", "job")
"""Metrics that are names. Each name has its own color."""
FULL_POWER_W = 700.0
"""Top of the power scale, the limit of an H100 in watts."""
HOT_C = 90.0
"""Top of the temperature scale in °C, at which data-center GPUs begin to slow down."""
OUT = ("down", "connecting", "absent")
CLOSED = (*OUT, "drained", "draining")
UNKNOWN_JOB = "?"
"""Label of the job on a GPU that is known to be allocated, but not to which job."""
ALLOCATED, THIS_JOB, FREE = ("alloc", 4), ("=this", 7), ("free", 0)
"""Text and heat step of a GPU without readings."""
NO_READINGS = "no readings"
UNMEASURED_LEGEND = "no readings   alloc: allocated   =this: to this job   ! drained or unhealthy"
UNMEASURED_OWNERS = "· free   ? unknown"
MARKS = "* allocated  = this job  ~ allocated but idle  ! drained or unhealthy  ? unknown"
TALL_MARKS = "= this job  ! drained or unhealthy  ? unknown"
NAME_MARKS = "· free  other: process outside any job"
MAX_NAMES = 12
"""Largest number of owners or jobs in the legend."""
MINUTE = round(60 / STEP_S)
"""Number of points of a minute."""
GIB = 1 << 30
CPUS, MEMORY = -1, -2
"""Indices of the cells of a node without GPUs."""


class MapContext(NamedTuple):
    """All that the cells show beside the readings.

    `job` is the job under the cursor. `colors` has the number of the color of each owner or job. `starting` has the
    labels of the jobs that began a moment ago, so that their idle GPUs are normal.
    """

    job: str = ""
    colors: Mapping[str, int] = {}
    starting: Set[str] = frozenset()
    history: GpuHistory | None = None


def gpu_lines(nodes: Sequence[NodeRow], metric: str, *, context: MapContext | None = None) -> list[GridLine]:
    """Return the map: a line for each node, with a cell for each GPU, or cells for the CPUs and the memory."""
    known = context or MapContext()
    return [
        GridLine(
            f"{node.name} {node.state}",
            _gpu_cells(node, metric, known) if node.gpus else cpu_cells(node, metric),
            node_notes(node),
        )
        for node in nodes
    ]


def _gpu_cells(node: NodeRow, metric: str, context: MapContext) -> tuple[GridCell, ...]:
    nothing_known = is_out(node)
    cells = tuple(gpu_cell(node.name, gpu, metric, out=nothing_known, context=context) for gpu in node.gpus)
    if nothing_known or node.state not in CLOSED:
        return cells
    # A GPU of a drained node is not free, although no job holds it.
    return tuple(
        cell
        if gpu.job or gpu.blocked or gpu.error
        else cell._replace(title=node.state, role="muted", text=f"{cell.text.rstrip()}!")
        for gpu, cell in zip(node.gpus, cells, strict=True)
    )


def is_out(node: NodeRow) -> bool:
    """Return whether nothing is known about the node's GPUs.

    For a past time at which the node was disconnected, its agent may have reported the values later.
    """
    return node.state in OUT and not (isinstance(node, PastNodeRow) and node.step_s)


def gpu_cell(node: str, gpu: GpuRow, metric: str, *, out: bool, context: MapContext) -> GridCell:
    """Return the cell of a GPU.

    After the value, `*` marks a GPU that is allocated to a job, `=` a GPU of the job under the cursor, `~` an
    allocated GPU that is idle, and `!` a GPU that cannot be used.
    """
    key = (node, gpu.index)
    if out or gpu.error:
        return GridCell(key, "!", -1, title="unknown" if out else "fault")
    title = _title(gpu)
    shown = "util" if metric in NAMED else metric
    value, most, unit = _reading(gpu, shown)
    percent = None if value is None else 100 * value / most
    is_this, idle = _is_this(gpu, context), is_wasted(gpu, context.starting)
    if is_unmeasured(gpu):
        text, level = FREE if not gpu.job else THIS_JOB if is_this else ALLOCATED
        cell = GridCell(key, "!" if gpu.blocked else text, -1 if gpu.blocked else level, title=title)
    elif value is None:
        cell = GridCell(key, "?", -1, title=title)
    else:
        mark = "!" if gpu.blocked else "~" if idle else "=" if is_this else "*" if gpu.job else " "
        number = f"{value:.0f}{unit}" + (" idle" if idle else mark if mark in "!=" else "")
        points = context.history.points(node, gpu.index) if context.history is not None else ()
        cell = GridCell(
            key, f"{value:>3.0f}{unit}{mark}", _level(percent, points, shown), percent, title, number=number
        )._replace(points=points, **_beside(gpu, metric))
    if metric in NAMED:
        return _named(cell, gpu, metric, context)
    return cell._replace(role=IDLE) if idle else cell


def _title(gpu: GpuRow) -> str:
    if gpu.job:
        return f"{gpu.job} {gpu.job_user}".rstrip()
    return "other" if gpu.blocked else "free"


def _is_this(gpu: GpuRow, context: MapContext) -> bool:
    return bool(gpu.job) and gpu.job == context.job != UNKNOWN_JOB


def _level(percent: float | None, points: Points, shown: str) -> int:
    """Return the step of the heat ramp. With a sparkline it is that of the last minute, so that colors do not flicker."""
    last = [point for point in points[-MINUTE:] if point is not None]
    return heat_step(sum(last) / len(last) if last and shown == "util" else percent)


def _beside(gpu: GpuRow, metric: str) -> dict[str, Any]:
    """Return the parts of a tall cell below its number: temperature, and memory or utilization."""
    used = gpu.mem_used_bytes
    more, percent = "", None
    if used is not None:
        more, percent = f"{used / GIB:.0f}/{gpu.mem_bytes / GIB:.0f}G", 100 * used / max(1, gpu.mem_bytes)
    if metric == "memory":
        more, percent = ("", None) if gpu.util_pct is None else (f"{gpu.util_pct}%", float(gpu.util_pct))
    return {
        "aside": "" if gpu.temp_c is None else f"{gpu.temp_c}°C",
        "more": more,
        "more_percent": percent,
    }


def _named(cell: GridCell, gpu: GpuRow, metric: str, context: MapContext) -> GridCell:
    """Return the cell in the color of its owner or job."""
    name = named_by(gpu, metric)
    if name:
        text = f"{printable(name)[:5]:^5}" if metric == "job" else printable(name)[:5]
        return cell._replace(text=text, level=0, role=f"{OWNER}{context.colors.get(name, 0)}")
    text, role = ("other", "warn") if gpu.blocked else ("  ·  ", "muted")
    return cell._replace(text=text, level=-1, role=role)


def named_by(gpu: GpuRow, metric: str) -> str:
    """Return the owner or the job that colors the GPU, or "" if there is none."""
    if not gpu.job:
        return ""
    return gpu.job if metric == "job" else gpu.job_user or UNKNOWN_JOB


def is_wasted(gpu: GpuRow, starting: Set[str] = frozenset()) -> bool:
    """Return whether the GPU is allocated but not used, except by a job that has just started."""
    idle = gpu.util_pct is not None and gpu.util_pct < IDLE_BELOW_PCT
    return idle and bool(gpu.job) and not gpu.blocked and gpu.job not in starting


def cpu_cells(node: NodeRow, metric: str) -> tuple[GridCell, ...]:
    """Return the cells of a node without GPUs: its CPUs and its memory."""
    if not node.cpus:
        return ()
    cpu_key, memory_key = (node.name, CPUS), (node.name, MEMORY)
    if is_out(node):
        return (
            GridCell(cpu_key, "!", -1, title=f"{plural(node.cpus, 'CPU')}", wide=True),
            GridCell(memory_key, "!", -1, title="memory", wide=True),
        )
    busy = node.cpu_pct if node.cpu_pct is not None else 100 * node.cpus_used / node.cpus
    word = "busy" if node.cpu_pct is not None else "allocated"
    used = node.mem_used_bytes if node.mem_used_bytes is not None else node.mem_alloc_bytes
    full = 100 * used / max(1, node.mem_bytes)
    role = "muted" if metric in NAMED else ""
    return (
        GridCell(
            cpu_key,
            f"{busy:.0f}%",
            heat_step(busy),
            busy,
            f"CPUs {node.cpus_used}/{node.cpus} allocated",
            role,
            number=f"{busy:.0f}% {word}",
            wide=True,
        ),
        GridCell(
            memory_key,
            f"{full:.0f}%",
            heat_step(full),
            full,
            f"memory {used / GIB:.0f}/{node.mem_bytes / GIB:.0f}G",
            role,
            number=f"{full:.0f}%",
            wide=True,
        ),
    )


def node_notes(node: NodeRow) -> tuple[str, ...]:
    """Return the texts below the state of a node."""
    if is_out(node):
        return ()
    used = node.mem_used_bytes
    cpu = "" if node.cpu_pct is None else f"CPU {node.cpu_pct:.0f}%"
    memory = "" if used is None else f"mem {100 * used / max(1, node.mem_bytes):.0f}%"
    jobs = plural(len(node.jobs), "job") if node.jobs else "no jobs"
    return (jobs, cpu, memory) if node.gpus else (jobs,)


def is_unmeasured(gpu: GpuRow) -> bool:
    """Return whether nobody measures the GPU, so that only its allocation is known. Our agents always report a UUID."""
    is_described = gpu.uuid or gpu.mem_bytes
    return not is_described and gpu.util_pct is gpu.mem_used_bytes is gpu.power_w is gpu.temp_c is None


def all_unmeasured(nodes: Sequence[NodeRow]) -> bool:
    """Return whether there are GPUs, all without readings."""
    gpus = [gpu for node in nodes for gpu in node.gpus]
    return bool(gpus) and all(map(is_unmeasured, gpus))


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


def legend(
    metric: str, *, past: bool = False, unmeasured: bool = False, tall: bool = False, gpus: bool = True
) -> str:
    """Return the explanation of the marks in the cells, for now or for a past time.

    `unmeasured` is true if no GPU has readings, `tall` if cells have several lines, and `gpus` if there are GPUs.
    """
    if not gpus:
        return "CPUs and memory of each node; no node has GPUs"
    if unmeasured:
        return UNMEASURED_OWNERS if metric in NAMED else UNMEASURED_LEGEND
    marks = NAME_MARKS if metric in NAMED else TALL_MARKS if tall else MARKS
    return f"at that time: {marks}" if past else marks


def legend_words(
    nodes: Sequence[NodeRow],
    metric: str,
    colors: Mapping[str, int],
    *,
    past: bool = False,
    tall: bool = False,
) -> Words:
    """Return the legend: owners or jobs with their colors and numbers of GPUs, or idle GPUs, then the marks."""
    gpus = [gpu for node in nodes for gpu in node.gpus]
    unmeasured = all_unmeasured(nodes)
    marks = legend(metric, past=past, unmeasured=unmeasured, tall=tall, gpus=bool(gpus))
    if metric in NAMED:
        held = Counter(name for gpu in gpus if (name := named_by(gpu, metric)))
        words: list[tuple[str, str]] = []
        for name, count in held.most_common(MAX_NAMES):
            words += [(f" {printable(name)} ", f"{OWNER}{colors.get(name, 0)}"), (f" {count}  ", "muted")]
        others = len(held) - MAX_NAMES
        return (*words, *([(f"and {others} more  ", "muted")] if others > 0 else []), (marks, "muted"))
    if tall and not unmeasured and gpus:
        return ((" 2% idle ", IDLE), (" allocated but idle  ", "muted"), (marks, "muted"))
    return ((marks, "muted"),)


def wasted_words(nodes: Sequence[NodeRow], starting: Set[str] = frozenset()) -> str:
    """Return the number of allocated but idle GPUs with their owners, or "" if there are none."""
    owners = Counter(gpu.job_user for node in nodes for gpu in node.gpus if is_wasted(gpu, starting))
    if not owners:
        return ""
    named = [printable(user) for user, _ in owners.most_common(3) if user]
    more = len(owners) - len(named)
    names = ", ".join(named) + (f" and {more} more" if more > 0 and named else "")
    return f"{sum(owners.values())} idle" + (f": {names}" if names else "")
