"""The preview of a sweep: number of tasks, upper limit of the GPU-hours, and commands of each task."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.model import Request
from warpdeck.notation.reading.script import script_options
from warpdeck.notation.request.job_request import parse_request
from warpdeck.notation.request.sweep import Grid, pairs, parse_grid, substituted, task_count, values_of
from warpdeck.notation.values.durations import format_duration
from warpdeck_tui.viewmodels.cells import Cell, Line, plural
from warpdeck_tui.viewmodels.job_form.form import Sheet, in_words, typed
from warpdeck_tui.viewmodels.job_form.script import body_of
from warpdeck_tui.widgets.cells import printable

MAX_SHOWN = 1000
"""Largest number of tasks in the list. The others are only counted."""
SECONDS_PER_HOUR = 3600


class Preview(NamedTuple):
    """The preview. `words` is the summary or an error, `rows` are the table rows (task, cells)."""

    words: str
    rows: list[tuple[str, Line]]
    wrong: bool = False


def preview(sheet: Sheet, grid_text: str, *, now: float) -> Preview:
    """Return a preview of the tasks that the form would submit with this sweep."""
    try:
        grid = parse_grid(grid_text)
        swept = typed(sheet, "sweep", grid_text)
        options = script_options(swept.text, "script")
        request = msgspec.convert(parse_request(options, {}, now=now)[0], Request)
    except UserError as error:
        return Preview(in_words(error), [], wrong=True)
    except msgspec.ValidationError as error:
        return Preview(f"Invalid options: {error}", [], wrong=True)
    if not grid:
        return Preview("No sweep: one job", [])
    shown = min(task_count(grid), MAX_SHOWN)
    rows = [(str(task), _row(swept, values_of(grid, task), task)) for task in range(shown)]
    unused = _unused(body_of(swept.text), grid)
    words = _sum(request, task_count(grid))
    if unused and not sheet.value("script"):
        words += f"   ⚠ ${unused[0]} is not used in the script"
    return Preview(words, rows)


def _sum(request: Request, tasks: int) -> str:
    gpus, limit_s = request.resources.gpu_count(), request.time_limit_s
    each = f" with {plural(gpus, 'GPU')} each" if gpus else ""
    if limit_s is None:
        return f"{plural(tasks, 'task')}{each}, with the partition's time limit"
    what, size = ("GPU", gpus) if gpus else ("CPU", request.resources.task_count())
    hours = tasks * size * limit_s / SECONDS_PER_HOUR
    total = f"{hours:,.0f}" if hours >= 10 else f"{hours:.3g}"
    return f"{plural(tasks, 'task')}{each}, {format_duration(limit_s)} each: up to {total} {what}-hours"


def _row(sheet: Sheet, values: dict[str, str], task: int) -> Line:
    """Return the commands that contain a parameter or, if there are none, the values and the first
    command.
    """
    lines = body_of(sheet.text).splitlines()
    named = [substituted(line, values).strip() for line in lines if substituted(line, values) != line]
    if named:
        return Cell(str(task), "accent"), Cell(printable("; ".join(named)))
    first = sheet.value("script") or next((line.strip() for line in lines if line.strip()), "")
    return Cell(str(task), "accent"), Cell(printable(f"{pairs(values)}  {first}"))


def _unused(body: str, grid: Grid) -> list[str]:
    """Return the parameters that the commands do not contain.

    The program may still read them from its environment.
    """
    return [each.name for each in grid if not re.search(rf"\b{re.escape(each.name)}\b", body)]
