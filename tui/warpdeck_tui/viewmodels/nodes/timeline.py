"""The timeline below the map: the use of the GPUs, and the events of nodes, over a range of time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from warpdeck.protocol.node_rows import NodeEventRow
from warpdeck.protocol.results import Timeline
from warpdeck_tui.viewmodels.cells import Cell, Line, age, plural
from warpdeck_tui.widgets.cells import fit, printable, shortened
from warpdeck_tui.widgets.meter import sparkline

from .past_nodes import clock_words

HOUR_S = 3600.0
SPANS = (
    (24 * HOUR_S, "24 hours"),
    (7 * 24 * HOUR_S, "7 days"),
    (6 * HOUR_S, "6 hours"),
)
"""Ranges of time, with their names, in the order in which the key shows them."""
ROUND_S = 600.0
"""A range that ends now begins at a multiple of this number of seconds, so that it is not requested for each step."""
STEPS = 160
"""Number of parts into which the use of the GPUs is divided. It is the number of columns of a wide terminal."""
SIDE_WIDTH = 16
"""Width of the values beside the sparkline."""
NEAR_SHARE = 40
"""An event is described if it is at most this fraction of the range away from the time that is shown."""
SIGNS = {
    "down": ("✗", "FAILED"),
    "drain": ("▼", "warn"),
    "gpu_drain": ("▼", "warn"),
    "job": ("●", "RUNNING"),
    "up": ("▲", "accent"),
    "resume": ("▲", "accent"),
    "gpu_resume": ("▲", "accent"),
}
"""The sign and the style of each kind of event. If several fall into one column, the first in this table is shown."""
WORDS = {
    "down": "down",
    "drain": "drained",
    "gpu_drain": "drained",
    "up": "back",
    "resume": "resumed",
    "gpu_resume": "resumed",
}
LEGEND: Line = tuple(
    cell
    for kind, word in (("down", "down"), ("drain", "drained"), ("up", "back"), ("job", "large job"))
    for cell in (Cell(SIGNS[kind][0], SIGNS[kind][1]), Cell(f" {word}  ", "muted"))
)
TICKS_S = (HOUR_S / 2, HOUR_S, 2 * HOUR_S, 3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, 24 * HOUR_S)
TICK_ROOM = 9
"""Least number of columns between two labels of the axis."""
EPSILON_S = 1e-6
"""Distance in seconds between two events that are not the same moment."""


class Range(NamedTuple):
    """The range of time that a timeline shows."""

    since: float
    until: float

    def column(self, at: float, width: int) -> int:
        share = (at - self.since) / max(1.0, self.until - self.since)
        return max(0, min(width - 1, int(share * width)))

    def time_at(self, column: int, width: int) -> float:
        """Return the time in the middle of a column."""
        return self.since + (column + 0.5) / max(1, width) * (self.until - self.since)


def range_at(at: float, now: float, span_s: float) -> Range:
    """Return the range of this length that contains a time: the newest one, or else one that begins at a round time."""
    newest = (now // ROUND_S + 1) * ROUND_S
    if at >= newest - span_s:
        return Range(newest - span_s, newest)
    half = span_s / 2
    since = (at // half) * half - half / 2
    return Range(since, since + span_s)


def next_event(events: Sequence[NodeEventRow], at: float, *, forward: bool) -> NodeEventRow | None:
    """Return the first event after a time, or the last one before it. None if there is none."""
    if forward:
        return next((event for event in events if event.at > at + EPSILON_S), None)
    return next((event for event in reversed(events) if event.at < at - EPSILON_S), None)


def event_words(event: NodeEventRow, now: float) -> str:
    """Return an event as text, such as "Sat 02:58 gpu03 drained: ECC errors"."""
    when = clock_words(event.at // 60 * 60, now)
    text = printable(event.text)
    if event.kind == "job":
        return f"{when} job {event.job} of {printable(event.user)} started: {plural(event.gpus, 'GPU')} on {event.node}, {text}"
    what = f"{plural(event.gpus, 'GPU')} of {event.node}" if event.gpus else event.node
    return f"{when} {what} {WORDS.get(event.kind, event.kind)}" + (f": {text}" if text else "")


def timeline_lines(
    told: Timeline | None, shown: Range, at: float, *, now: float, width: int, height: int
) -> list[Line]:
    """Return the lines of the timeline: use of the GPUs, events, axis, and the event near the time that is shown.

    With less than four lines the use of the GPUs is left out. `told` is None while the data are loaded.
    """
    room = max(8, width - SIDE_WIDTH - 1)
    here = shown.column(at, room)
    lines = [
        _track(told, shown, here, room, now),
        _axis(shown, at, here, room),
        _near(told, shown, at, now, width),
    ]
    if height >= len(lines) + 1:
        lines.insert(0, _use(told, shown, here, room))
    return lines[:height]


def _use(told: Timeline | None, shown: Range, here: int, room: int) -> Line:
    """Return the sparkline of the utilization, with the values at the time that is shown."""
    if told is None or not told.allocated:
        return (Cell(" " * room), Cell(fit("loading..." if told is None else "", SIDE_WIDTH), "muted"))
    parts = len(told.allocated)
    at_column = [_part(told, shown.time_at(column, room), parts) for column in range(room)]
    utils = [None if part is None else told.util_pct[part] or 0.0 for part in at_column]
    drawn = sparkline(utils, room)
    part = at_column[here]
    util = None if part is None else told.util_pct[part]
    words = "" if part is None else f"{told.allocated[part]:.0f}/{told.gpus} GPUs"
    percent = "    " if util is None else f"{util:3.0f}%"
    return (
        Cell(drawn[:here], "accent"),
        Cell(drawn[here : here + 1], "cursor-sign"),
        Cell(drawn[here + 1 :], "accent"),
        Cell(f" {percent}"),
        Cell(f" {words}", "muted"),
    )


def _part(told: Timeline, at: float, parts: int) -> int | None:
    """Return the part of the data that contains a time, or None if the time is after the data."""
    if not told.since <= at < told.until:
        return None
    return min(parts - 1, int((at - told.since) / (told.until - told.since) * parts))


def _track(told: Timeline | None, shown: Range, here: int, room: int, now: float) -> Line:
    """Return the line with the signs of the events, and a mark at the time that is shown."""
    signs: dict[int, tuple[str, str]] = {}
    order = list(SIGNS)
    kinds: dict[int, str] = {}
    for event in told.events if told is not None else ():
        column = shown.column(event.at, room)
        if event.kind in SIGNS and (
            column not in kinds or order.index(event.kind) < order.index(kinds[column])
        ):
            kinds[column], signs[column] = event.kind, SIGNS[event.kind]
    end = shown.column(now, room)
    cells: list[Cell] = []
    run = ""
    for column in range(room):
        sign = ("◆", "cursor-sign") if column == here else signs.get(column)
        if sign is None:
            run += "─" if column <= end else " "
            continue
        if run:
            cells.append(Cell(run, "track"))
            run = ""
        cells.append(Cell(*sign))
    count = len(told.events) if told is not None else 0
    return (
        *cells,
        Cell(run, "track"),
        Cell(fit(f" {plural(count, 'event')}" if told else "", SIDE_WIDTH), "muted"),
    )


def _axis(shown: Range, at: float, here: int, room: int) -> Line:
    """Return the axis: the clock time at regular intervals, and the time that is shown below its mark."""
    span = shown.until - shown.since
    tick_s = next((each for each in TICKS_S if each / span * room >= TICK_ROOM), TICKS_S[-1])
    chars = [" "] * room
    local = time.localtime(shown.since)
    midnight = time.mktime((local.tm_year, local.tm_mon, local.tm_mday, 0, 0, 0, 0, 0, -1))
    form = "%H:%M" if tick_s < 24 * HOUR_S else "%a %-d"
    number = int((shown.since - midnight) // tick_s) + 1
    while (tick := midnight + number * tick_s) < shown.until:
        words = time.strftime(form, time.localtime(tick))
        _write(chars, words, shown.column(tick, room) - len(words) // 2)
        number += 1
    label = time.strftime("%H:%M", time.localtime(at))
    first = max(0, min(room - len(label), here - len(label) // 2))
    end = first + len(label)
    # No part of another label stays beside the label of the time that is shown.
    for column in (first - 1, end):
        if 0 <= column < room:
            _clear(chars, column)
    text = "".join(chars)
    return (Cell(text[:first], "muted"), Cell(label, "title"), Cell(text[end:], "muted"))


def _clear(chars: list[str], at: int) -> None:
    """Remove the label that contains this column."""
    for step in (-1, 1):
        column = at + (step > 0)
        while 0 <= column < len(chars) and chars[column] != " ":
            chars[column] = " "
            column += step


def _write(chars: list[str], words: str, first: int) -> None:
    if first >= 0 and first + len(words) <= len(chars):
        chars[first : first + len(words)] = words


def _near(told: Timeline | None, shown: Range, at: float, now: float, width: int) -> Line:
    """Return the event nearest to the time that is shown, or else the meaning of the signs."""
    if told is None:
        return (Cell("loading the events of this time...", "muted"),)
    within = (shown.until - shown.since) / NEAR_SHARE
    near = min(told.events, key=lambda event: abs(event.at - at), default=None)
    if near is None:
        return (Cell("no events in this range of time", "muted"),)
    if abs(near.at - at) > within:
        return LEGEND if sum(len(cell.text) for cell in LEGEND) <= width else ()
    sign, style = SIGNS.get(near.kind, ("·", "muted"))
    return (Cell(f"{sign} ", style), Cell(shortened(event_words(near, now), width - 2)))


def timeline_title(span: str, shown: Range, now: float) -> str:
    """Return the title of the timeline."""
    if shown.until >= now:
        return f"Last {span}"
    return f"{span}, until {age(now - shown.until)} ago"
