"""The metrics page of a job.

It shows the curve of one metric, the curves of other runs, and the job's GPU utilization and power. Times
count from the start of each run, so that all runs begin together. By step, runs of different speed can be
compared directly. GPUs have no steps, so they are shown only by time. Letters distinguish the runs where
colors are missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan
from typing import NamedTuple

from warpdeck.client.runs.printed_metrics import Point, Readings
from warpdeck.client.runs.run import figure
from warpdeck.protocol.job_rows import CurveRow, JobRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age, plural
from warpdeck_tui.viewmodels.metrics.ticks import ticks
from warpdeck_tui.widgets.cells import fit, printable
from warpdeck_tui.widgets.glyphs import UNKNOWN
from warpdeck_tui.widgets.meter import scaled, sparkline
from warpdeck_tui.widgets.plot import NOBODY, Curve, Frame, Row, frame_of, means, plot

MAX_RUNS = 4
"""Largest number of curves. More could not be distinguished."""
STYLES = ("accent", "PENDING", "SUSPENDED", "RUNNING")
LETTERS = "abcd"
LETTERS_APART = 3
"""Distance in characters between the letters of curves that end together."""
MARGIN = 10
LEAST_KILO = 999.5
"""From this value on, a reading is shown in thousands."""
"""Number of columns for the numbers at the left."""
LEAST_ROWS = 3
TICKS_APART = 16
Points = Sequence[tuple[float, float]]
_NOTHING = Curve()


@dataclass(frozen=True, eq=False)
class Run:
    """The data of a run.

    `readings` are the metrics in its log. `use` (percent) and `power` (watts) are curves over seconds since
    the start of the run.
    """

    key: str
    label: str
    title: str
    readings: Readings
    use: Curve = _NOTHING
    power: Curve = _NOTHING
    _curves: dict[tuple[str, bool, bool], Curve] = field(default_factory=dict, repr=False)

    def curve(self, name: str, *, by_step: bool, smooth: bool = False) -> Curve:
        """Return the curve of the metric with this name. It is computed once and cached."""
        key = name, by_step, smooth
        if key not in self._curves:
            printed = _curve(self.readings.get(name, ()), by_step=by_step)
            self._curves[key] = printed.smoothed() if smooth else printed
        return self._curves[key]


def run_of(row: JobRow, readings: Readings, curves: Sequence[CurveRow]) -> Run:
    """Return the run of a job. Its utilization is the mean over its nodes, its power the sum."""
    use, _ = _measured(curves, "gpu_util_pct", begin=row.start or 0.0)
    power, nodes = _measured(curves, "gpu_power_w", begin=row.start or 0.0)
    total = [(at, nodes * watts) for at, watts in power]
    return Run(str(row.id), row.label, printable(row.name), readings, Curve.of(use), Curve.of(total))


def _measured(curves: Sequence[CurveRow], column: str, *, begin: float) -> tuple[Points, int]:
    """Return points (seconds since `begin`, value), ordered by time, and the number of their nodes."""
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
    """Return the names of all metrics, beginning with the metrics of the first run."""
    return list(dict.fromkeys(name for run in runs for name in run.readings))


class Page(NamedTuple):
    """State of the page. `name` is one of `names`. `told` is an error, or says that data are being read."""

    runs: tuple[Run, ...]
    name: str = ""
    by_step: bool = False
    smooth: bool = False
    told: str = ""


def chart(page: Page, *, width: int, height: int) -> list[Line]:
    """Return the lines of the page, at most `height`."""
    if not page.runs:
        return [(Cell(page.told, "muted"),)]
    printed = [run.curve(page.name, by_step=page.by_step) for run in page.runs]
    curves = [run.curve(page.name, by_step=page.by_step, smooth=page.smooth) for run in page.runs]
    frame = frame_of(curves)
    room = max(LEAST_ROWS, width - MARGIN - 1)
    lines: list[Line] = [_title(page, printed)]
    legend = _legend(page, printed) if len(page.runs) > 1 else []
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
    """Extend the frame to the start of the runs.

    So idle minutes of the GPUs before the first point are visible.
    """
    ends = [curve.xs[-1] for run in page.runs[:1] for curve in (run.use, run.power) if curve]
    return frame._replace(left=0.0, right=max([frame.right, *ends]))


def _curve(points: Sequence[Point], *, by_step: bool) -> Curve:
    if by_step:
        return Curve.of(
            dict(sorted((each.step, each.value) for each in points if each.step is not None)).items()
        )
    return Curve([each.at_s for each in points], [each.value for each in points])


def _title(page: Page, curves: Sequence[Curve]) -> Line:
    """Return the title line: name, latest value, minimum and maximum of the metric, and its index among
    all.
    """
    if not page.name:
        words = page.told or 'No values to plot. The log has no lines such as loss=0.41 or {"loss": 0.41}'
        return (Cell(f" {words}", "muted"),)
    curve = curves[0]
    every = names(page.runs)
    place = f"{every.index(page.name) + 1} of {len(every)}" if len(every) > 1 else ""
    cells = [Cell(f" {printable(page.name)} ", "accent")]
    if curve:
        cells.append(Cell(f" {figure(curve.ys[-1])}"))
        cells.append(Cell(f"   min {figure(curve.least)}   max {figure(curve.most)}", "muted"))
    elif page.by_step:
        cells.append(Cell(" no step numbers in the log; press x to plot over time", "muted"))
    if curve.gaps:
        where = f"at step {curve.gaps[0]:.0f}" if page.by_step else f"after {age(curve.gaps[0])}"
        cells.append(Cell(f"   ⚠ {plural(len(curve.gaps), 'nan')}, first {where}", "warn"))
    cells.append(Cell(f"   {place}" if place else "", "muted"))
    cells.append(Cell("   smoothed" if page.smooth else "", "muted"))
    cells.append(Cell(f"   {page.told}" if page.told else "", "muted"))
    return tuple(cells)


def _plotted(curves: Sequence[Curve], frame: Frame, size: tuple[int, int]) -> list[Line]:
    """Return the lines of the plot, with the highest, middle and lowest number beside it."""
    width, height = size
    drawn = plot(curves, frame, width=width, height=height)
    if len(curves) > 1:
        _sign(drawn, curves, frame)
    numbers = {0: frame.high, height // 2: (frame.high + frame.low) / 2, height - 1: frame.low}
    lines = []
    for number, row in enumerate(drawn):
        left = figure(numbers[number]) if number in numbers else ""
        cells = [Cell(f"{left:>{MARGIN - 1}} ", "muted")]
        cells += [Cell(text, "" if curve == NOBODY else STYLES[curve]) for text, curve in row.pieces()]
        lines.append(tuple(cells))
    return lines


def _sign(drawn: list[Row], curves: Sequence[Curve], frame: Frame) -> None:
    """Mark each curve with the letter of its run near the end.

    The letters are staggered, because curves may end in one place.
    """
    height, width = len(drawn), len(drawn[0].text)
    for number, curve in reversed(list(enumerate(curves))):
        if curve:
            apart = number * LETTERS_APART * (frame.right - frame.left) / width
            at = max(0, bisect_right(curve.xs, curve.xs[-1] - apart) - 1)
            x, y = curve.xs[at], curve.ys[at]
            column = round((x - frame.left) / (frame.right - frame.left) * (width - 1))
            row = round((frame.high - y) / (frame.high - frame.low) * (height - 1))
            drawn[row] = drawn[row].with_sign(column, char=LETTERS[number], curve=number)


def _gpus(run: Run, frame: Frame, room: int) -> list[Line]:
    """Return the lines of the GPUs: utilization relative to 100 %, power relative to the range of its values."""
    lines: list[Line] = []
    for curve, unit in ((run.use, "%"), (run.power, "W")):
        if not curve:
            continue
        values = means(curve, frame, width=room)
        shares = values if unit == "%" else scaled([nan if value is None else value for value in values])
        drawn = sparkline(shares, room).replace(UNKNOWN, " ")
        words = _reading(curve.ys[-1], unit)
        lines.append((Cell(f"{'GPU ' + words:>{MARGIN - 1}} ", "muted"), Cell(drawn, "muted")))
    return lines


def _reading(value: float, unit: str) -> str:
    """Return the last value in at most five characters: "92%", "680W", "2.5kW", "12kW"."""
    if value < LEAST_KILO:
        return f"{value:.0f}{unit}"
    return f"{value / 1000:.{int(value < 9950)}f}k{unit}"


def _axis(frame: Frame, room: int, *, by_step: bool) -> Line:
    """Return the x axis: times since the start, or steps, at round numbers."""
    text = ""
    for tick in ticks(frame.left, frame.right, room, apart=TICKS_APART, is_time=not by_step):
        text = fit(text, tick.column) + f"╵{tick.label}"
    what = "step" if by_step else "time"
    return (Cell(f"{what:>{MARGIN - 1}} ", "muted"), Cell(fit(text, room), "muted"))


def _legend(page: Page, curves: Sequence[Curve]) -> list[Line]:
    lines: list[Line] = []
    for number, (run, curve) in enumerate(zip(page.runs, curves, strict=True)):
        last = f"{figure(curve.ys[-1])}, min {figure(curve.least)}" if curve else f"no {page.name} in the log"
        lines.append(
            (
                Cell(f"{LETTERS[number]:>{MARGIN - 1}} ", STYLES[number]),
                Cell(f"job {run.label} {run.title}  {last}"),
            )
        )
    return lines
