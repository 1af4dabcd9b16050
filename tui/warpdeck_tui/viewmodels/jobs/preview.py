"""The preview of the job under the cursor: its state, time, GPUs and last metrics, why it waits, or how it ended."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from warpdeck.client.runs.printed_metrics import Part, Readings, readings
from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck_tui.viewmodels.cells import TITLE_WIDTH, Cell, Line, age, due, fact, glyph, plural, thin_bar
from warpdeck_tui.widgets.cells import printable, shortened
from warpdeck_tui.widgets.meter import scaled, sparkline

from .arrays import Fold
from .order import rank
from .queue import full_name, how_ended, ran_s, used_of_limit
from .waiting import why_words

MOST_GPUS = 8
"""Largest number of GPUs with a line each. A larger job has a line for each node."""
MOST_NODES = 8
MOST_NODES_LOOKED_AT = 64
"""Largest number of nodes of a job that are looked at, because the preview is drawn every second."""
MOST_TASKS = 100
LONGEST_BAR, SHORTEST_BAR = 14, 6
LONGEST_CURVE, SHORTEST_CURVE = 40, 12
SPARE = 3
"""Columns after the title and at the end of a line with a curve."""
BESIDE_BAR = 34
"""Number of columns that the texts beside a bar take."""
LATE_PCT = 90
MOST_CURVES = 2
_SPELLED = {"CANCELLED": "canceled"}
"""States with another spelling in the app than in Slurm."""


class OfNode(NamedTuple):
    """The GPUs of a job on one node."""

    node: str
    gpus: tuple[GpuRow, ...]


class About(NamedTuple):
    """Facts about a job beyond its row. They are requested once the cursor rests on it.

    `tail` contains the last bytes of its output, and `died_of` is the cause of its failure.
    """

    nodes: tuple[OfNode, ...] = ()
    forecast: ForecastRow | None = None
    tail: bytes = b""
    died_of: str = ""


def preview_title(row: JobRow) -> Line:
    """Return the job and its name."""
    return Cell(row.label, "accent"), Cell(f" {printable(full_name(row))}", "title")


def gpus_of(row: JobRow, nodes: Mapping[str, NodeRow]) -> tuple[OfNode, ...]:
    """Return the GPUs that a running job holds, by node, as far as the nodes are known."""
    if not row.gpus or row.end is not None or not row.node_list:
        return ()
    found = []
    for name in expand(row.node_list)[:MOST_NODES_LOOKED_AT]:
        node = nodes.get(name)
        held = [gpu for gpu in node.gpus if _holds(gpu, row.label)] if node is not None else []
        if held:
            found.append(OfNode(name, tuple(held)))
    return tuple(found)


def _holds(gpu: GpuRow, label: str) -> bool:
    return gpu.job == label or any(sharer.job == label for sharer in gpu.sharers)


def preview_lines(row: JobRow, about: About, *, now: float, width: int) -> list[Line]:
    """Return the lines about a job, for a pane of this width."""
    if row.end is not None:
        return [*_ended(row, about, now, width), *_common(row)]
    if row.state == "PENDING":
        return [*_waits(row, about, now), *_common(row)]
    return [
        *_runs(row, now, width),
        *_common(row),
        *_gpus(row, about.nodes, width),
        *metric_lines(about.tail, width),
    ]


def _bar(percent: float | None, width: int, style: str = "accent") -> Line:
    """Return a bar that leaves space for the texts beside it in a pane of this width."""
    return thin_bar(percent, max(SHORTEST_BAR, min(LONGEST_BAR, width - BESIDE_BAR)), style)


def _state(row: JobRow, words: str = "") -> Line:
    style = "HELD" if row.held else row.state
    return Cell(
        f" {glyph(row.state)} {_SPELLED.get(row.state) or row.state.lower().replace('_', ' ')}", style
    ), Cell(words)


def _runs(row: JobRow, now: float, width: int) -> list[Line]:
    ran = ran_s(row, now) or 0.0
    limit = f" of {format_duration(row.time_limit_s)}" if row.time_limit_s else ", no time limit"
    lines = [_state(row, f" for {format_duration(ran)}{limit}")]
    used = used_of_limit(row, now)
    if used is not None and row.time_limit_s:
        style = "PENDING" if used >= LATE_PCT else "accent"
        remains = max(0.0, row.time_limit_s - ran)
        lines.append(
            (*fact("time", ""), *_bar(used, width, style), Cell(f" {used:.0f}%, {age(remains)} left"))
        )
    return lines


def _common(row: JobRow) -> list[Line]:
    whose = f"{row.user}, account {row.account}" if row.account else row.user
    queue = ", ".join(filter(None, (row.partition, f"QoS {row.qos}" if row.qos else "")))
    gpus = f"{plural(row.gpus, 'GPU')}{f' {row.gpu_type}' if row.gpu_type else ''}" if row.gpus else ""
    size = (
        plural(row.nodes, "node") if row.nodes > 1 else "",
        plural(row.cpus, "CPU"),
        gpus,
        format_memory(row.mem_bytes) if row.mem_bytes else "",
    )
    lines = [fact("user", printable(whose)), fact("size", ", ".join(filter(None, size)))]
    if queue:
        lines.insert(1, fact("partition", printable(queue)))
    if row.node_list:
        lines.append(fact("nodes", printable(row.node_list)))
    if row.comment:
        lines.append(fact("comment", shortened(printable(row.comment), 200)))
    return lines


def _gpus(row: JobRow, nodes: Sequence[OfNode], width: int) -> list[Line]:
    """Return a line for each GPU or, for a larger job, for each node: utilization, memory and temperature."""
    if not row.gpus:
        return []
    count = sum(len(each.gpus) for each in nodes)
    if all(gpu.util_pct is None for each in nodes for gpu in each.gpus):
        if row.gpu_util_pct is None:
            return [fact("GPUs", "no readings", "muted")]
        return [(*fact("GPUs", ""), *_bar(row.gpu_util_pct, width), Cell(f" {row.gpu_util_pct:>3}%"))]
    if count <= MOST_GPUS:
        return [(), *(_gpu(f"{each.node}:{gpu.index}", [gpu], width) for each in nodes for gpu in each.gpus)]
    lines = [_gpu(each.node, each.gpus, width) for each in nodes[:MOST_NODES]]
    more = len(nodes) - MOST_NODES
    return [(), *lines, *([fact("", f"and {plural(more, 'node')} more", "muted")] if more > 0 else [])]


def _gpu(name: str, gpus: Sequence[GpuRow], width: int) -> Line:
    util = _mean(gpu.util_pct for gpu in gpus)
    used = [gpu.mem_used_bytes for gpu in gpus if gpu.mem_used_bytes is not None]
    total = format_memory(sum(gpu.mem_bytes for gpu in gpus))
    hottest = max((gpu.temp_c for gpu in gpus if gpu.temp_c is not None), default=None)
    memory = f"{_number(format_memory(sum(used)), total)}{total}" if used else ""
    return (
        *fact(shortened(printable(name), 12), ""),
        *_bar(util, width),
        Cell("    ?" if util is None else f" {util:>3.0f}%", "warn" if util is not None and util < 5 else ""),
        Cell(f" {memory:>8}" if memory else ""),
        Cell("" if hottest is None else f" {hottest}°C", "muted"),
    )


def _number(used: str, total: str) -> str:
    """Return the used amount before the total, without its unit if both have the same one."""
    return f"{used[:-1] if used[-1:] == total[-1:] else used or '0'}/"


def _mean(values: Iterable[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


@lru_cache(maxsize=1)
def _metrics(tail: bytes) -> Readings:
    """Return the metrics in the output. The preview is drawn every second, but the output seldom changes as often."""
    return readings([Part(0, tail)], size_bytes=len(tail), begin=0.0, end=1.0)


def metric_lines(tail: bytes, width: int) -> list[Line]:
    """Return the last values of the most important metrics in the output, with their recent course.

    Values that do not change, such as a constant learning rate, are left out.
    """
    found = _metrics(tail) if tail else {}
    lines: list[Line] = []
    for name, points in found.items():
        values = [point.value for point in points]
        if len(set(values)) == 1 or len(lines) >= MOST_CURVES:
            continue
        step = points[-1].step
        at = f" at step {step:,.0f}" if step is not None else ""
        value = f" {values[-1]:.4g}"
        room = width - TITLE_WIDTH - SPARE - len(value)
        if room - len(at) < SHORTEST_CURVE:
            at = ""  # The log below shows the step too.
        columns = max(SHORTEST_CURVE, min(LONGEST_CURVE, room - len(at)))
        curve = sparkline(scaled(condensed(values, columns)), columns)
        lines.append(
            (
                *fact(shortened(printable(name), 9), ""),
                Cell(curve, "accent"),
                Cell(value),
                Cell(at, "muted"),
            )
        )
    return [(), *lines] if lines else []


def condensed(values: Sequence[float], count: int) -> list[float]:
    """Return at most `count` means of equally long parts. NaN values count only in parts without other values."""
    if len(values) <= count:
        return list(values)
    found = []
    for at in range(count):
        part = values[at * len(values) // count : (at + 1) * len(values) // count]
        known = [value for value in part if math.isfinite(value)]
        found.append(sum(known) / len(known) if known else math.nan)
    return found


def _waits(row: JobRow, about: About, now: float) -> list[Line]:
    why = row.why
    lines: list[Line] = [_state(row, f" for {age(now - row.submit)}" if row.submit else "")]
    if why is not None:
        lines.append(fact("why", why_words(why), "PENDING"))
        if why.expected_start is not None:
            at = time.strftime("%H:%M", time.localtime(why.expected_start))
            rough = ", a rough estimate" if why.rough else ""
            lines.append(fact("start", f"{due(why.expected_start, now)}, at {at}{rough}"))
    forecast = about.forecast
    if forecast is not None:
        if forecast.ahead:
            named = ", ".join(f"{each.label} ({each.user})" for each in forecast.leaders[:3])
            lines.append(
                fact("ahead", printable(f"{plural(forecast.ahead, 'job')}{f': {named}' if named else ''}"))
            )
        lines += [fact("earlier", printable(change)) for change in forecast.changes[:3]]
    if row.time_limit_s:
        lines.append(fact("limit", format_duration(row.time_limit_s)))
    if row.priority is not None:
        lines.append(fact("priority", f"{row.priority:,}"))
    return lines


def _ended(row: JobRow, about: About, now: float, width: int) -> list[Line]:
    style = "" if row.state == "COMPLETED" else row.state
    ran = f", after {format_duration(ran_s(row, now))}" if row.start else ", never started"
    lines = [
        _state(row, f" {age(now - (row.end or now))} ago"),
        fact("end", f"{how_ended(row)}{ran}", style),
    ]
    if about.died_of:
        lines.append(fact("cause", printable(about.died_of), "warn"))
    if row.used is not None:
        lines += _used(row, width)
    return lines


def _used(row: JobRow, width: int) -> list[Line]:
    used = row.used
    assert used is not None
    lines: list[Line] = []
    if row.gpus and used.gpu_util_pct is not None:
        idle = "" if used.gpu_idle_pct is None else f", idle for {used.gpu_idle_pct:.0f}% of the time"
        lines.append(
            (*fact("GPUs", ""), *_bar(used.gpu_util_pct, width), Cell(f" {used.gpu_util_pct:.0f}%{idle}"))
        )
    if used.peak_mem_bytes:
        most = f" of {format_memory(row.mem_bytes)}" if row.mem_bytes else ""
        lines.append(fact("memory", f"{format_memory(used.peak_mem_bytes)}{most} at the peak"))
    return lines


_STATES = {"R": "running", "PD": "pending", "CD": "completed", "F": "failed", "CA": "canceled"}
_STATES |= {"TO": "timed out", "OOM": "out of memory", "S": "suspended", "NF": "lost with a node"}


def array_title(array: Fold) -> Line:
    """Return the array and its name."""
    return Cell(array.label, "accent"), Cell(f" {printable(array.head.name)}", "title")


def array_lines(array: Fold, *, now: float, width: int) -> list[Line]:
    """Return the number of tasks in each state, why the others wait, and the tasks."""
    counts = array.counts()
    total = sum(count for count, _ in counts)
    kinds = {row.state_short: row.state for row in array.kinds()}
    lines: list[Line] = [
        (
            *fact(_STATES.get(short, short)[:9], ""),
            *_bar(100 * count / total, width, kinds.get(short, "accent")),
            Cell(f" {count} of {total}"),
        )
        for count, short in counts
    ]
    waiting = array.waiting
    if waiting is not None and waiting.why is not None:
        why = waiting.why
        lines.append(fact("why", why_words(why), "PENDING"))
        if why.expected_start is not None:
            lines.append(fact("start", f"the next task {due(why.expected_start, now)}"))
    lines += [(), *_common(array.head), ()]
    tasks = sorted((row for row in array.rows() if row.array_task_id is not None), key=rank)
    return lines + [_task(row, now) for row in tasks[:MOST_TASKS]]


def _task(row: JobRow, now: float) -> Line:
    ran = ran_s(row, now)
    end = how_ended(row) if row.end is not None else row.node_list
    util = f" {row.gpu_util_pct}%" if row.end is None and row.gpu_util_pct is not None else ""
    return (
        Cell(f"{row.label:>9} ", "accent"),
        Cell(f"{glyph(row.state)} {row.state_short:<3}", row.state),
        Cell(f" {age(ran or 0):>5} "),
        Cell(f"{printable(row.sweep)}  " if row.sweep else ""),
        Cell(f"{printable(end)}{util}", "muted"),
    )
