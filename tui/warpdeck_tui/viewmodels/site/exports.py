"""Exports ended jobs or their usage into a file, piece by piece.

The extension of the file selects CSV, JSON or Markdown. Names and comments are written by other users. JSON
contains them unchanged. In the other formats they cannot break lines or cells, and cannot act as formulas of
a spreadsheet or as Markdown.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.model.finished_jobs import GroupCost
from warpdeck.notation.values.time_points import moment_text
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.jobs.queue import ran_s
from warpdeck_tui.widgets.cells import printable

from .usage import GROUPS, cost, grouped

FIELDS = (
    *("id", "name", "sweep", "user", "account", "partition", "qos", "state", "exit_code", "exit_cause", "nodes", "node_list"),
    *("cpus", "gpus", "gpu_type", "mem_bytes", "submit", "start", "end", "comment"),
)  # fmt: skip
"""Fields of JobRow that are exported for each job. The id is replaced by the label."""
TIMES = ("submit", "start", "end")
"""Fields that contain times. JSON has them in unix seconds, as usual; the other formats as sacct prints them,
for people and spreadsheets.
"""
Record = dict[str, object]
_FORMULA = ("=", "+", "-", "@", "\n")
_MARKDOWN = re.compile(r"[\\`*\[\]<>|&~]|(?<![^\W_])_|_(?![^\W_])")
"""Characters with a meaning in Markdown. An underscore within a word, as in vit_l, has none."""


class Form(NamedTuple):
    """A file format: the beginning of the file, a function for a piece of records, and the end of the file.

    The flag passed to `piece` is true for the first piece.
    """

    begin: str
    piece: Callable[[Sequence[Record], bool], str]
    end: str


def form_of(path: str) -> Form:
    """Return the format for the extension of this path. Raises UserError."""
    kind = path.rpartition(".")[2].lower() if "." in path else ""
    forms = {"csv": Form("", _csv, ""), "json": Form("[", _json, "\n]\n"), "md": Form("", _markdown, "")}
    if kind not in forms:
        raise UserError(f"Unknown file format: {path!r}", "Use the extension .csv, .json or .md")
    return forms[kind]


def records(rows: Sequence[JobRow]) -> list[Record]:
    """Return the records of these jobs."""
    return [_record(row) for row in rows]


def _record(row: JobRow) -> Record:
    found: Record = {name: getattr(row, name) for name in FIELDS} | {"id": row.label}
    each = cost(row)
    measured = bool(each.measured)
    return found | {
        "elapsed_s": None if row.start is None else round(ran_s(row, row.end or 0.0) or 0.0, 1),
        "gpu_hours": round(each.allocated, 4),
        "gpu_hours_used": round(each.used, 4) if measured else None,
        "gpu_hours_wasted": round(each.wasted, 4) if measured else None,
    }


def cost_records(groups: Sequence[GroupCost]) -> list[Record]:
    """Return the records of all groups, including those that are omitted in the usage tables."""
    return [
        {
            "by": by,
            "name": name,
            "jobs": each.jobs,
            "failed": each.failed,
            "cpu_hours": round(each.cpu_hours, 4),
            "gpu_hours": round(each.allocated, 4),
            "gpu_hours_measured": round(each.measured, 4),
            "gpu_hours_used": round(each.used, 4) if each.measured else None,
            "gpu_hours_wasted": round(each.wasted, 4) if each.measured else None,
        }
        for by, key in GROUPS.items()
        for name, each in grouped(groups, key)
    ]


def _json(found: Sequence[Record], first: bool) -> str:
    joined = ",".join("\n " + json.dumps(record, ensure_ascii=False) for record in found)
    return joined if first or not joined else "," + joined


def _csv(found: Sequence[Record], first: bool) -> str:
    """Return records as CSV. A text that a spreadsheet would take for a formula gets a leading '.

    Line ends within a text are quoted.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, record in enumerate(found):
        if first and not number:
            writer.writerow(record)
        writer.writerow([_tame(value) for value in _readable(record).values()])
    return out.getvalue()


def _readable(record: Record) -> Record:
    """Return the record with its times as text."""
    return record | {name: moment_text(at) for name in TIMES if isinstance(at := record.get(name), float)}


def _tame(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = "\n".join(map(printable, value.splitlines()))
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def _markdown(found: Sequence[Record], first: bool) -> str:
    if not found:
        return ""
    lines = ["| " + " | ".join(found[0]) + " |", "|" + "---|" * len(found[0])] if first else []
    for record in found:
        cells = (
            "" if value is None else _MARKDOWN.sub(r"\\\g<0>", printable(str(value)))
            for value in _readable(record).values()
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
