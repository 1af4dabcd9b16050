"""The charts of a node: a panel for its CPUs and memory, and one for each GPU, with axes and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.protocol.job_rows import CurveRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.viewmodels.cells import Cell, Line, known, memory
from warpdeck_tui.widgets.cells import fit, printable
from warpdeck_tui.widgets.plot import Curve, Frame, plot

from .gpu_map import GIB, UNKNOWN_JOB, is_wasted

UTIL, MEMORY = "accent", "SUSPENDED"
"""Styles of the two curves of a panel."""
AXIS_WIDTH = 5
PANEL_MIN_WIDTH = 42
PANEL_MIN_HEIGHT, PANEL_GOOD_HEIGHT = 3, 7
"""Least height of a panel, with two lines of a chart, and a height with which a chart is easy to read."""
PANEL_MAX_HEIGHT = 16
SMALL_HEIGHT = 3
"""Height of a chart below other text."""
GAP = 2
FULL = Frame(0.0, 1.0, 0.0, 100.0)
NO_CURVE = Curve()


class Panel(NamedTuple):
    """A chart with two curves of percentages. `key` is the GPU index, or None for the node."""

    key: int | None
    title: Line
    values: Line
    curves: tuple[Curve, Curve]


class NodeCurves:
    """The measurements of a node as curves. Drawn charts are kept, because most updates change only the values."""

    def __init__(self, curves: Sequence[CurveRow] = ()) -> None:
        self._curves = {curve.gpu: curve for curve in curves}
        self._made: dict[int | None, tuple[Curve, Curve]] = {}
        self._drawn: dict[tuple[int | None, int, int], list[Line]] = {}

    def __contains__(self, key: int | None) -> bool:
        return key in self._curves

    def of(self, key: int | None, most: tuple[float, float]) -> tuple[Curve, Curve]:
        """Return the curves of utilization and memory, in percent of their largest values."""
        if key not in self._made:
            curve = self._curves.get(key)
            names = ("cpu_pct", "mem_bytes") if key is None else ("gpu_util_pct", "gpu_mem_bytes")
            columns = [curve.columns.get(name, ()) if curve is not None else () for name in names]
            util, used = (_curve(points, top) for points, top in zip(columns, most, strict=True))
            self._made[key] = (util, used)
        return self._made[key]

    def chart(self, panel: Panel, width: int, height: int) -> list[Line]:
        """Return the lines of a chart with its axis."""
        key = (panel.key, width, height)
        if key not in self._drawn:
            self._drawn[key] = _chart(panel.curves, width, height)
        return self._drawn[key]


def _curve(points: Sequence[float | None], most: float) -> Curve:
    """Return the points as percentages between 0 and 1 on the axis of time."""
    count = max(1, len(points) - 1)
    return Curve(
        [at / count for at in range(len(points))],
        [
            math.nan if point is None else min(100.0, max(0.0, 100 * point / max(1.0, most)))
            for point in points
        ],
    )


def node_panel(node: NodeRow, curves: NodeCurves) -> Panel:
    """Return the panel of the CPUs and the memory."""
    values = (
        Cell("━", UTIL),
        Cell(f" CPU {known(node.cpu_pct, '%')}  "),
        Cell("━", MEMORY),
        Cell(f" memory {memory(node.mem_used_bytes, node.mem_bytes)}"),
    )
    return Panel(
        None,
        (Cell("CPUs", "header"), Cell(f"  {node.cpus_used}/{node.cpus} allocated", "muted")),
        values,
        curves.of(None, (100.0 * max(1, node.cpus), float(node.mem_bytes))),
    )


def node_panels(node: NodeRow, curves: NodeCurves) -> list[Panel]:
    """Return the panels of a node and of its GPUs. Over Slurm, some GPUs are not measured. They have no panel."""
    measured = [gpu for gpu in node.gpus if gpu.util_pct is not None or gpu.index in curves]
    return [node_panel(node, curves), *(gpu_panel(gpu, curves) for gpu in measured)]


def gpu_panel(gpu: GpuRow, curves: NodeCurves) -> Panel:
    """Return the panel of a GPU, with its owner."""
    wasted = is_wasted(gpu)
    idle = Cell("  idle", "warn") if wasted else Cell("")
    used = "?" if gpu.mem_used_bytes is None else f"{gpu.mem_used_bytes / GIB:.0f}"
    values = (
        Cell("━", UTIL),
        Cell(f" util {known(gpu.util_pct, '%')}", "warn" if wasted else ""),
        Cell("  "),
        Cell("━", MEMORY),
        Cell(f" {used}/{gpu.mem_bytes / GIB:.0f}G"),
        Cell(f"  {known(gpu.power_w, 'W')} {known(gpu.temp_c, '°C')}", "muted"),
    )
    title = (Cell(f"GPU {gpu.index}", "header"), Cell("  "), *holder(gpu), idle)
    return Panel(gpu.index, title, values, curves.of(gpu.index, (100.0, float(gpu.mem_bytes))))


def holder(gpu: GpuRow) -> Line:
    """Return the job and the owner of a GPU in a few words."""
    if gpu.error or gpu.blocked:
        return (Cell(printable(gpu.error or gpu.blocked), "warn"),)
    if not gpu.job:
        return (Cell("free", "RUNNING"),)
    if gpu.job == UNKNOWN_JOB:
        return (Cell("unknown job", "muted"),)
    return (Cell(gpu.job, "accent"), Cell(f" {printable(gpu.job_user)}"))


def charts(panels: Sequence[Panel], curves: NodeCurves, *, span: str, width: int, height: int) -> list[Line]:
    """Return all panels beside and below each other, as tall as the space allows, and the axis of time below them."""
    if not panels:
        return []
    columns = max(1, min(len(panels), (width + GAP) // (PANEL_MIN_WIDTH + GAP)))
    # Wide panels show more points, but only as long as they are tall enough.
    for fewer in range(1, columns + 1):
        if -(-len(panels) // fewer) * PANEL_GOOD_HEIGHT <= height - 1:
            columns = fewer
            break
    rows = -(-len(panels) // columns)
    panel_width = (width + GAP) // columns - GAP
    least, extra = divmod(height - 1, rows)
    lines: list[Line] = []
    for row, first in enumerate(range(0, len(panels), columns)):
        tall = max(PANEL_MIN_HEIGHT, min(PANEL_MAX_HEIGHT, least + (row < extra)))
        beside = [panel_lines(panel, curves, panel_width, tall) for panel in panels[first : first + columns]]
        for parts in zip(*beside, strict=True):
            line: list[Cell] = []
            for part in parts:
                line += [*part, Cell(" " * GAP)]
            lines.append(tuple(line[:-1]))
    axis: list[Cell] = []
    for _ in range(columns):
        axis += [*time_axis(span, panel_width), Cell(" " * GAP)]
    return [*lines, tuple(axis[:-1])]


def panel_lines(panel: Panel, curves: NodeCurves, width: int, height: int) -> list[Line]:
    """Return the lines of a panel, each exactly `width` wide. The last line of a tall panel is empty."""
    rows = height - 1 - (height >= PANEL_GOOD_HEIGHT)
    lines = [_title(panel, width), *curves.chart(panel, width, rows)]
    return lines + [(Cell(" " * width),)] * (height - len(lines))


def _title(panel: Panel, width: int) -> Line:
    """Return the title at the left and the values at the right. A long title is cut."""
    values = sum(len(cell.text) for cell in panel.values)
    if values >= width:
        return (Cell(fit("".join(cell.text for cell in panel.title), width), "header"),)
    room, line = width - values - 1, list[Cell]()
    for cell in panel.title:
        text = cell.text if len(cell.text) <= room else fit(cell.text, room)
        room -= len(text)
        line.append(Cell(text, cell.style))
    return (*line, Cell(" " * (room + 1)), *panel.values)


def _chart(curves: tuple[Curve, Curve], width: int, rows: int) -> list[Line]:
    """Return the chart with the labels of its axis."""
    room = max(2, width - AXIS_WIDTH)
    drawn = plot(curves, FULL, width=room, height=rows)
    lines: list[Line] = []
    for number, row in enumerate(drawn):
        label = "100%" if number == 0 else "0%" if number == rows - 1 else ""
        if rows >= 5 and number == rows // 2:
            label = "50%" if rows % 2 else ""
        cells = [Cell(text, "" if curve < 0 else (UTIL, MEMORY)[curve]) for text, curve in row.pieces()]
        lines.append((Cell(f"{label:>4}", "muted"), Cell("┤" if label else "│", "track"), *cells))
    return lines


def time_axis(span: str, width: int) -> Line:
    """Return the axis below the charts: the begin at the left, now at the right."""
    begin = f"{span} ago"
    room = max(0, width - AXIS_WIDTH - len(begin) - 3)
    return (Cell(fit(f"{' ' * AXIS_WIDTH}{begin}{' ' * room}now", width), "muted"),)
