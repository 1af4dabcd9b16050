"""The columns of a list of jobs: their cells for a job, and for an array that is shown as one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, age, glyph
from warpdeck_tui.widgets.cells import Gauge
from warpdeck_tui.widgets.columns import Column, fitted
from warpdeck_tui.widgets.rows import KnownRows

from .arrays import Fold
from .listing import Listing, key_of
from .queue import (
    NONE_LOST,
    clock,
    full_name,
    is_idle,
    is_unmeasured,
    ran_s,
    unreachable,
    used_of_limit,
    where,
)
from .text_widths import INDENT
from .waiting import NONE_KNOWN

GAUGE_WIDTH = 7
"""Least width of a column with a percentage: the number. If there is space, a bar is shown beside it."""
BESIDE_WIDTH = 10
"""Least width of the last column beside the preview, which shows its text in full."""
BESIDE_COMFORT = 38
"""Width in which a pending reason such as "#12 in line; best is gpu05 with 0 free" is readable in full."""
BESIDE_TITLE = "NODES(WHY)"
NO_READING = "n/a"
"""Text for the utilization of GPUs that nobody measures."""
PRIORITY_FROM = 140
"""Least width of the terminal at which the priority is shown. On narrower ones the reason needs the space."""
NO_WIDTHS: Mapping[str, int] = {}
LATE_PCT = 90
"""Percentage of the time limit from which on a job is highlighted, because it may not finish in time."""

Shown = Cell | Gauge
Row = tuple[Shown, ...]
OfJob = Callable[[JobRow, float], Shown]
OfArray = Callable[[Fold, float], Shown]


class JobColumn(NamedTuple):
    """A column of the job table.

    If `array` is None, an array shows the cell of the job that determines its position in the queue.
    """

    column: Column
    job: OfJob
    array: OfArray | None = None


class JobRows(KnownRows):
    """The rows of a listing, each created when it is displayed. Elapsed times count up to `now`.

    `lost` are the unreachable nodes, with the time of their last reading. `places` are the places in line of the waiting
    jobs.
    """

    def __init__(
        self,
        listing: Listing,
        columns: Sequence[str],
        *,
        now: float,
        lost: Mapping[str, float | None] = NONE_LOST,
        places: Mapping[int, int] = NONE_KNOWN,
    ) -> None:
        self._listing = listing
        self._lost = lost
        self._places = places
        self._entries = listing.entries
        self._columns = columns
        self._now = now

    def __len__(self) -> int:
        return len(self._entries)

    def row(self, index: int) -> Row:
        entry = self._entries[index]
        if isinstance(entry, Fold):
            return array_row(entry, self._columns, now=self._now)
        line = job_row(entry, self._columns, now=self._now)
        if entry.why is not None and (place := self._places.get(entry.id)):
            cells = dict(zip(self._columns, line, strict=True))
            if "where" in cells:
                line = tuple({**cells, "where": where(entry, self._now, place=place)}.values())
        if self._lost:
            line = self._doubted(entry, line)
        return self._below(entry, line) if self._listing.stands_below(entry) else line

    def _doubted(self, row: JobRow, line: Row) -> Row:
        """Return the row of a job, marked if one of its nodes is unreachable, so that nobody knows whether it runs."""
        gone = unreachable(row, self._lost, now=self._now)
        if not gone:
            return line
        cells = dict(zip(self._columns, line, strict=True))
        doubted = {
            "state": Cell(f"{glyph('NODE_FAIL')} {row.state_short}?", "NODE_FAIL"),
            "where": Cell(gone, "NODE_FAIL"),
        }
        return tuple(doubted.get(name, cell) for name, cell in cells.items())

    def _below(self, row: JobRow, line: Row) -> Row:
        """Return the row of a task below the row of its array.

        It is indented, and has its sweep values in place of the name.
        """
        cells = dict(zip(self._columns, line, strict=True))
        if self._columns[0] == "job":
            cells["job"] = Cell(" " * INDENT + row.label, cells["job"].style)
        if row.sweep and "name" in cells:
            cells["name"] = Cell(row.sweep, cells["name"].style)
        return tuple(cells.values())

    def key(self, index: int) -> str:
        return key_of(self._entries[index])


def job_row(row: JobRow, columns: Sequence[str], *, now: float) -> Row:
    """Return one cell per column for a job."""
    return tuple(JOB_COLUMNS[name].job(row, now) for name in columns)


def array_row(array: Fold, columns: Sequence[str], *, now: float) -> Row:
    """Return one cell per column for all tasks of an array."""
    head = array.head
    return tuple(
        column.array(array, now) if column.array is not None else column.job(head, now)
        for column in (JOB_COLUMNS[name] for name in columns)
    )


def choice_row(row: JobRow, *, now: float) -> Row:
    """Return the row of a job in a list to choose from: job, state, name, time and location."""
    return job_row(row, ("job", "state", "name", "time", "where"), now=now)


def _plain(row: JobRow) -> str:
    return "muted" if row.end is not None else ""


def _state(row: JobRow) -> Cell:
    return Cell(f"{glyph(row.state)} {row.state_short}", "HELD" if row.held else row.state)


def _gauge(percent: float, style: str) -> Gauge:
    return Gauge(f"{percent:.0f}%", style, round(percent))


def _util(row: JobRow, now: float) -> Shown:
    """Return the current utilization or, for an ended job, its mean utilization."""
    if row.end is not None:
        mean = row.used.gpu_util_pct if row.gpus and row.used is not None else None
        return Cell("") if mean is None else _gauge(mean, "muted")
    if not row.gpus or row.state != "RUNNING":
        return Cell("")
    if is_unmeasured(row, now):
        return Cell(NO_READING, "muted")
    if is_idle(row, now):
        return Cell(f"idle {row.gpu_util_pct}%" if row.gpu_util_pct is not None else "idle", "warn")
    return Cell("") if row.gpu_util_pct is None else _gauge(row.gpu_util_pct, "accent")


def _array_util(array: Fold, now: float) -> Shown:
    """Return the mean utilization of the running tasks, or the number of tasks with idle GPUs."""
    running = [row for row in array.running() if row.gpus]
    idle = sum(is_idle(row, now) for row in running)
    if idle:
        return Cell(f"{idle} idle"[:GAUGE_WIDTH] if idle < len(running) else "idle", "warn")
    known = [row.gpu_util_pct for row in running if row.gpu_util_pct is not None]
    if running and all(is_unmeasured(row, now) for row in running):
        return Cell(NO_READING, "muted")
    return _gauge(sum(known) / len(known), "accent") if known else Cell("")


def _limit(row: JobRow, now: float) -> Shown:
    """Return the elapsed share of the time limit."""
    used = used_of_limit(row, now)
    return Cell("") if used is None else _gauge(min(used, 999.0), "PENDING" if used >= LATE_PCT else "muted")


def _left(row: JobRow, now: float) -> Cell:
    """Return the time until the job reaches its time limit."""
    used, ran = used_of_limit(row, now), ran_s(row, now)
    if used is None or ran is None or row.time_limit_s is None:
        return Cell("")
    return Cell(age(max(0.0, row.time_limit_s - ran)), "PENDING" if used >= LATE_PCT else "")


def _nearest(array: Fold, now: float) -> JobRow:
    """Return the task that is nearest to its time limit."""
    return max(array.running(), key=lambda row: used_of_limit(row, now) or 0, default=array.head)


def _array_gpus(array: Fold, now: float) -> Cell:
    """Return the number of GPUs of all running tasks.

    If none is running, return the number that one task requests.
    """
    gpus = sum(row.gpus for row in array.running()) or array.head.gpus
    return Cell(str(gpus or "·"), _plain(array.head) if gpus else "muted")


def _array_where(array: Fold, now: float) -> Cell:
    """Return the number of tasks in each state, then the pending reason.

    The counts come first, so that they are never cut off.
    """
    counts = " ".join(f"{count} {short}" for count, short in array.counts())
    waiting = array.waiting
    why = f"  {where(waiting, now).text}" if waiting is not None else ""
    return Cell(counts + why)


JOB_COLUMNS: dict[str, JobColumn] = {
    "job": JobColumn(
        Column("JOB", 10, key="job", flex=1, most=18),
        lambda row, now: Cell(row.label, "accent"),
        lambda array, now: Cell(array.label, "accent"),
    ),
    "state": JobColumn(
        Column("STATE", 5, key="state"),
        lambda row, now: _state(row),
        lambda array, now: _state(array.verdict),
    ),
    "name": JobColumn(
        Column("NAME", 12, key="name", flex=8, most=36, comfort=20, keeps_ends=True),
        lambda row, now: Cell(full_name(row), _plain(row)),
        lambda array, now: Cell(array.head.name, _plain(array.head)),
    ),
    "user": JobColumn(
        Column("USER", 8, 1, key="user", flex=2, most=12), lambda row, now: Cell(row.user, "muted")
    ),
    "account": JobColumn(
        Column("ACCOUNT", 8, 4, key="account", flex=1, most=16), lambda row, now: Cell(row.account, "muted")
    ),
    "partition": JobColumn(
        Column("PARTITION", 9, 4, key="partition", flex=1, most=16),
        lambda row, now: Cell(row.partition, "muted"),
    ),
    "qos": JobColumn(
        Column("QOS", 7, 4, key="qos", flex=1, most=16), lambda row, now: Cell(row.qos, "muted")
    ),
    "nodes": JobColumn(
        Column("NODES", 5, 4, key="nodes", align="right"), lambda row, now: Cell(str(row.nodes), _plain(row))
    ),
    "cpus": JobColumn(
        Column("CPUS", 5, 4, key="cpus", align="right"), lambda row, now: Cell(str(row.cpus), _plain(row))
    ),
    "mem": JobColumn(
        Column("MEM", 6, 4, key="mem", align="right"),
        lambda row, now: Cell(format_memory(row.mem_bytes), _plain(row)),
    ),
    "gpus": JobColumn(
        Column("GPU", 3, key="gpus", align="right"),
        lambda row, now: Cell(str(row.gpus or "·"), _plain(row) if row.gpus else "muted"),
        _array_gpus,
    ),
    "prio": JobColumn(
        Column("PRIO", 7, key="prio", align="right", since=PRIORITY_FROM),
        lambda row, now: Cell("" if row.priority is None else str(row.priority), "muted"),
    ),
    "submit": JobColumn(
        Column("WAITED", 6, 4, key="submit", align="right"),
        lambda row, now: Cell(age((row.start or row.end or now) - row.submit), "muted"),
    ),
    "time": JobColumn(
        Column("TIME", 8, key="time", align="right"), lambda row, now: Cell(clock(row, now), _plain(row))
    ),
    "left": JobColumn(
        Column("LEFT", 6, 3, key="left", align="right"),
        _left,
        lambda array, now: _left(_nearest(array, now), now),
    ),
    "limit": JobColumn(
        Column("LIMIT", GAUGE_WIDTH, 3, key="limit", flex=1, most=14),
        _limit,
        lambda array, now: _limit(_nearest(array, now), now),
    ),
    "util": JobColumn(Column("UTIL", GAUGE_WIDTH, 2, key="util", flex=1, most=14), _util, _array_util),
    "where": JobColumn(Column("NODELIST(REASON)", 0, key="where", flex=8), where, _array_where),
}
"""All columns by key. These can be chosen and saved; those in `order.SORTED_BY` can also be sorted by."""
DEFAULT_COLUMNS = ("job", "state", "name", "user", "gpus", "prio", "time", "left", "limit", "util", "where")

PAST_COLUMNS = ("job", "state", "name", "user", "account", "gpus", "time", "util", "where")
"""Columns for ended jobs."""
OFFERED_FOR_PAST = tuple(name for name in JOB_COLUMNS if name not in ("prio", "left", "limit"))
"""Columns to choose from for ended jobs, for which priority and limit no longer matter."""


def columns_of(
    names: Sequence[str], *, beside: bool = False, widths: Mapping[str, int] = NO_WIDTHS
) -> tuple[Column, ...]:
    """Return the table columns with these names, fitted to the widest texts.

    `beside` means that the preview is shown beside the table.
    """
    columns = fitted([JOB_COLUMNS[name].column for name in names], widths)
    if not beside:
        return columns
    return tuple(
        column
        if column.width
        else replace(column, title=BESIDE_TITLE, width=BESIDE_WIDTH, comfort=BESIDE_COMFORT)
        for column in columns
    )
