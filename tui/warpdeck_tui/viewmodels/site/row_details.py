"""The details of a row of a table, one fact per line, and the nodes and jobs that belong to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol.job_rows import JobRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age, glyph, plural, thin_bar
from warpdeck_tui.viewmodels.jobs.order import rank
from warpdeck_tui.viewmodels.jobs.queue import clock, summary, where
from warpdeck_tui.widgets.cell_grid import node_role
from warpdeck_tui.widgets.cells import Gauge, printable, shortened
from warpdeck_tui.widgets.columns import Column

MOST_JOBS = 30
"""Largest number of jobs that are listed. The queue lists all of them."""
MOST_NAME, LEAST_NAME = 16, 4
LEAST_PLACE = 8
"""Least number of columns for the nodes of a job, or the reason why it waits."""
TABLES_OF_JOBS = ("events", "priorities")
"""Tables with one job in each row."""
MOST_NODES = 24
LONGEST_BAR, SHORTEST_BAR = 16, 4
BESIDE_BAR = 26
"""Number of columns that the texts after the bar of a node take."""
MOST_NODE_NAME = 12
NAMES = {"GPUS": "GPUs", "CPUS": "CPUs", "GPU": "GPUs", "QOS": "QoS", "TRES": "TRES"}
"""Words of column titles that are not written in small letters."""


def row_title(table: str, key: str, cells: Sequence[Cell | Gauge]) -> str:
    """Return the title of the pane: the name of the row, for an event its kind and its object, or that of the table without rows."""
    if table == "events" and len(cells) > 2:
        return f"{cells[1].text} {cells[2].text}"
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
        case table if table in TABLES_OF_JOBS:
            return (row for row in jobs if str(row.id) == account)
        case _:
            return None


def jobs_title(jobs: Sequence[JobRow]) -> str:
    """Return a summary of the jobs."""
    return summary(jobs) if jobs else "no jobs now"


def job_lines(rows: Iterable[JobRow], *, now: float, width: int) -> list[Line]:
    """Return a line for each of the first jobs, for a pane of this width."""
    jobs = sorted(rows, key=rank)
    lines = [_job(row, now, width) for row in jobs[:MOST_JOBS]]
    more = len(jobs) - MOST_JOBS
    return [*lines, (Cell(""), Cell(f"and {more:,} more", "muted"))] if more > 0 else lines


def _job(row: JobRow, now: float, width: int) -> Line:
    style = "HELD" if row.held else row.state
    ran = age(now - row.start) if row.start is not None else clock(row, now)
    gpus = f"{row.gpus} GPU" if row.gpus else f"{row.cpus} CPU"
    cells = (
        Cell(""),
        Cell(f"{glyph(row.state)} {row.state_short:<3}", style),
        Cell(f"{shortened(row.label, 11):<11} ", "accent"),
        Cell(f"{shortened(printable(row.user), 8):<8} {gpus:>6} {ran:>6}  "),
    )
    room = width - sum(len(cell.text) for cell in cells)
    name = shortened(printable(row.name), min(MOST_NAME, room)) if room >= LEAST_NAME else ""
    left = room - MOST_NAME - 2
    if left < LEAST_PLACE:
        return *cells, Cell(name, "muted")
    place = where(row, now)
    return *cells, Cell(f"{name:<{MOST_NAME}}  ", "muted"), Cell(shortened(place.text, left), place.style)


def node_lines(nodes: Sequence[NodeRow], *, width: int) -> list[Line]:
    """Return a summary of the free resources of the nodes, and a line for each of the first nodes."""
    if not nodes:
        return []
    has_gpus = any(node.gpus for node in nodes)
    free = [(_free(node, has_gpus=has_gpus), node.name) for node in nodes]
    total = sum(count for count, _ in free)
    most, name = max(free)
    best = f", at most {most} on one node ({name})" if total and len(nodes) > 1 else ""
    words = f"{plural(total, 'GPU' if has_gpus else 'CPU')} free{best}"
    shown = nodes[:MOST_NODES]
    name_width = min(MOST_NODE_NAME, max(len(node.name) for node in shown))
    bar = max(SHORTEST_BAR, min(LONGEST_BAR, width - name_width - BESIDE_BAR))
    lines: list[Line] = [(), (Cell(""), Cell("nodes  ", "title"), Cell(printable(words)))]
    lines += [_node(node, bar, name_width=name_width, has_gpus=has_gpus) for node in shown]
    more = len(nodes) - MOST_NODES
    return [*lines, (Cell(""), Cell(f"and {plural(more, 'node')} more", "muted"))] if more > 0 else lines


def _free(node: NodeRow, *, has_gpus: bool) -> int:
    """Return the number of GPUs or CPUs that a job could get on the node now."""
    if not node.state.startswith(("idle", "mix", "alloc")):
        return 0
    return (
        sum(not gpu.job and not gpu.blocked for gpu in node.gpus) if has_gpus else node.cpus - node.cpus_used
    )


def _node(node: NodeRow, bar: int, *, name_width: int, has_gpus: bool) -> Line:
    used = sum(bool(gpu.job) for gpu in node.gpus) if has_gpus else node.cpus_used
    total = len(node.gpus) if has_gpus else node.cpus
    style = node_role(node.state)
    return (
        Cell(""),
        Cell(f"{shortened(printable(node.name), name_width):<{name_width}} ", "accent"),
        *thin_bar(100 * used / total if total else 0.0, bar, style or "accent"),
        Cell(f" {f'{used}/{total}':>7} {'GPUs' if has_gpus else 'CPUs'}  "),
        Cell(node.state, style or "muted"),
    )
