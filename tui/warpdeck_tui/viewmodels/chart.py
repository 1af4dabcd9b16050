"""A job's metrics page: one curve of what it prints, other runs over it, and its GPUs' use and power on the same time axis.

Runs begin together: time counts from each one's start. By step the curves of runs of different speed lie over each other;
GPUs have no steps, so they are shown by time only. Letters tell the runs apart where colours do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from warpdeck.api.rows import CurveRow, JobRow
from warpdeck_tui.widgets.cells import fit, printable
from warpdeck_tui.widgets.glyphs import UNKNOWN
from warpdeck_tui.widgets.meter import sparkline
from warpdeck_tui.widgets.plot import Dot, Frame, frame_of, means, plot

from .cells import Cell, Line, age, plural
from .readings import Point, Readings

MAX_RUNS = 4
"""More curves over each other are not told apart."""
STYLES = ("accent", "PENDING", "SUSPENDED", "RUNNING")
LETTERS = "abcd"
LETTERS_APART = 3
"""Characters between the letters of curves that end together."""
MARGIN = 10
"""Columns for the numbers at the left."""
LEAST_ROWS = 3
TICKS_APART = 16
Points = Sequence[tuple[float, float]]


class Run(NamedTuple):
    """What is known of a run: `readings` as its log has them, `use` (percent) and `power` (watts) by seconds since its start."""

    key: str
    label: str
    title: str
    readings: Readings
    use: Points = ()
    power: Points = ()


def run_of(row: JobRow, readings: Readings, curves: Sequence[CurveRow]) -> Run:
    """The run of a job: the utilisation is the mean over its nodes, the power their sum."""
    use, _ = _measured(curves, "gpu_util_pct", begin=row.start or 0.0)
    power, nodes = _measured(curves, "gpu_power_w", begin=row.start or 0.0)
    total = [(at, nodes * watts) for at, watts in power]
    return Run(str(row.id), row.label, printable(row.name), readings, use, total)


def _measured(curves: Sequence[CurveRow], column: str, *, begin: float) -> tuple[Points, int]:
    """(seconds since `begin`, value) in order, and of how many nodes."""
    nodes, points = 0, []
    for curve in curves:
        known = [
            (curve.begin + number * curve.step_s - begin, value)
            for number, value in enumerate(curve.columns.get(column, ()))
            if value is not None
        ]
        nodes += bool(known)
        points += known
    return sorted(points), nodes


def names(runs: Sequence[Run]) -> list[str]:
    """What can be shown, the first run's before the others'."""
    return list(dict.fromkeys(name for run in runs for name in run.readings))


class Page(NamedTuple):
    """What is looked at. `name`: one of `names`. `told`: the trouble, or that it is being read."""

    runs: tuple[Run, ...]
    name: str = ""
    by_step: bool = False
    told: str = ""


def chart(page: Page, *, width: int, height: int) -> list[Line]:
    """The page's lines, `height` at most."""
    if not page.runs:
        return [(Cell(page.told, "muted"),)]
    curves = [_curve(run.readings.get(page.name, ()), by_step=page.by_step) for run in page.runs]
    frame = frame_of(curves)
    room = max(LEAST_ROWS, width - MARGIN - 1)
    lines: list[Line] = [_title(page, curves)]
    legend = _legend(page, curves) if len(page.runs) > 1 else []
    measured = () if page.by_step else (page.runs[0].use, page.runs[0].power)
    frame = frame or (frame_of(measured) if any(measured) else None)
    if frame is None:
        return [*lines, *legend]
    if not page.by_step:
        frame = _whole(frame, page)
    gpus = [] if page.by_step else _gpus(page.runs[0], frame, room)
    rows = max(LEAST_ROWS, height - len(lines) - len(legend) - len(gpus) - 1)
    if any(curves):
        lines += _plotted(curves, frame, (room, rows))
    return [*lines, *gpus, _axis(frame, room, by_step=page.by_step), *legend][:height]


def _whole(frame: Frame, page: Page) -> Frame:
    """From the runs' start on, so that the GPUs' idle minutes before the first number are seen."""
    ends = [points[-1][0] for run in page.runs[:1] for points in (run.use, run.power) if points]
    return frame._replace(left=0.0, right=max([frame.right, *ends]))


def _curve(points: Sequence[Point], *, by_step: bool) -> list[tuple[float, float]]:
    if not by_step:
        return [(point.at_s, point.value) for point in points]
    stepped = sorted((point.step, point.value) for point in points if point.step is not None)
    return [(step, list(same)[-1][1]) for step, same in groupby(stepped, key=lambda each: each[0])]


def _title(page: Page, curves: Sequence[Points]) -> Line:
    """The number now, its least and most, and which of how many it is."""
    if not page.name:
        words = page.told or 'it prints no numbers that make a curve (loss=0.41, {"loss": 0.41})'
        return (Cell(f" {words}", "muted"),)
    known = [value for _, value in curves[0] if math.isfinite(value)]
    every = names(page.runs)
    place = f"{every.index(page.name) + 1} of {len(every)}" if len(every) > 1 else ""
    cells = [Cell(f" {printable(page.name)} ", "accent")]
    if known:
        cells.append(Cell(f" {figure(known[-1])}"))
        cells.append(Cell(f"   least {figure(min(known))}   most {figure(max(known))}", "muted"))
    elif page.by_step:
        cells.append(Cell(" its lines tell no step; x shows it by time", "muted"))
    lost = len(curves[0]) - len(known)
    if lost:
        at = next(x for x, value in curves[0] if not math.isfinite(value))
        where = f"step {at:.0f}" if page.by_step else f"after {age(at)}"
        cells.append(Cell(f"   ⚠ {plural(lost, 'nan')}, the first {where}", "warn"))
    cells.append(Cell(f"   {place}" if place else "", "muted"))
    cells.append(Cell(f"   {page.told}" if page.told else "", "muted"))
    return tuple(cells)


def figure(value: float) -> str:
    """A number in at most eight characters: 0.4127, 12.35, 2.9e-04, 31400."""
    size = abs(value)
    if value == 0:
        return "0"
    if size >= 1e7 or size < 1e-3:
        return f"{value:.1e}"
    return f"{value:.0f}" if size >= 1000 else f"{value:.4g}"


def _plotted(curves: Sequence[Points], frame: Frame, size: tuple[int, int]) -> list[Line]:
    """The drawing, with its highest, middle and lowest number beside it."""
    width, height = size
    drawn = plot(curves, frame, width=width, height=height)
    if len(curves) > 1:
        _sign(drawn, curves, frame)
    numbers = {0: frame.high, height // 2: (frame.high + frame.low) / 2, height - 1: frame.low}
    lines = []
    for number, row in enumerate(drawn):
        left = figure(numbers[number]) if number in numbers else ""
        cells = [Cell(f"{left:>{MARGIN - 1}} ", "muted")]
        for curve, dots in groupby(row, key=lambda dot: dot.curve):
            text = "".join(dot.char for dot in dots)
            cells.append(Cell(text, STYLES[curve] if curve >= 0 else ""))
        lines.append(tuple(cells))
    return lines


def _sign(drawn: list[list[Dot]], curves: Sequence[Points], frame: Frame) -> None:
    """The run's letter near the end of its curve, each a little before the other's: curves that agree end in one place."""
    height, width = len(drawn), len(drawn[0])
    for number in reversed(range(len(curves))):
        known = [(x, y) for x, y in curves[number] if math.isfinite(y)]
        apart = number * LETTERS_APART * (frame.right - frame.left) / width
        known = [point for point in known if point[0] <= known[-1][0] - apart] or known[:1]
        if known:
            x, y = known[-1]
            column = round((x - frame.left) / (frame.right - frame.left) * (width - 1))
            row = round((frame.high - y) / (frame.high - frame.low) * (height - 1))
            drawn[row][column] = Dot(LETTERS[number], number)


def _gpus(run: Run, frame: Frame, room: int) -> list[Line]:
    """Utilisation up to 100 %, power up to its own most."""
    lines: list[Line] = []
    for points, unit in ((run.use, "%"), (run.power, "W")):
        if not points:
            continue
        most = 100.0 if unit == "%" else max(value for _, value in points) or 1.0
        shares = [None if value is None else 100 * value / most for value in means(points, frame, width=room)]
        drawn = sparkline(shares, room).replace(UNKNOWN, " ")
        words = f"{points[-1][1]:.0f} {unit}"
        lines.append((Cell(f"{'GPU ' + words:>{MARGIN - 1}} ", "muted"), Cell(drawn, "muted")))
    return lines


def _axis(frame: Frame, room: int, *, by_step: bool) -> Line:
    """Where along the way: times since the start, or steps."""
    text = ""
    for tick in range(0, room, TICKS_APART):
        value = frame.left + (frame.right - frame.left) * tick / room
        words = figure(round(value)) if by_step else age(value)
        text += fit(f"╵{words}", min(TICKS_APART, room - tick))
    what = "step" if by_step else "time"
    return (Cell(f"{what:>{MARGIN - 1}} ", "muted"), Cell(text, "muted"))


def _legend(page: Page, curves: Sequence[Points]) -> list[Line]:
    lines: list[Line] = []
    for number, (run, curve) in enumerate(zip(page.runs, curves, strict=True)):
        known = [value for _, value in curve if math.isfinite(value)]
        last = f"{figure(known[-1])}, least {figure(min(known))}" if known else f"prints no {page.name}"
        lines.append(
            (
                Cell(f"{LETTERS[number]:>{MARGIN - 1}} ", STYLES[number]),
                Cell(f"job {run.label} {run.title}  {last}"),
            )
        )
    return lines
