"""What ended jobs have cost, and the same as a file: by user, account, state and exit reason.

GPU-hours are allocated (GPUs times the time they were held), used (times their mean utilisation), and wasted (times the share
of the time in which a GPU was below 5 %). Where utilisation was not measured nothing is claimed: used and wasted are sums
over what was, and `measured` says how much that is.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from warpdeck.api.rows import JobRow
from warpdeck.errors import UserError
from warpdeck_tui.widgets.cells import fit, printable
from warpdeck_tui.widgets.meter import bar

from .cells import plural
from .queue import how_ended, ran_s

HOUR_S = 3600.0
LONGEST_TABLE = 20
"""Lines of one table; the rest is one line more. A file has all."""
NAME_WIDTH, SHARE_WIDTH = 18, 5
"""A whole line has at most 71 characters: what a dialog has room for on a terminal of 80."""
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
FIELDS = (
    *("id", "name", "user", "account", "partition", "qos", "state", "exit_code", "exit_cause", "nodes", "node_list"),
    *("cpus", "gpus", "gpu_type", "mem_bytes", "submit", "start", "end", "comment"),
)  # fmt: skip
"""Of each job in a file: JobRow's names. The label stands for the id."""


class Cost(NamedTuple):
    """Of one group of jobs. Hours of GPUs, but for `cpu_hours`."""

    jobs: int = 0
    failed: int = 0
    cpu_hours: float = 0.0
    allocated: float = 0.0
    measured: float = 0.0
    used: float = 0.0
    wasted: float = 0.0

    def plus(self, other: Cost) -> Cost:
        """Of both."""
        return Cost(
            jobs=self.jobs + other.jobs,
            failed=self.failed + other.failed,
            cpu_hours=self.cpu_hours + other.cpu_hours,
            allocated=self.allocated + other.allocated,
            measured=self.measured + other.measured,
            used=self.used + other.used,
            wasted=self.wasted + other.wasted,
        )


def cost(row: JobRow) -> Cost:
    """Of one job."""
    hours = (ran_s(row, row.end or 0.0) or 0.0) / HOUR_S
    allocated = hours * row.gpus
    util = row.used.gpu_util_pct if row.used else None
    idle = row.used.gpu_idle_pct if row.used else None
    return Cost(
        jobs=1,
        failed=int(row.state not in ("COMPLETED", "CANCELLED")),
        cpu_hours=hours * row.cpus,
        allocated=allocated,
        measured=0.0 if util is None else allocated,
        used=allocated * (util or 0.0) / 100,
        wasted=allocated * (idle or 0.0) / 100,
    )


def reason(row: JobRow) -> str:
    """Why it ended, without the node."""
    return how_ended(row).partition(" on ")[0]


GROUPS: dict[str, Callable[[JobRow], str]] = {
    "user": lambda row: row.user,
    "account": lambda row: row.account or "none",
    "state": lambda row: row.state,
    "exit reason": reason,
}


def grouped(rows: Iterable[JobRow], key: Callable[[JobRow], str]) -> list[tuple[str, Cost]]:
    """Those that cost most first."""
    found: dict[str, Cost] = {}
    for row in rows:
        name = printable(key(row))
        found[name] = found.get(name, Cost()).plus(cost(row))
    return sorted(found.items(), key=lambda item: (-item[1].allocated, -item[1].jobs, item[0]))


def usage_text(rows: Sequence[JobRow]) -> str:
    """A table for each way to group them, as text for a log view."""
    if not rows:
        return "no job has ended yet that matches\n"
    total = Cost()
    for row in rows:
        total = total.plus(cost(row))
    lines = [*_summary(total), ""]
    for title, key in GROUPS.items():
        lines += _table(title, grouped(rows, key), total)
    return "\n".join(lines) + "\n"


def _summary(total: Cost) -> list[str]:
    lines = [
        f"{plural(total.jobs, 'job')}, {total.failed} failed, {total.allocated:,.1f} GPU-hours allocated"
    ]
    if total.measured:
        used, wasted = 100 * total.used / total.measured, 100 * total.wasted / total.measured
        lines.append(f"{used:.0f} % of them used, {wasted:.0f} % wasted: a GPU was held and below 5 %")
    if total.measured < total.allocated:
        lines.append(f"the use of {total.allocated - total.measured:,.1f} GPU-hours was not measured")
    return lines


def _table(title: str, groups: Sequence[tuple[str, Cost]], total: Cost) -> list[str]:
    heads = f"{'JOBS':>7}{'FAILED':>7}{'CPU-H':>8}{'GPU-H':>8}{'USED':>8}{'WASTED':>8}  SHARE"
    lines = [f"{BOLD}{fit('BY ' + title.upper(), NAME_WIDTH)}{heads}{PLAIN}"]
    shown = list(groups[:LONGEST_TABLE])
    if len(groups) > LONGEST_TABLE:
        rest = Cost()
        for _, each in groups[LONGEST_TABLE:]:
            rest = rest.plus(each)
        shown.append((f"{len(groups) - LONGEST_TABLE} more", rest))
    for name, each in shown:
        share = 100 * each.allocated / total.allocated if total.allocated else 100 * each.jobs / total.jobs
        lines.append(
            f"{fit(name, NAME_WIDTH)}{each.jobs:>7,}{each.failed:>7,}{_hours(each.cpu_hours):>8}"
            f"{_hours(each.allocated):>8}{_known(each.used, each):>8}{_known(each.wasted, each):>8}"
            f"  {bar(share, SHARE_WIDTH)}".rstrip()
        )
    return [*lines, ""]


def _known(hours: float, of: Cost) -> str:
    return _hours(hours) if of.measured else "?" if of.allocated else "·"


def _hours(hours: float) -> str:
    """In seven characters."""
    if hours >= 100_000:
        return f"{hours / 1000:,.0f}k"
    return f"{hours:,.0f}" if hours >= 1000 else f"{hours:.1f}"


def export(rows: Sequence[JobRow], path: str) -> str:
    """The jobs as a file: CSV, JSON or Markdown, as the name's end says. Raises UserError."""
    kind = path.rpartition(".")[2].lower() if "." in path else ""
    writers = {"csv": _csv, "json": _json, "md": _markdown}
    if kind not in writers:
        raise UserError(f"{path!r} names no form of a table", "end the name with .csv, .json or .md")
    return writers[kind]([_record(row) for row in rows])


def _record(row: JobRow) -> dict[str, object]:
    found = {name: getattr(row, name) for name in FIELDS} | {"id": row.label}
    each = cost(row)
    measured = bool(each.measured)
    return found | {
        "elapsed_s": ran_s(row, row.end or 0.0),
        "gpu_hours": round(each.allocated, 4),
        "gpu_hours_used": round(each.used, 4) if measured else None,
        "gpu_hours_wasted": round(each.wasted, 4) if measured else None,
    }


def _json(records: Sequence[dict[str, object]]) -> str:
    return json.dumps(list(records), indent=1) + "\n"


def _csv(records: Sequence[dict[str, object]]) -> str:
    """A text that a spreadsheet would take for a formula gets a ' in front: names of jobs are other people's words."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, record in enumerate(records):
        if not number:
            writer.writerow(record)
        writer.writerow([_tame(value) for value in record.values()])
    return out.getvalue()


def _tame(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value


def _markdown(records: Sequence[dict[str, object]]) -> str:
    if not records:
        return ""
    lines = ["| " + " | ".join(records[0]) + " |", "|" + "---|" * len(records[0])]
    for record in records:
        cells = (
            "" if value is None else printable(str(value)).replace("|", "\\|") for value in record.values()
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
