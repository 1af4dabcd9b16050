"""The time that jobs have been waiting, by partition, and the jobs that have been waiting longest."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, age, left, plural
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.columns import Column

from .links import MOST_ROWS, Link, PanelRows, Row, heading

COLUMNS = (
    Column("PARTITION", 9, flex=1, most=20),
    Column("JOBS", 5, align="right"),
    Column("GPUS", 5, rank=3, align="right"),
    Column("MEDIAN", 6, align="right"),
    Column("LONGEST", 7, align="right"),
    Column("NEXT", 6, rank=2, align="right"),
)
MOST_JOBS = 30
"""Largest number of jobs below the partitions."""


def waiting(jobs: Iterable[JobRow], now: float) -> PanelRows:
    """Return a row for each partition, the one with the longest median first, and then the jobs that wait longest.

    Held jobs wait for nothing and are left out.
    """
    found: dict[str, list[JobRow]] = {}
    held = 0
    for row in jobs:
        if row.state != "PENDING":
            continue
        if row.held:
            held += _tasks(row)
        else:
            found.setdefault(row.partition, []).append(row)
    medians = {name: median_wait_s(rows, now) for name, rows in found.items()}
    names = sorted(found, key=lambda name: (-medians[name], name))[:MOST_ROWS]
    total = sum(_tasks(row) for rows in found.values() for row in rows)
    words = [plural(total, "job")] if total else []
    words += [f"{held} held"] if held else []
    title = Cell("Waiting now", "title"), Cell(f"  {', '.join(words)}" if words else "", "muted")
    rows = [_row(name, found[name], medians[name], now) for name in names]
    waits = (row for rows in found.values() for row in rows)
    if longest := heapq.nsmallest(MOST_JOBS, waits, key=lambda row: (row.submit, row.id)):
        rows += [heading("longest wait", Link("queue", "state:PD").key), *(_job(row, now) for row in longest)]
    return PanelRows(title, rows, "No job is waiting")


def median_wait_s(rows: Sequence[JobRow], now: float) -> float:
    """Return the median of the time in seconds that these jobs have been waiting. Each task of an array counts."""
    waits = sorted((max(0.0, now - row.submit), _tasks(row)) for row in rows)
    half, passed = sum(count for _, count in waits) / 2, 0
    for wait_s, count in waits:
        passed += count
        if passed >= half:
            return wait_s
    return 0.0


def _tasks(row: JobRow) -> int:
    return max(1, row.tasks_pending)


def _row(name: str, rows: Sequence[JobRow], median_s: float, now: float) -> Row:
    longest = max(now - row.submit for row in rows)
    gpus = sum(row.gpus * _tasks(row) for row in rows)
    starts = [row.why.expected_start for row in rows if row.why is not None and row.why.expected_start]
    cells = (
        Cell(printable(name) or "none", "accent"),
        Cell(f"{sum(map(_tasks, rows)):,}"),
        Cell(f"{gpus:,}" if gpus else "·", "" if gpus else "muted"),
        Cell(age(median_s)),
        Cell(age(longest), "PENDING"),
        _start(min(starts, default=None), now),
    )
    return Link("queue", f"state:PD part:{name}" if name else "state:PD").key, cells


def _job(row: JobRow, now: float) -> Row:
    count = _tasks(row)
    cells = (
        Cell(f"{row.label} {printable(row.name)}"),
        Cell(f"{count:,}" if count > 1 else ""),
        Cell(f"{row.gpus * count:,}" if row.gpus else "·", "" if row.gpus else "muted"),
        Cell(printable(row.user), "muted"),
        Cell(age(now - row.submit)),
        _start(row.why.expected_start if row.why is not None else None, now),
    )
    return Link("job", str(row.id)).key, cells


def _start(expected: float | None, now: float) -> Cell:
    if expected is None:
        return Cell("?", "muted")
    until = left(expected, now)
    return Cell(f"≈{until}" if until else "soon", "muted")
