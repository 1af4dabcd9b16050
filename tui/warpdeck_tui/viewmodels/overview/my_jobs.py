"""The user's jobs: those that run with the time left and the use of their GPUs, those that wait with their start.

Jobs that ended lately follow them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, age, glyph, left
from warpdeck_tui.viewmodels.jobs.queue import full_name, is_idle, where
from warpdeck_tui.widgets.cells import Gauge, printable
from warpdeck_tui.widgets.columns import Column

from .links import MOST_ROWS, Link, PanelRows, Row

COLUMNS = (
    Column("JOB", 9, flex=1, most=14),
    Column("NAME", 10, flex=12, most=30),
    Column("USER", 6, rank=4, flex=1, most=12),
    Column("GPU", 3, align="right"),
    Column("UTIL", 8, rank=2, flex=1, most=14, align="right"),
    Column("TIME", 13, align="right"),
    Column("WHERE OR WHY", 0, rank=3, flex=3, since=80),
)
SOON_S = 600.0
"""Time left in seconds below which it is highlighted, because the time limit ends the job."""
STARTED = ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED")


def my_jobs(jobs: Iterable[JobRow], user: str | None, now: float) -> PanelRows:
    """Return the user's jobs: those that end first, those that start first, and then those that ended last.

    `user` is None for the jobs of all users.
    """
    mine = [row for row in jobs if user in (None, row.user)]
    running = [row for row in mine if row.state in STARTED]
    waiting = [row for row in mine if row.state == "PENDING"]
    ended = [row for row in mine if row.end is not None]
    shown: list[JobRow] = []
    for rows, rank in ((running, _ends), (waiting, _starts), (ended, lambda row: -(row.end or 0.0))):
        shown += heapq.nsmallest(MOST_ROWS - len(shown), rows, key=lambda row: (rank(row), row.id))
    tasks = sum(max(1, row.tasks_pending) for row in waiting)
    counts = f"  {len(running)} running, {tasks} waiting" if running or waiting else ""
    title = Cell("Jobs of all users" if user is None else "My jobs", "title"), Cell(counts, "muted")
    nothing = "No jobs" if user is None else "No jobs of yours"
    return PanelRows(title, [_row(row, now) for row in shown], f"{nothing}. Press n to submit one")


def _ends(row: JobRow) -> float:
    return row.start + row.time_limit_s if row.start is not None and row.time_limit_s else float("inf")


def _starts(row: JobRow) -> float:
    return (
        row.why.expected_start if row.why is not None and row.why.expected_start is not None else float("inf")
    )


def _row(row: JobRow, now: float) -> Row:
    cells = (
        Cell(f"{glyph(row.state)} {row.label}", "HELD" if row.held else row.state),
        Cell(printable(full_name(row))),
        Cell(printable(row.user), "muted"),
        Cell(str(row.gpus) if row.gpus else "·", "" if row.gpus else "muted"),
        _util(row, now),
        _time(row, now),
        Cell(printable(where(row, now).text), "muted"),
    )
    return Link("job", str(row.id)).key, cells


def _util(row: JobRow, now: float) -> Cell | Gauge:
    if row.gpu_util_pct is None or row.end is not None:
        return Cell("")
    style = "warn" if is_idle(row, now) else "accent"
    return Gauge(f"{row.gpu_util_pct}%", style, row.gpu_util_pct)


def _time(row: JobRow, now: float) -> Cell:
    """Return the time left of a running job, when a waiting job is expected to start, or when a job ended."""
    if row.end is not None:
        return Cell(f"{age(now - row.end)} ago", "muted")
    if row.state == "PENDING":
        start = _starts(row)
        if row.held:
            return Cell("held", "HELD")
        if start == float("inf"):
            return Cell("start ?", "muted")
        until = left(start, now)
        return Cell(f"in about {until}" if until else "soon", "PENDING")
    if row.state == "SUSPENDED":
        return Cell("suspended", "SUSPENDED")
    ends = _ends(row)
    if ends == float("inf"):
        return Cell("no limit", "muted")
    return Cell(f"{age(ends - now)} left", "warn" if ends - now < SOON_S else "")
