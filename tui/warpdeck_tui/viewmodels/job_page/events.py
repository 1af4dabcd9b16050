"""The "Events" pane of a job's page: how long it waited and ran, and everything that happened to it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from warpdeck.protocol.job_rows import JobDetail, JobEvent, JobRow
from warpdeck_tui.viewmodels.cells import GLYPHS, Cell, Line, age, glyph
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.glyphs import THICK

DAY_S = 86_400.0
WORTH_TELLING_S = 1.0
"""Shorter times between two events are not shown."""
DOT = "·"
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
    lines = phases(detail.row, now=now, width=width)
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


def phases(row: JobRow, *, now: float, width: int) -> list[Line]:
    """Return one bar for the time that the job waited and one for the time that it ran, on one axis."""
    until = now if row.end is None else row.end
    spans: list[tuple[str, float, str]] = []
    if row.submit:
        spans.append(("waited", max(0.0, (row.start or until) - row.submit), "PENDING"))
    if row.start is not None:
        spans.append(("ran", max(0.0, until - row.start), row.state))
    total = sum(seconds for _, seconds, _ in spans)
    if not total or width < 30:
        return []
    return _bars(spans, total, width)


def _bars(spans: Sequence[tuple[str, float, str]], total: float, width: int) -> list[Line]:
    room, begin = max(10, width - 18), 0.0
    lines: list[Line] = []
    for title, seconds, style in spans:
        at = round(room * begin / total)
        length = max(1, round(room * (begin + seconds) / total) - at)
        begin += seconds
        at = min(at, room - 1)
        lines.append(
            (
                Cell(f"{title:>7} ", "muted"),
                Cell(f"{age(seconds):>7}  "),
                Cell("─" * at, "track"),
                Cell(THICK * min(length, room - at), style),
                Cell("─" * max(0, room - at - length), "track"),
            )
        )
    return lines
