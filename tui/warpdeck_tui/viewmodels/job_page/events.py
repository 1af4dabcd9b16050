"""The "Events" pane of a job's page: how long it waited and ran, and everything that happened to it."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from warpdeck.protocol.job_rows import JobDetail, JobEvent, JobRow
from warpdeck_tui.viewmodels.cells import GLYPHS, Cell, Line, age, glyph
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.glyphs import THICK, THIN

DAY_S = 86_400.0
WORTH_TELLING_S = 1.0
"""Shorter times between two events are not shown."""
DOT = "·"
LEAST_WIDTH, TITLE_COLUMNS = 40, 12
MAX_STEPS = 20
"""Largest number of steps that have a bar, the first ones."""
_KINDS = (
    (re.compile(r"submitted|released"), "◌", "PENDING"),
    (re.compile(r"running|allocated|resumed|started"), "●", "RUNNING"),
    (re.compile(r"ended COMPLETED|completed"), "✓", "COMPLETED"),
    (re.compile(r"cancelled|ended CANCELLED"), "⊘", "CANCELLED"),
    (re.compile(r"held|suspended|kept suspended"), "◫", "HELD"),
    (re.compile(r"preempted|requeue"), "↩", "PREEMPTED"),
    (re.compile(r"not started|ended without a start|its reservation"), "⚠", "NODE_FAIL"),
)
"""Beginnings of the texts of events, with the symbol and the style of their kind."""
_ENDED = re.compile(r"ended ([A-Z_]+), (.*)", re.DOTALL)
_PLAIN = {
    "COMPLETED": "completed",
    "FAILED": "failed",
    "CANCELLED": "was canceled",
    "TIMEOUT": "reached its time limit",
    "OUT_OF_MEMORY": "ran out of memory",
    "NODE_FAIL": "lost its node",
    "PREEMPTED": "was preempted",
}


def events(detail: JobDetail, *, now: float, width: int) -> list[Line]:
    """Return the lines of the pane: the phases of the job, then its events, the oldest first."""
    if not detail.events:
        return [(Cell("No events are recorded for this job", "muted"),)]
    lines = phases(detail, now=now, width=width)
    lines += [()] * bool(lines)
    lines.append((Cell(f"{'WHEN':<17}{'AGO':>7}  {'AFTER':>7}  WHAT", "header"),))
    before: JobEvent | None = None
    for event in detail.events:
        lines.append(_event(event, before, now))
        before = event
    if detail.row.end is None and before is not None:
        lines.append(_still(detail.row, before, now))
    return lines


def _event(event: JobEvent, before: JobEvent | None, now: float) -> Line:
    sign, style = kind(event.text)
    after = 0.0 if before is None else event.at - before.at
    form = "%d %b %H:%M:%S" if now - event.at < 300 * DAY_S else "%d %b %Y %H:%M"
    return (
        Cell(f"{time.strftime(form, time.localtime(event.at)):<17}", "muted"),
        Cell(f"{age(now - event.at):>7}  "),
        Cell(f"{'+' + age(after) if after >= WORTH_TELLING_S else '':>7}  ", "muted"),
        Cell(f"{sign} ", style),
        Cell(plain_words(event.text), style if style in ("FAILED", "NODE_FAIL", "TIMEOUT") else ""),
    )


def _still(row: JobRow, last: JobEvent, now: float) -> Line:
    """Return the last line of a job that has not ended: its state until now."""
    return (
        Cell(f"{'now':<17}{'':>7}  ", "muted"),
        Cell(f"{'+' + age(now - last.at):>7}  ", "muted"),
        Cell(f"{glyph(row.state)} {row.state.lower()}", row.state),
    )


def kind(text: str) -> tuple[str, str]:
    """Return the symbol and the style of an event."""
    for pattern, sign, style in _KINDS:
        if pattern.match(text):
            return sign, style
    if found := _ENDED.match(text):
        state = found[1]
        return GLYPHS.get(state, DOT), state if state in GLYPHS else "FAILED"
    return DOT, "muted"


def plain_words(text: str) -> str:
    """Return what happened in plain words."""
    found = _ENDED.match(text)
    if found is None:
        return printable(text)
    state = _PLAIN.get(found[1], found[1].lower().replace("_", " "))
    return printable(state if found[1] == "COMPLETED" and found[2] == "exit 0" else f"{state}: {found[2]}")


class _Span(NamedTuple):
    """A time span on the axis of the job, in seconds after its submission."""

    title: str
    begin: float
    seconds: float
    style: str


def phases(detail: JobDetail, *, now: float, width: int) -> list[Line]:
    """Return a bar for the time that the job waited, one for the time that it ran, and one for each step."""
    row = detail.row
    until = now if row.end is None else row.end
    if not row.submit or until <= row.submit or width < LEAST_WIDTH:
        return []
    begin = row.start or until
    spans = [_Span("waited", 0.0, begin - row.submit, "PENDING")]
    if row.start is not None:
        spans.append(_Span("ran", begin - row.submit, until - begin, row.state))
        for step in detail.steps[:MAX_STEPS]:
            length = max(0.0, (step.end or until) - step.start)
            spans.append(
                _Span(f"step {step.id.partition('.')[2]}", step.start - row.submit, length, step.state)
            )
    return [_bar(span, until - row.submit, width) for span in spans]


def _bar(span: _Span, total: float, width: int) -> Line:
    room = width - TITLE_COLUMNS - 11
    at = min(room - 1, max(0, round(room * span.begin / total)))
    length = min(room - at, round(room * span.seconds / total)) or (
        1 if span.seconds >= WORTH_TELLING_S else 0
    )
    return (
        Cell(f"{printable(span.title)[:TITLE_COLUMNS]:>{TITLE_COLUMNS}} ", "muted"),
        Cell(f"{age(span.seconds):>7}  "),
        Cell(THIN * at, "track"),
        Cell(THICK * length, span.style),
        Cell(THIN * max(0, room - at - length), "track"),
    )
