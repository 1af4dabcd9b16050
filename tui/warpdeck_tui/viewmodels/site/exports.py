"""Ended jobs, or what they have cost, as a file, piece by piece: CSV, JSON or Markdown, as the name's end says.

Names and comments are other people's words: JSON has them as they are, in the others they break no line and no cell, and mean
nothing to a spreadsheet or to what shows Markdown.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.model.past import GroupCost
from warpdeck.notation.values.time_points import moment_text
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.jobs.queue import ran_s
from warpdeck_tui.widgets.cells import printable

from .usage import GROUPS, cost, grouped

FIELDS = (
    *("id", "name", "sweep", "user", "account", "partition", "qos", "state", "exit_code", "exit_cause", "nodes", "node_list"),
    *("cpus", "gpus", "gpu_type", "mem_bytes", "submit", "start", "end", "comment"),
)  # fmt: skip
"""Of each job: JobRow's names. The label stands for the id."""
TIMES = ("submit", "start", "end")
"""In JSON as everywhere, in unix seconds; where people read them, and spreadsheets reckon with them, as sacct prints them."""
Record = dict[str, object]
_FORMULA = ("=", "+", "-", "@", "\n")
_MARKDOWN = re.compile(r"[\\`*\[\]<>|&~]|(?<![^\W_])_|_(?![^\W_])")
"""What would be more than a letter there; within a word, as in vit_l, a _ is one."""


class Form(NamedTuple):
    """How a file begins, what stands for a piece of jobs (of which the flag says whether it is the first), and the end."""

    begin: str
    piece: Callable[[Sequence[Record], bool], str]
    end: str


def form_of(path: str) -> Form:
    """By the end of the file's name. Raises UserError."""
    kind = path.rpartition(".")[2].lower() if "." in path else ""
    forms = {"csv": Form("", _csv, ""), "json": Form("[", _json, "\n]\n"), "md": Form("", _markdown, "")}
    if kind not in forms:
        raise UserError(f"{path!r} names no form of a table", "end the name with .csv, .json or .md")
    return forms[kind]


def records(rows: Sequence[JobRow]) -> list[Record]:
    """What a file says of each job."""
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
    """What a file says of each group that the usage shows, and of all those that it has no room for."""
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
    """A text that a spreadsheet would take for a formula gets a ' in front. Line ends within a text stay: they are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number, record in enumerate(found):
        if first and not number:
            writer.writerow(record)
        writer.writerow([_tame(value) for value in _readable(record).values()])
    return out.getvalue()


def _readable(record: Record) -> Record:
    """The record with its times in words."""
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
