"""The question before an action on jobs: the affected jobs, the effect, and the equivalent command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import glyph, plural
from warpdeck_tui.widgets.cells import fit, printable

from .arrays import is_task
from .queue import Question, commands, targets, whole_arrays
from .task_choice import effect, one_array

FINAL = {
    "cancel": "There is no undo; {} submits {} again",
    "requeue": "There is no undo; running processes end, and the job starts from its beginning",
    "pause": "There is no undo; the job saves its work, and later starts again from there if its program can",
}
"""The line about the undo of actions that have none. A rerun needs a job that is not interactive."""
LISTED_COLUMNS = 32
"""Largest width of a name in a question, so that the user's name fits beside it in a dialog of 76 columns."""


def confirmation(verb: str, rows: Sequence[JobRow], everything: Iterable[JobRow]) -> Question:
    """Return the question before these rows are canceled, held, released, requeued or paused."""
    there = list(everything)
    names = targets(verb, rows, there)
    wide = min(LISTED_COLUMNS, max(cell_len(printable(row.name)) for row in rows))
    lines = [
        f"{row.label:<12} {glyph(row.state)} {row.state_short:<3} {fit(printable(row.name), wide)}  {printable(row.user)}"
        + (f"  {plural(row.tasks_pending, 'pending task')}" if row.tasks_pending else "")
        for row in rows
    ]
    what = f"job {rows[0].label}" if len(rows) == 1 else plural(len(names), "job")
    if len(names) == 1 and whole_arrays(verb, rows, there):
        what = f"all tasks of array {names[0]}"
    elif len(rows) == 1 and rows[0].tasks_pending:
        what = f"{plural(rows[0].tasks_pending, 'pending task')} of array {rows[0].array_job_id}"
    elif (number := one_array(rows)) is not None:
        what = f"{plural(sum(max(1, row.tasks_pending) for row in rows), 'task')} of array {number}"
    return Question(
        f"{verb.capitalize()} {what}?",
        commands(verb, names),
        tuple(lines),
        "\n".join(filter(None, (effect(verb, rows, there), _final(verb, rows)))),
        tuple(names),
    )


def _final(verb: str, rows: Sequence[JobRow]) -> str:
    """Return a line that says what replaces the undo of an action that has none, else ""."""
    if verb == "cancel" and any(row.interactive for row in rows):
        return "There is no undo; the session ends"
    is_one = len(rows) == 1 and not is_task(rows[0])
    rerun = f"warpdeck rerun {rows[0].label}" if is_one else "warpdeck rerun"
    return FINAL.get(verb, "").format(rerun, "the job" if is_one else "a job")
