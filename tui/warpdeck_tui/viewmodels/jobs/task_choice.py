"""Chooses tasks of an array for an action, and says which tasks the action affects and which it does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.notation.values.arrays import MAX_TASKS, number_ranges
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import plural

from .arrays import is_task

EXAMPLES = "Examples: 12, 3-9, 16- (from 16 on), -7 (up to 7), 2,5,8-"
MAX_SHOWN = 60
"""Largest number of characters of task numbers in a sentence."""
_RANGE = re.compile(r"(\d{1,9})?(?:(-)(\d{1,9})?(?::(\d{1,9}))?)?")
EFFECTS = {
    "cancel": "Ends",
    "hold": "Holds",
    "release": "Releases",
    "requeue": "Stops and requeues",
    "pause": "Pauses",
}


def one_array(rows: Sequence[JobRow]) -> int | None:
    """Return the number of the array if the rows are several tasks of one array, or None."""
    arrays = {row.array_job_id for row in rows}
    if len(arrays) != 1 or not all(is_task(row) for row in rows):
        return None
    return arrays.pop() if len(rows) > 1 or rows[0].tasks_pending > 1 else None


def pending_only(rows: Iterable[JobRow]) -> list[JobRow]:
    """Return the rows without the tasks and jobs that have started."""
    return [row for row in rows if row.state == "PENDING"]


def chosen_tasks(rows: Sequence[JobRow], text: str) -> list[JobRow]:
    """Return the rows of the tasks with these numbers, such as "3-9", "16-" or "-7".

    The row of the pending tasks is reduced to those that are chosen. Raises UserError.
    """
    ranges = [_range(piece.strip()) for piece in text.split(",")]
    found: list[JobRow] = []
    for row in rows:
        numbers = task_numbers(row)
        kept = [number for number in numbers if any(_holds(each, number) for each in ranges)]
        if len(kept) == len(numbers):
            found.append(row)
        elif kept:
            label = f"{row.array_job_id}_[{number_ranges(kept)}]"
            found.append(msgspec.structs.replace(row, label=label, tasks_pending=len(kept)))
    if not found:
        there = number_ranges(number for row in rows for number in task_numbers(row))
        raise UserError(f"No task {text}", f"The tasks are {_shortened(there)}")
    return found


def _range(piece: str) -> tuple[int, int, int]:
    """Return (first, last, step). A missing end means the first or the last task."""
    match = _RANGE.fullmatch(piece)
    if match is None or not piece or piece == "-":
        raise UserError(f"{piece!r} is not a task number or a range", EXAMPLES)
    first = int(match[1] or 0)
    last = int(match[3]) if match[3] else (MAX_TASKS**2 if match[2] else first)
    if last < first:
        raise UserError(f"The range {piece} is empty", "Enter the smaller number first")
    return first, last, max(1, int(match[4] or 1))


def _holds(span: tuple[int, int, int], number: int) -> bool:
    first, last, step = span
    return first <= number <= last and not (number - first) % step


def task_numbers(row: JobRow) -> list[int]:
    """Return the task numbers of a row: one number, or those of all pending tasks that the row stands for."""
    if not row.tasks_pending:
        return [] if row.array_task_id is None else [row.array_task_id]
    pieces = row.label.partition("_")[2].partition("%")[0].strip("[]").split(",")
    return [
        number
        for first, last, step in (_range(piece) for piece in pieces if piece)
        for number in range(first, last + 1, step)
    ]


def pending_numbers(rows: Iterable[JobRow]) -> str:
    """Return the numbers of the pending tasks as ranges, such as "8-45", or "" if there are none."""
    return number_ranges(number for row in pending_only(rows) for number in task_numbers(row))


def effect(verb: str, rows: Sequence[JobRow], everything: Iterable[JobRow]) -> str:
    """Return one line that says which tasks the action affects, and which tasks of these arrays it does not.

    An example is "Ends 30 pending tasks; 8 running and 8 pending tasks stay". For rows that belong to no array, return "".
    """
    arrays = {row.array_job_id for row in rows if is_task(row)}
    if not arrays or any(not is_task(row) for row in rows):
        return ""
    met = _counts(rows)
    there = [row for row in everything if row.array_job_id in arrays and row.end is None and is_task(row)]
    stay = {kind: count - met.get(kind, 0) for kind, count in _counts(there).items()}
    stay = {kind: count for kind, count in stay.items() if count > 0}
    words = f"{EFFECTS[verb]} {_in_words(met)}"
    if verb == "requeue":
        return words
    return (
        f"{words}; {_in_words(stay)} {'stay' if sum(stay.values()) > 1 else 'stays'}"
        if stay
        else f"{words}; none stay"
    )


def _counts(rows: Iterable[JobRow]) -> dict[str, int]:
    counts = {"running": 0, "pending": 0, "ended": 0}
    for row in rows:
        kind = "ended" if row.end is not None else "pending" if row.state == "PENDING" else "running"
        counts[kind] += max(1, row.tasks_pending)
    return {kind: count for kind, count in counts.items() if count}


def _in_words(counts: dict[str, int]) -> str:
    """Return counts in words, such as "8 running and 30 pending tasks"."""
    total = sum(counts.values())
    parts = [f"{count:,} {kind}" for kind, count in counts.items()]
    return f"{' and '.join(parts)} {plural(total, 'task').partition(' ')[2]}"


def _shortened(numbers: str) -> str:
    return numbers if len(numbers) <= MAX_SHOWN else f"{numbers[:MAX_SHOWN].rpartition(',')[0]},..."
