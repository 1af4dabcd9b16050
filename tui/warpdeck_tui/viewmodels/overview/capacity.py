"""The chart of the last day: how many GPUs were allocated, and how many were busy. Without GPUs: allocated CPUs."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from warpdeck.model.finished_jobs import MAX_PAGE_JOBS
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.results import Timeline
from warpdeck_tui.viewmodels.cells import Cell, Line, known
from warpdeck_tui.viewmodels.nodes.timeline import HOUR_S, TICK_ROOM, TICKS_S, Range
from warpdeck_tui.viewmodels.site.cluster_totals import Totals
from warpdeck_tui.widgets.plot import Curve, Frame, plot

DAY_S = 24 * HOUR_S
STEPS = 160
"""Number of parts into which the day is divided. They are nine minutes long."""
AXIS_WIDTH = 5
ALLOCATED, BUSY = "SUSPENDED", "accent"
"""Styles of the two curves. The curve of allocated GPUs is always the upper one."""
TALL = 8
"""Least number of rows of a chart at which its middle has a label."""
HOURS_OF_A_LINE = 3
"""Number of hours of one line of the plain text."""
Shares = Sequence[float | None]


class Capacity(NamedTuple):
    """The shares of the cluster in percent that were allocated and busy, in equal parts of the range. None is unknown."""

    range: Range
    allocated: Shares = ()
    busy: Shares = ()


def of_timeline(told: Timeline) -> Capacity:
    """Return the shares of all GPUs. A part without any measurement has no busy GPUs that are known."""
    total = max(1, told.gpus)
    allocated = [min(100.0, 100 * held / total) for held in told.allocated]
    busy = [
        None if util is None and share else share * (util or 0.0) / 100
        for share, util in zip(allocated, told.util_pct, strict=True)
    ]
    used = zip(told.allocated, told.util_pct, strict=True)
    first = _first(held > 0 or util is not None for held, util in used)
    return Capacity(Range(told.since, told.until), _without(allocated, first), _without(busy, first))


def _first(known: Iterable[bool]) -> int:
    """Return the number of parts before the first known one."""
    return len(list(takewhile(operator.not_, known)))


def _without(shares: Shares, first: int) -> Shares:
    """Return the shares with unknown ones before the part `first`. They would be 0, although nobody measured them."""
    return [*[None] * first, *shares[first:]]


def known_from(past: Sequence[JobRow] | None, now: float) -> float:
    """Return the time since which all jobs are known.

    `past` is a page of the newest ended jobs, or None if there is no history. The queue contains those of the last hour.
    """
    if past is None:
        return now - HOUR_S
    return min((row.end or now for row in past), default=now) if len(past) >= MAX_PAGE_JOBS else 0.0


def of_jobs(jobs: Iterable[JobRow], shown: Range, totals: Totals, *, known_from: float) -> Capacity:
    """Return the allocated share of the GPUs as the jobs tell it, or of the CPUs if the site has no GPUs.

    Before `known_from`, some jobs are missing.
    """
    step_s = (shown.until - shown.since) / STEPS
    held = [0.0] * STEPS
    for row in jobs:
        if row.start is None:
            continue
        size = row.gpus if totals.gpus else row.cpus
        begin, end = max(row.start, shown.since), min(row.end or shown.until, shown.until)
        first, last = int((begin - shown.since) / step_s), int((end - shown.since) / step_s)
        for at in range(max(0, first), min(STEPS - 1, last) + 1):
            left = shown.since + at * step_s
            held[at] += size * max(0.0, min(end, left + step_s) - max(begin, left)) / step_s
    total = max(1, totals.gpus or totals.cpus)
    shares = [
        None if shown.since + at * step_s < known_from else min(100.0, 100 * each / total)
        for at, each in enumerate(held)
    ]
    return Capacity(shown, _without(shares, _first(each > 0 for each in held)))


def title(totals: Totals) -> Line:
    """Return the title of the chart with the present values, each with the sign of its curve."""
    noun = "GPUs" if totals.gpus else "CPUs"
    used, total = (totals.held_gpus, totals.gpus) if totals.gpus else (totals.cpus_used, totals.cpus)
    if not total:
        return (Cell("Last 24 hours", "title"),)
    share = 100 * used / total
    cells = [
        Cell(f"{noun}, last 24 hours", "title"),
        Cell("  ━", ALLOCATED),
        Cell(f" {share:.0f}% allocated"),
    ]
    util = totals.util_pct
    if util is not None:
        busy = share * util / 100 if totals.gpus else util
        cells += [Cell("  ━", BUSY), Cell(f" {busy:.0f}% busy")]
    return tuple(cells)


def chart(capacity: Capacity | None, *, problem: str, width: int, height: int) -> list[Line]:
    """Return the chart with its two axes. `problem` says why there are no data, or is ""."""
    if height < 2 or width <= AXIS_WIDTH:
        return []
    room, rows = width - AXIS_WIDTH, height - 1
    if capacity is None:
        lines: list[Line] = [()] * height
        words = problem or "Loading..."
        lines[height // 3] = (Cell(words.center(width), "muted"),)
        return lines
    frame = Frame(0.0, 1.0, 0.0, 100.0)
    drawn = plot((_curve(capacity.busy), _curve(capacity.allocated)), frame, width=room, height=rows)
    middle = rows // 2 if rows >= TALL and rows % 2 else -1
    lines = []
    for number, row in enumerate(drawn):
        label = {0: "100%", rows - 1: "0%", middle: "50%"}.get(number, "")
        styled = [Cell(text, (BUSY, ALLOCATED)[curve] if curve >= 0 else "") for text, curve in row.pieces()]
        lines.append((Cell(f"{label:>4}", "muted"), Cell("┤" if label else "│", "track"), *styled))
    return [*lines, (Cell(" " * AXIS_WIDTH + _times(capacity.range, room), "muted"),)]


def _curve(shares: Shares) -> Curve:
    count = max(1, len(shares) - 1)
    return Curve(
        [at / count for at in range(len(shares))], [math.nan if share is None else share for share in shares]
    )


def _times(shown: Range, room: int) -> str:
    """Return the axis of time, with "now" at its end."""
    tick_s = next((each for each in TICKS_S if each / DAY_S * room >= TICK_ROOM), TICKS_S[-1])
    chars = [" "] * room
    local = time.localtime(shown.since)
    midnight = time.mktime((local.tm_year, local.tm_mon, local.tm_mday, 0, 0, 0, 0, 0, -1))
    number = int((shown.since - midnight) // tick_s) + 1
    while (tick := midnight + number * tick_s) < shown.until:
        words = time.strftime("%H:%M", time.localtime(tick))
        first = shown.column(tick, room) - len(words) // 2
        if first >= 0 and first + len(words) < room - len("  now"):
            chars[first : first + len(words)] = words
        number += 1
    if room >= len("now"):
        chars[-3:] = "now"
    return "".join(chars)


def in_words(capacity: Capacity) -> list[str]:
    """Return the shares of every third hour as lines of text."""
    lines = []
    for hour in range(0, 24, HOURS_OF_A_LINE):
        first, end = (len(capacity.allocated) * at // 24 for at in (hour, hour + HOURS_OF_A_LINE))
        allocated, busy = _mean(capacity.allocated[first:end]), _mean(capacity.busy[first:end])
        clock = time.strftime("%H:%M", time.localtime(capacity.range.since + hour * HOUR_S))
        words = [f"{known(share, '%')} {name}" for share, name in ((allocated, "allocated"), (busy, "busy"))]
        lines.append(f"from {clock}: {', '.join(words if capacity.busy else words[:1])}")
    return lines


def _mean(shares: Shares) -> float | None:
    found = [share for share in shares if share is not None]
    return sum(found) / len(found) if found else None
