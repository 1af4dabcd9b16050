"""The "GPUs" pane of a job's page: each GPU now, and the usage over the time of the job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import CurveRow, GpuUse, JobDetail, JobRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck.protocol.usage_text import origin
from warpdeck_tui.viewmodels.cells import Cell, Line, known, plural, thin_bar
from warpdeck_tui.viewmodels.nodes.node_page import resampled
from warpdeck_tui.widgets.cells import fit, printable
from warpdeck_tui.widgets.glyphs import UNKNOWN
from warpdeck_tui.widgets.meter import sparkline
from warpdeck_tui.widgets.plot import Curve, Frame, plot

NAME_WIDTH = 10
BAR_NARROW, BAR_WIDE = 8, 16
WIDE_FROM = 110
SPARK_MIN, SPARK_MAX = 12, 90
PLOT_ROWS = 5
AXIS_WIDTH = 12
STYLES_OF_UNITS = {"%": "RUNNING", "B": "SUSPENDED", "W": "PENDING", "°C": "PENDING"}
COLUMNS = (
    ("GPU use", "gpu_util_pct", "%"),
    ("GPU memory", "gpu_mem_bytes", "B"),
    ("power", "gpu_power_w", "W"),
    ("temperature", "gpu_temp_c", "°C"),
    ("CPU use", "cpu_pct", "%"),
    ("memory", "mem_bytes", "B"),
)
"""Curves of a job: title, name in the curve, and unit. The percentage of the CPUs may exceed 100."""
Points = Sequence[float | None]


class Sources(NamedTuple):
    """Data besides the details: the nodes with their readings, and the curves of the job's nodes.

    `told` says why there are no curves.
    """

    nodes: Mapping[str, NodeRow]
    curves: Sequence[CurveRow] = ()
    gpus: Mapping[tuple[str, int], Points] = {}
    """The utilization of each GPU during the job, by node and index."""
    told: str = ""


def gpu_page(detail: JobDetail, sources: Sources, *, width: int) -> list[Line]:
    """Return the lines of the pane."""
    row = detail.row
    if not detail.gpus:
        lines: list[Line] = [(Cell(no_gpus(row), "muted"),)]
    else:
        lines = _gpus(detail, sources, width)
    if sources.curves:
        lines += [(), *_over_time(detail, sources.curves, width)]
    elif sources.told and row.start is not None:
        lines += [(), (Cell(sources.told, "muted"),)]
    return lines


def no_gpus(row: JobRow) -> str:
    """Return why no GPUs are listed. Slurm does not tell which GPUs a job of another user has."""
    if not row.gpus:
        return "This job has no GPUs"
    if row.state == "PENDING":
        return "No GPU allocated yet"
    return f"{plural(row.gpus, 'GPU')} allocated; which ones is unknown"


def no_readings(detail: JobDetail) -> str:
    """Return the text in place of the readings of a GPU."""
    if detail.row.end is not None:
        return "not measured after the end"
    wait_s = detail.first_reading_in_s
    return "no readings" if wait_s is None else f"first reading in about {wait_s} s"


def has_reading(gpu: GpuUse) -> bool:
    return gpu.util_pct is not None or gpu.mem_used_bytes is not None


def _gpus(detail: JobDetail, sources: Sources, width: int) -> list[Line]:
    if not any(map(has_reading, detail.gpus)):
        return [*_title(detail), *_names(detail)]
    wide = width >= WIDE_FROM
    bar = BAR_WIDE if wide else BAR_NARROW
    spark = max(0, min(SPARK_MAX, width - NAME_WIDTH - 2 * bar - 42))
    spark = spark if spark >= SPARK_MIN else 0
    head = (
        f"{'GPU':<{NAME_WIDTH}} {'UTILIZATION':<{bar + 5}}  {'MEMORY':<{bar + 8}}  "
        f"{'POWER':>6}  {'TEMP':>5}  {'OVER THE TIME OF THE JOB'[:spark]}"
    )
    lines = [*_title(detail), (Cell(head, "header"),)]
    for gpu in detail.gpus:
        lines.append(_gpu(gpu, detail, sources, (bar, spark)))
        lines += _processes(gpu, _reading(gpu, sources), detail.row)
    return lines


def _reading(gpu: GpuUse, sources: Sources) -> GpuRow | None:
    node = sources.nodes.get(gpu.node)
    return next((each for each in node.gpus if each.index == gpu.index), None) if node else None


def _title(detail: JobDetail) -> list[Line]:
    used = [gpu.util_pct for gpu in detail.gpus if gpu.util_pct is not None]
    mean = f", {sum(used) / len(used):.0f}% busy now" if used else ""
    kind = f" {detail.row.gpu_type}" if detail.row.gpu_type else ""
    nodes = len({gpu.node for gpu in detail.gpus})
    return [(Cell(f"{plural(len(detail.gpus), 'GPU')}{kind} on {plural(nodes, 'node')}{mean}", "title"),)]


def _names(detail: JobDetail) -> list[Line]:
    """Return the GPUs without readings: of an ended job, or those that nobody measures."""
    words = no_readings(detail)
    return [
        (Cell(fit(gpu.name, NAME_WIDTH) + " ", "accent"), Cell(gpu.uuid or words, "muted"))
        for gpu in detail.gpus
    ]


def _gpu(gpu: GpuUse, detail: JobDetail, sources: Sources, widths: tuple[int, int]) -> Line:
    bar, spark = widths
    reading = _reading(gpu, sources)
    if not has_reading(gpu):
        return (Cell(fit(gpu.name, NAME_WIDTH) + " ", "accent"), Cell(no_readings(detail), "muted"))
    used = None
    if gpu.mem_used_bytes is not None and gpu.mem_bytes:
        used = 100 * gpu.mem_used_bytes / gpu.mem_bytes
    points = sources.gpus.get((gpu.node, gpu.index), ())
    drawn = sparkline(resampled(points, spark), spark).lstrip().replace(UNKNOWN, " ") if spark else ""
    return (
        Cell(fit(gpu.name, NAME_WIDTH) + " ", "accent"),
        *thin_bar(gpu.util_pct, bar),
        Cell(f"{known(gpu.util_pct, '%'):>5}  "),
        *thin_bar(used, bar, "SUSPENDED"),
        Cell(f"{held(gpu):>8}  "),
        Cell(f"{known(reading.power_w, 'W') if reading else '?':>6}  "),
        Cell(f"{known(reading.temp_c, '°C') if reading else '?':>5}  "),
        Cell(drawn, "RUNNING"),
        Cell(origin(gpu.source), "muted"),
    )


def held(gpu: GpuUse) -> str:
    """Return the memory that is in use and all of it, such as "58/80G"."""
    if gpu.mem_used_bytes is None:
        return "?"
    has, of = format_memory(gpu.mem_used_bytes), format_memory(gpu.mem_bytes)
    if not gpu.mem_bytes:
        return has
    return f"{has.removesuffix('G') if of.endswith('G') else has}/{of}"


def _processes(gpu: GpuUse, reading: GpuRow | None, row: JobRow) -> list[Line]:
    if reading is None:
        return []
    return [
        (
            Cell(" " * NAME_WIDTH + f" {process.pid or '':>8} ", "muted"),
            Cell(f"{printable(process.user)[:12]:<12} ", "muted"),
            Cell(f"{format_memory(process.mem_bytes):>6}  ", "muted"),
            Cell(printable(process.command)),
            Cell("" if process.job == row.label else "   not of this job", "warn"),
        )
        for process in reading.processes
    ]


def _over_time(detail: JobDetail, curves: Sequence[CurveRow], width: int) -> list[Line]:
    """Return the curves of each node with their last value, mean and maximum."""
    last = "last" if detail.row.end is not None else "now"
    lines: list[Line] = []
    for each in curves:
        if each.gpu is None:
            title = f"Over the time of the job{f' on {each.node}' if each.node else ''}"
            lines += [()] * bool(lines)
            lines.append((Cell(title, "title"),))
            room = sum(gpu.mem_bytes for gpu in detail.gpus if gpu.node == each.node)
            tops = {"gpu_util_pct": 100.0, "gpu_mem_bytes": float(room)}
            for column in COLUMNS:
                lines += _curve(column, each, tops.get(column[1], 0.0), (width - AXIS_WIDTH - 1, last))
    return lines


def _curve(column: tuple[str, str, str], curve: CurveRow, top: float, look: tuple[int, str]) -> list[Line]:
    """Return the figures and the plot of one column, or no lines if it has no values.

    `top` is the value at the upper end, or 0 for the largest one. `look` is the width of the plot, and the word for
    the last value.
    """
    (title, name, unit), (room, last) = column, look
    points = curve.columns.get(name, ())
    numbers = [point for point in points if point is not None]
    if len(numbers) < 2 or (not any(numbers) and not name.startswith("gpu")) or room < SPARK_MIN:
        return []
    mean, most = sum(numbers) / len(numbers), max(numbers)
    figures = (
        f"{last} {_figure(numbers[-1], unit):>6}",
        f"mean {_figure(mean, unit):>6}",
        f"max {_figure(most, unit):>6}",
    )
    top = top or most or 1.0
    ys = [math.nan if point is None else min(point, top) for point in points]
    frame = Frame(0.0, max(1.0, len(points) - 1.0), 0.0, top)
    drawn = plot([Curve(range(len(points)), ys)], frame, width=room, height=PLOT_ROWS)
    labels = {0: _figure(top, unit), PLOT_ROWS - 1: "0"}
    style = STYLES_OF_UNITS[unit]
    return [
        (Cell(f"{title:<{AXIS_WIDTH + 1}}", "accent"), Cell("   ".join(figures))),
        *(
            (Cell(f"{labels.get(at, ''):>{AXIS_WIDTH}} ", "muted"), Cell(row.text, style))
            for at, row in enumerate(drawn)
        ),
    ]


def _figure(number: float, unit: str) -> str:
    return (format_memory(round(number)) or "0") if unit == "B" else f"{number:.0f}{unit}"


def during(curve: CurveRow, *, begin: float, end: float) -> list[float | None]:
    """Return the points of a GPU's utilization from `begin` to `end` (unix times)."""
    points = curve.columns.get("gpu_util_pct", ())
    return [
        point for number, point in enumerate(points) if begin <= curve.begin + number * curve.step_s <= end
    ]
