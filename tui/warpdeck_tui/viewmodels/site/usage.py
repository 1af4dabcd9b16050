"""The resource usage of ended jobs, by user, account, partition, state and exit reason.

Allocated GPU-hours are GPUs times the time they were held. Used GPU-hours are multiplied by the mean
utilization, and wasted ones by the share of time in which a GPU was below 5 %. Used and wasted are sums over
the jobs whose utilization was measured; `measured` contains the GPU-hours of these jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from warpdeck.model.finished_jobs import Cost, GroupCost, cost_of
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.jobs.queue import ran_s
from warpdeck_tui.widgets.cells import fit, printable
from warpdeck_tui.widgets.meter import thin

LONGEST_TABLE = 20
"""Largest number of lines in one table. The remaining groups are summed up in one more line. An exported file
contains all.
"""
NAME_WIDTH, SHARE_WIDTH = 19, 5
"""Widths of columns. A whole line has at most 71 characters, which fits into a dialog on a terminal with 80
columns.
"""
FEW_HOURS, LEAST_HOURS = 10.0, 0.01
"""Below FEW_HOURS, hundredths are shown. Less than LEAST_HOURS is not mentioned, because it would be shown as
0.
"""
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def cost(row: JobRow) -> Cost:
    """Return the usage of one job."""
    return cost_of(
        state=row.state,
        ran_s=ran_s(row, row.end or 0.0) or 0.0,
        cpus=row.cpus,
        gpus=row.gpus,
        util_pct=row.used.gpu_util_pct if row.used else None,
        idle_pct=row.used.gpu_idle_pct if row.used else None,
    )


GROUPS: dict[str, Callable[[GroupCost], str]] = {
    "user": lambda group: group.user,
    "account": lambda group: group.account or "none",
    "partition": lambda group: group.partition,
    "state": lambda group: group.state,
    "exit reason": lambda group: group.reason,
}


def grouped(groups: Iterable[GroupCost], key: Callable[[GroupCost], str]) -> list[tuple[str, Cost]]:
    """Return the usage of each group, the largest first."""
    found: dict[str, Cost] = {}
    for group in groups:
        name = printable(key(group))
        found[name] = found.get(name, Cost()).plus(group.cost)
    return sorted(found.items(), key=lambda item: (-item[1].allocated, -item[1].jobs, item[0]))


def usage_text(groups: Sequence[GroupCost]) -> str:
    """Return a table for each kind of group, as text for a log view."""
    if not groups:
        return "No finished jobs match\n"
    total = Cost()
    for group in groups:
        total = total.plus(group.cost)
    lines = [*_summary(total), ""]
    for title, key in GROUPS.items():
        lines += _table(title, grouped(groups, key), total)
    return "\n".join(lines) + "\n"


def _summary(total: Cost) -> list[str]:
    places = _places(total)
    lines = [
        f"{total.jobs:,} job{'' if total.jobs == 1 else 's'}, {total.failed:,} failed,"
        f" {_hours(total.allocated, places)} GPU-hours allocated"
    ]
    if total.measured:
        used, wasted = 100 * total.used / total.measured, 100 * total.wasted / total.measured
        lines.append(
            f"{used:.0f} % of them used, {wasted:.0f} % wasted (allocated GPUs below 5 % utilization)"
        )
    unknown = total.allocated - total.measured
    if unknown >= LEAST_HOURS:
        lines.append(f"No utilization data for {_hours(unknown, places)} GPU-hours")
    return lines


def _table(title: str, groups: Sequence[tuple[str, Cost]], total: Cost) -> list[str]:
    heads = f"{'JOBS':>7}{'FAILED':>7}{'CPU-H':>8}{'GPU-H':>8}{'USED':>8}{'WASTED':>8} SHARE"
    lines = [f"{BOLD}{fit('BY ' + title.upper(), NAME_WIDTH)}{heads}{PLAIN}"]
    places, shown = _places(total), list(groups[:LONGEST_TABLE])
    if len(groups) > LONGEST_TABLE:
        rest = Cost()
        for _, each in groups[LONGEST_TABLE:]:
            rest = rest.plus(each)
        shown.append((f"{len(groups) - LONGEST_TABLE} more", rest))
    for name, each in shown:
        share = 100 * each.allocated / total.allocated if total.allocated else 100 * each.jobs / total.jobs
        lines.append(
            f"{fit(name, NAME_WIDTH)}{each.jobs:>7,}{each.failed:>7,}{_hours(each.cpu_hours, places):>8}"
            f"{_hours(each.allocated, places):>8}{_known(each.used, each, places):>8}{_known(each.wasted, each, places):>8}"
            f" {''.join(thin(share, SHARE_WIDTH))}"
        )
    return [*lines, ""]


def _known(hours: float, of: Cost, places: int) -> str:
    return _hours(hours, places) if of.measured else "?" if of.allocated else "·"


def _hours(hours: float, places: int) -> str:
    """Return hours in at most seven characters."""
    if hours >= 100_000:
        return f"{hours / 1000:,.0f}k"
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.{places}f}"


def _places(total: Cost) -> int:
    """Return the number of decimals, which is the same in a whole table.

    It is larger for small totals, such as a user's first jobs.
    """
    return 1 if total.allocated >= FEW_HOURS else 2
