"""GPUs that are allocated but not used: their jobs, and the GPU-hours that were wasted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from warpdeck.protocol.job_rows import JobRow, UsageRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age, plural
from warpdeck_tui.viewmodels.jobs.queue import is_idle, is_unmeasured, ran_s
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.columns import Column

MAX_ASKED = 100
"""Largest number of jobs whose utilization is requested at once, because each request also goes to the job's
nodes.
"""
IDLE_COLUMNS = (
    Column("JOB", 10, flex=1, most=18),
    Column("USER", 8, flex=1, most=16),
    Column("GPU", 3, align="right"),
    Column("RUNS", 7, align="right"),
    Column("IDLE", 5, align="right"),
    Column("WASTED", 9, align="right"),
    Column("NODES AND NAME", 0, flex=4),
)


class Waste(NamedTuple):
    """An idle job. `idle_pct` and `gpu_hours` are None while they are unknown."""

    row: JobRow
    idle_pct: float | None
    gpu_hours: float | None


def idle_jobs(jobs: Iterable[JobRow], now: float) -> list[JobRow]:
    """Return the jobs whose GPUs are idle now, ordered by allocated GPU time, the largest first."""
    found = [row for row in jobs if row.gpus and is_idle(row, now)]
    return sorted(found, key=lambda row: (-row.gpus * (ran_s(row, now) or 0), row.id))


def wastes(rows: Iterable[JobRow], used: Mapping[int, UsageRow], now: float) -> list[Waste]:
    """Return the waste of these jobs, the largest first. Unknown values come last."""
    found = [_waste(row, used.get(row.id), now) for row in rows]
    return sorted(found, key=lambda waste: (-(waste.gpu_hours or -1.0), waste.row.id))


def _waste(row: JobRow, used: UsageRow | None, now: float) -> Waste:
    share = used.gpu_idle_pct if used is not None else None
    hours = None if share is None else row.gpus * (ran_s(row, now) or 0) / 3600 * share / 100
    return Waste(row, share, hours)


def waste_row(waste: Waste, *, now: float) -> tuple[str, Line]:
    """Return the key of the job and its cells."""
    row = waste.row
    return str(row.id), (
        Cell(row.label, "accent"),
        Cell(printable(row.user)),
        Cell(str(row.gpus)),
        Cell(age(ran_s(row, now) or 0), "muted"),
        Cell("?" if waste.idle_pct is None else f"{waste.idle_pct:.0f}%", "warn"),
        Cell("?" if waste.gpu_hours is None else f"{waste.gpu_hours:.1f} h", "warn"),
        Cell(f"{row.node_list}  {printable(row.name)}", "muted"),
    )


def unmeasured_words(jobs: Iterable[JobRow], now: float) -> str:
    """Return the number of running jobs with GPUs without readings, which may be idle, or "" if there are none."""
    count = sum(is_unmeasured(row, now) for row in jobs)
    return f"{plural(count, 'job')} with GPUs {'has' if count == 1 else 'have'} no readings" if count else ""


def idle_words(found: list[Waste], *, unmeasured: str = "") -> str:
    """Return a summary, such as "12 GPUs of 3 jobs are idle; 41.5 GPU-hours wasted".

    `unmeasured` is a text about the jobs without readings.
    """
    return f"{_idle_words(found)}; {unmeasured}" if unmeasured else _idle_words(found)


def _idle_words(found: list[Waste]) -> str:
    if not found:
        return "No idle GPUs"
    gpus = sum(waste.row.gpus for waste in found)
    known = [waste.gpu_hours for waste in found if waste.gpu_hours is not None]
    does = "is" if gpus == 1 else "are"
    wasted = f"; {sum(known):.1f} GPU-hours wasted" if known else ""
    return f"{plural(gpus, 'GPU')} of {plural(len(found), 'job')} {does} idle{wasted}"
