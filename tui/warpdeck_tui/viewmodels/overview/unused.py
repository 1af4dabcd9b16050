"""Allocated GPUs that are not used, and GPUs that no job can use. Without GPUs: sessions that nobody uses."""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import GpuRow, NodeRow
from warpdeck_tui.viewmodels.cells import Cell, age
from warpdeck_tui.viewmodels.jobs.queue import is_idle, ran_s
from warpdeck_tui.viewmodels.site.idle_gpus import idle_jobs, unmeasured_words
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.columns import Column

from .links import MOST_ROWS, Link, PanelRows, Row

COLUMNS = (
    Column("GPUS", 4, align="right"),
    Column("WHOSE", 7, flex=1, most=14),
    Column("JOB OR NODE", 11, flex=1, most=16),
    Column("STATE", 0, flex=3),
)
SESSION_COLUMNS = (Column("CPUS", 4, align="right"), *COLUMNS[1:])


def unused_gpus(jobs: Iterable[JobRow], nodes: Iterable[NodeRow], now: float) -> PanelRows:
    """Return the idle jobs, the largest first, and then the blocked GPUs of each node."""
    jobs = list(jobs)
    idle = idle_jobs(jobs, now)
    blocked = [row for node in nodes for row in _blocked(node)]
    gpus, lost = sum(row.gpus for row in idle), sum(int(row[1][0].text) for row in blocked)
    words = ", ".join(f"{count} {word}" for count, word in ((gpus, "idle"), (lost, "blocked")) if count)
    title = Cell("Idle and blocked GPUs", "title"), Cell(f"  {words}" if words else "", "PENDING")
    rows = [*(_idle(row, now) for row in idle[:MOST_ROWS]), *blocked[:MOST_ROWS]]
    unknown = unmeasured_words(jobs, now)
    return PanelRows(
        title, rows, f"Idle GPUs are unknown: {unknown}" if unknown else "No GPU is idle or blocked"
    )


def unused_sessions(jobs: Iterable[JobRow], now: float) -> PanelRows:
    """Return the sessions that nobody uses, for a site without GPUs."""
    idle = [row for row in jobs if is_idle(row, now)]
    idle.sort(key=lambda row: (row.idle_since or now, row.id))
    title = Cell("Idle sessions", "title"), Cell(f"  {len(idle)}" if idle else "", "PENDING")
    rows = [_idle(row, now) for row in idle[:MOST_ROWS]]
    return PanelRows(title, rows, "No session is idle")


def _idle(row: JobRow, now: float) -> Row:
    if row.idle_since is not None:
        state = f"unattended {age(now - row.idle_since)}"
    else:
        state = f"{row.gpu_util_pct}% busy, runs {age(ran_s(row, now) or 0)}"
    cells = (
        Cell(str(row.gpus or row.cpus), "PENDING"),
        Cell(printable(row.user)),
        Cell(row.label, "accent"),
        Cell(f"{state}  {row.node_list}", "muted"),
    )
    return Link("job", str(row.id)).key, cells


def _blocked(node: NodeRow) -> list[Row]:
    """Return a row for each reason for which GPUs of the node are blocked."""
    found: dict[str, list[GpuRow]] = {}
    for gpu in node.gpus:
        if reason := gpu.error or gpu.blocked:
            found.setdefault(reason, []).append(gpu)
    return [
        (
            Link("node", node.name).key,
            (
                Cell(str(len(gpus)), "warn"),
                Cell(printable(", ".join(_users(gpus))) or "·", "" if _users(gpus) else "muted"),
                Cell(printable(node.name), "accent"),
                Cell(printable(reason), "muted"),
            ),
        )
        for reason, gpus in found.items()
    ]


def _users(gpus: Iterable[GpuRow]) -> list[str]:
    """Return the users of processes on these GPUs that belong to no job."""
    return sorted({each.user for gpu in gpus for each in gpu.processes if not each.job})
