"""The failures of the last day, by cause, and the latest of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from warpdeck.model.finished_jobs import MAX_PAGE_JOBS, FinishedQuery
from warpdeck.notation.filters.job_filter import parse_filter
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, age
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.columns import Column

from .links import Link, PanelRows, Row, heading

DAY_S = 86_400.0
FAILED = "!state:CD !state:CA"
"""The filter for jobs that failed."""
COLUMNS = (
    Column("CAUSE", 13, flex=1, most=18),
    Column("JOBS", 4, align="right"),
    Column("LAST", 5, align="right"),
    Column("MOSTLY", 0, flex=2),
)
MOST_JOBS = 30
"""Largest number of failures below the causes."""
MOST_NAMES = 3
"""Largest number of names in the last column."""


class Cause(NamedTuple):
    """A cause of failures: the test for it, the filter of the history, and the property that its jobs are counted by."""

    name: str
    filter: str
    fits: Callable[[JobRow], bool]
    counted: Callable[[JobRow], str] = lambda row: row.user


CAUSES = (
    Cause("out of memory", "state:OOM", lambda row: row.state == "OUT_OF_MEMORY"),
    Cause("time limit", "state:TO", lambda row: row.state == "TIMEOUT"),
    Cause(
        "node failure",
        "state:NF",
        lambda row: row.state in ("NODE_FAIL", "BOOT_FAIL"),
        lambda row: row.node_list,
    ),
    Cause("preempted", "state:PR", lambda row: row.state == "PREEMPTED"),
    Cause("deadline", "state:DL", lambda row: row.state == "DEADLINE"),
    Cause("did not start", "state:F reason:launch_failed", lambda row: "launch_failed" in row.reason),
    Cause(
        "signal",
        "state:F reason:signal !reason:launch_failed",
        lambda row: row.reason.startswith("signal"),
        lambda row: row.reason,
    ),
    Cause(
        "exit code",
        "state:F reason:exit !reason:launch_failed",
        lambda row: row.reason.startswith("exit"),
        lambda row: row.reason,
    ),
    Cause("other", "state:F !reason:exit !reason:signal", lambda row: True, lambda row: row.reason),
)
"""The causes. A job has the first cause that fits."""


def failures_query(user: str | None) -> FinishedQuery:
    """Return the query for the newest failures, of one user or of all."""
    return FinishedQuery(user=user, clauses=parse_filter(FAILED))


def failures(jobs: Sequence[JobRow] | None, user: str | None, now: float, *, problem: str = "") -> PanelRows:
    """Return a row for each cause, the most frequent first, and then the latest failures.

    `jobs` are the answer to `failures_query`, or None while it is missing. `problem` says why there is none.
    """
    late = [row for row in jobs or () if row.end is not None and row.end > now - DAY_S]
    is_partial = len(late) >= MAX_PAGE_JOBS
    found: dict[Cause, list[JobRow]] = {}
    for row in late:
        found.setdefault(next(cause for cause in CAUSES if cause.fits(row)), []).append(row)
    rows = [_row(cause, rows, now) for cause, rows in found.items()]
    rows.sort(key=lambda row: -int(row[1][1].text))
    if late:
        rows += [
            heading("latest", Link("history", FAILED).key),
            *(_job(row, now) for row in late[:MOST_JOBS]),
        ]
    whose = "all users" if user is None else printable(user)
    count = f"  {'at least ' if is_partial else ''}{len(late)}" if late else ""
    title = Cell("Failures, last 24 hours", "title"), Cell(f"{count}  {whose}", "muted")
    return PanelRows(title, rows, problem or ("Loading..." if jobs is None else "No job failed"))


def _row(cause: Cause, jobs: Sequence[JobRow], now: float) -> Row:
    last = max(row.end or 0.0 for row in jobs)
    cells = (
        Cell(cause.name, jobs[0].state),
        Cell(str(len(jobs))),
        Cell(age(now - last), "muted"),
        Cell(mostly(map(cause.counted, jobs)), "muted"),
    )
    return Link("history", cause.filter).key, cells


def mostly(names: Iterable[str]) -> str:
    """Return the most frequent names with their numbers, such as "exit 1 12x, exit 2 3x"."""
    counts = Counter(name for name in names if name).most_common(MOST_NAMES)
    return ", ".join(
        f"{printable(name)} {count}x" if count > 1 else printable(name) for name, count in counts
    )


def _job(row: JobRow, now: float) -> Row:
    cells = (
        Cell(f"{row.label} {printable(row.name)}"),
        Cell(""),
        Cell(age(now - (row.end or now)), "muted"),
        Cell(f"{printable(row.user)}  {printable(row.reason)}", "muted"),
    )
    return Link("job", str(row.id)).key, cells
