"""The details of a row of a table, one fact per line, and the jobs that belong to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age, glyph
from warpdeck_tui.viewmodels.jobs.order import rank
from warpdeck_tui.viewmodels.jobs.queue import clock, summary
from warpdeck_tui.widgets.cells import Gauge, printable, shortened
from warpdeck_tui.widgets.columns import Column

MOST_JOBS = 30
"""Largest number of jobs that are listed. The queue lists all of them."""
MOST_NAME = 16
NAMES = {"GPUS": "GPUs", "CPUS": "CPUs", "GPU": "GPUs", "QOS": "QoS", "TRES": "TRES"}
"""Words of column titles that are not written in small letters."""


def row_title(table: str, key: str, cells: Sequence[Cell | Gauge]) -> str:
    """Return the title of the pane: the name of the row, for an event that of its job, or of the table without rows."""
    if table == "events" and len(cells) > 1:
        return f"job {cells[1].text}"
    return key.strip() or table


def row_details(columns: Sequence[Column], cells: Sequence[Cell | Gauge], *, words: str = "") -> list[Line]:
    """Return a line for each cell of a row that is not empty, then a description of the row."""
    facts = [
        (_name(column.title), cell)
        for column, cell in zip(columns, cells, strict=False)
        if column.title and cell.text.strip()
    ]
    width = max((len(title) for title, _ in facts), default=0)
    lines: list[Line] = [
        (Cell(f"{title:>{width}}  ", "muted"), Cell(printable(cell.text.strip()), cell.style))
        for title, cell in facts
    ]
    if words:
        lines += [(), *((Cell(""), Cell(printable(each))) for each in words.splitlines())]
    return lines


def _name(title: str) -> str:
    """Return a column's title in small letters, except for abbreviations."""
    return " ".join(NAMES.get(word, word.lower()) for word in title.split())


def jobs_of(table: str, key: str, jobs: Iterable[JobRow]) -> Iterator[JobRow] | None:
    """Return the jobs that belong to the row with this key, or None for tables whose rows have no jobs."""
    account, _, user = key.partition(" ")
    match table:
        case "partitions":
            return (row for row in jobs if key in row.partition.split(","))
        case "qos":
            return (row for row in jobs if row.qos == key)
        case "accounts":
            return (row for row in jobs if row.account == account and user in ("", row.user))
        case "drains":
            return (row for row in jobs if row.end is None and row.node_list and key in expand(row.node_list))
        case "events" | "priorities":
            return (row for row in jobs if str(row.id) == account)
        case _:
            return None


def job_lines(rows: Iterable[JobRow], *, now: float) -> list[Line]:
    """Return a summary of the jobs that have not ended, and a line for each of the first ones."""
    jobs = sorted((row for row in rows if row.end is None), key=rank)
    if not jobs:
        return [(), (Cell(""), Cell("no jobs now", "muted"))]
    lines: list[Line] = [(), (Cell(""), Cell(f"jobs  {summary(jobs)}", "title"))]
    lines += [_job(row, now) for row in jobs[:MOST_JOBS]]
    more = len(jobs) - MOST_JOBS
    return [*lines, (Cell(""), Cell(f"and {more:,} more", "muted"))] if more > 0 else lines


def _job(row: JobRow, now: float) -> Line:
    style = "HELD" if row.held else row.state
    ran = age(now - row.start) if row.start is not None else clock(row, now)
    gpus = f"{row.gpus} GPU" if row.gpus else f"{row.cpus} CPU"
    return (
        Cell(""),
        Cell(f"{glyph(row.state)} {row.state_short:<3}", style),
        Cell(f"{shortened(row.label, 11):<11} ", "accent"),
        Cell(f"{shortened(printable(row.user), 8):<8} {gpus:>6} {ran:>6}  "),
        Cell(shortened(printable(row.name), MOST_NAME), "muted"),
    )
