"""What the queue says of a job: where it runs, why it waits, how it ended, how far it is; and what verbs on jobs meet."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from rich.cells import cell_len

from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age, due, glyph, left, plural
from warpdeck_tui.widgets.cells import fit, printable, shortened
from warpdeck_tui.widgets.meter import bar

from .arrays import Fold, is_task
from .order import rank
from .verbs import WHOLE_ARRAYS, refusal

DAY_S = 86_400
NAME_COLUMNS = 72
"""Of a name in a sentence: beyond it is a file's path or a whole command, and the sentence would be out of sight."""
LISTED_COLUMNS = 32
"""Of a name in a question: in a dialog of 76 columns its user has room behind it."""
MAX_NAME = 1000
"""Characters of one name of jobs; a request takes 1,024."""
IDLE_BELOW_PCT = 5
"""What the accounting of GPUs calls idle."""
STARTS_UP_S = 120.0
"""Imports and the loading of data: GPUs that do nothing say nothing yet."""


def tasks_of(row: JobRow, jobs: Iterable[JobRow]) -> list[JobRow]:
    """The tasks that have begun of the array whose waiting rest `row` is, running ones first."""
    begun = [each for each in jobs if each.array_job_id == row.array_job_id and each.state != "PENDING"]
    return sorted(begun, key=rank)


def ran_s(row: JobRow, now: float) -> float | None:
    """Seconds that it ran, or has run until now."""
    return None if row.start is None else max(0.0, (now if row.end is None else row.end) - row.start)


def clock(row: JobRow, now: float) -> str:
    """Time run, from a day on as days-hours:minutes; of a waiting job when it should start, after a "≈", or that it is due."""
    ran = ran_s(row, now)
    if ran is not None:
        return (
            format_duration(ran)
            if ran < DAY_S
            else f"{ran // DAY_S:.0f}-{ran % DAY_S // 3600:02.0f}:{ran % 3600 // 60:02.0f}"
        )
    if row.why is not None and row.why.expected_start is not None:
        until = left(row.why.expected_start, now)
        return f"≈{until}" if until else "soon"
    return ""


def used_of_limit(row: JobRow, now: float) -> float | None:
    """The share of its time limit that is gone, in percent; None without a limit or when it does not run."""
    ran = ran_s(row, now)
    if ran is None or row.end is not None or not row.time_limit_s:
        return None
    return 100 * ran / row.time_limit_s


def progress(row: JobRow, now: float, width: int) -> str:
    """The time that is gone as a bar; "" where it does not run, or without a limit."""
    used = used_of_limit(row, now)
    return "" if used is None else bar(used, width).rstrip().ljust(width, "░")


def is_idle(row: JobRow, now: float) -> bool:
    """Whether it holds GPUs that do nothing, after the time that a start may take; or a terminal that nobody uses."""
    if row.state != "RUNNING" or (ran_s(row, now) or 0) < STARTS_UP_S:
        return False
    still = row.gpus and row.gpu_util_pct is not None and row.gpu_util_pct < IDLE_BELOW_PCT
    return bool(still or row.idle_since is not None)


def where(row: JobRow, now: float) -> Cell:
    """Where it runs, why it waits, or how it ended: what matters first, for the column may be narrow."""
    if row.end is not None:
        at = f", {row.node_list}" if row.node_list else ""
        style = "muted" if row.state == "COMPLETED" else row.state
        return Cell(f"{printable(row.reason)}, {age(now - row.end)} ago{at}", style)
    if row.why is not None:
        return Cell(_what_is_missing(row.why.sentence) or row.why.code)
    stopped = "suspended on " if row.state == "SUSPENDED" else ""
    idle = f", idle {age(now - row.idle_since)}" if row.idle_since is not None else ""
    return Cell(stopped + row.node_list + (f"  interactive{idle}" if row.interactive else ""))


def _what_is_missing(sentence: str) -> str:
    """The reason without what the job asked for ("waits for 4 GPUs on one node: n05 has 2 free"): the row shows that already."""
    wants, colon, missing = sentence.partition(": ")
    return missing if colon and wants.startswith("waits for ") else sentence


def full_name(row: JobRow) -> str:
    """Of a task of a sweep with what it has of it: "vit lr=0.1 seed=3"."""
    return f"{row.name} {row.sweep}" if row.sweep else row.name


def in_full(row: JobRow, *, now: float) -> Line:
    """One job in a sentence: where it runs and how, the whole reason why it waits, or how it ended."""
    name = Cell(f"{row.label} {shortened(printable(full_name(row)), NAME_COLUMNS)}  ", "accent")
    if row.end is not None:
        ran = f", after {format_duration(ran_s(row, now))}" if row.start else ""
        return name, Cell(f"{how_ended(row)}, {age(now - row.end)} ago", where(row, now).style), Cell(ran)
    if row.why is not None:
        start = row.why.expected_start
        soon = f"  It should start {due(start, now)}." if start is not None else ""
        return name, Cell(printable(row.why.sentence or row.why.code)), Cell(soon, "muted")
    limit = format_duration(row.time_limit_s) if row.time_limit_s else "no limit"
    use = f", {row.gpu_util_pct}% busy" if row.gpu_util_pct is not None else ""
    has = f"{plural(row.cpus, 'CPU')}" + (f", {plural(row.gpus, 'GPU')}{use}" if row.gpus else "")
    stopped = "suspended " if row.state == "SUSPENDED" else ""
    ran = format_duration(ran_s(row, now) or 0)
    return name, Cell(f"{stopped}on {row.node_list or '...'} with {has}, {ran} of {limit}")


def array_in_full(array: Fold, *, now: float) -> Line:
    """An array in a sentence: how many of its tasks do what, what they hold, and why the rest waits."""
    head, waiting = array.head, array.waiting
    counts = ", ".join(f"{count} {_STATE_WORDS.get(short, short)}" for count, short in array.counts())
    gpus = sum(row.gpus for row in array.running())
    holds = f" on {plural(gpus, 'GPU')}" if gpus else ""
    why = ""
    if waiting is not None and waiting.why is not None:
        start = waiting.why.expected_start
        soon = f" The next should start {due(start, now)}." if start is not None else ""
        why = f"  {printable(waiting.why.sentence or waiting.why.code)}.{soon}"
    name = Cell(f"{array.label} {shortened(printable(head.name), NAME_COLUMNS)}  ", "accent")
    return name, Cell(counts + holds), Cell(why, "muted")


_STATE_WORDS = {
    "R": "running",
    "CG": "ending",
    "CF": "starting",
    "S": "suspended",
    "PD": "waiting",
    "CD": "done",
    "F": "failed",
    "CA": "cancelled",
    "TO": "over their time limit",
    "OOM": "out of memory",
    "NF": "lost with their node",
    "PR": "preempted",
}


def how_ended(row: JobRow) -> str:
    """The exit in words: "exit 0 on gpu01", "signal 9 (oom) on gpu01", "cancelled", or why it never started."""
    return printable(row.reason) + (f" on {row.node_list}" if row.node_list else "")


def summary(jobs: Iterable[JobRow]) -> str:
    """ "3 running, 1 suspended, 12 waiting"."""
    running = suspended = waiting = 0
    for row in jobs:
        suspended += row.state == "SUSPENDED"
        running += row.state in ("RUNNING", "CONFIGURING", "COMPLETING")
        waiting += max(1, row.tasks_pending) if row.state == "PENDING" else 0
    stopped = f"{suspended} suspended, " if suspended else ""
    return f"{running} running, {stopped}{waiting} waiting"


def names_of(row: JobRow) -> list[str]:
    """The names by which a verb means this line and nothing else: `12`, `12_3`, or the waiting tasks of an array, `12_[4-9,11]`.

    One name is at most MAX_NAME long, so many scattered tasks take several.
    """
    if not row.tasks_pending or len(row.label) <= MAX_NAME:
        return [row.label]
    array, _, tasks = row.label.partition("_")
    names, piece = [], ""
    for part in tasks.strip("[]").split(","):
        if piece and len(piece) + len(part) > MAX_NAME:
            names.append(f"{array}_[{piece}]")
            piece = ""
        piece = f"{piece},{part}" if piece else part
    return [*names, f"{array}_[{piece}]"]


def whole_arrays(verb: str, rows: Sequence[JobRow], everything: Iterable[JobRow]) -> set[int]:
    """Arrays of which the rows are all that the verb can meet, and more than one row."""
    if verb not in WHOLE_ARRAYS:
        return set()
    chosen = {row.id for row in rows}
    arrays = {row.array_job_id for row in rows if is_task(row)}
    met = [row for row in everything if row.array_job_id in arrays and not refusal(verb, row)]
    left_out = {row.array_job_id for row in met if row.id not in chosen}
    counts = Counter(row.array_job_id for row in met)
    return {array for array in arrays - left_out if counts[array] > 1}


def targets(verb: str, rows: Sequence[JobRow], everything: Iterable[JobRow]) -> list[str]:
    """The names of these rows for a command line. An array goes by its number where the verb meets all of it."""
    whole = whole_arrays(verb, rows, everything)
    names = ([str(row.array_job_id)] if row.array_job_id in whole else names_of(row) for row in rows)
    return list(dict.fromkeys(chain.from_iterable(names)))


def only_waiting(name: str) -> bool:
    """Whether the name means waiting tasks of an array and none that has begun meanwhile."""
    return name.endswith("]")


def commands(verb: str, names: Sequence[str]) -> str:
    """The command lines that do the same as the verb does here on jobs of these names."""
    waiting = [name for name in names if verb == "cancel" and only_waiting(name)]
    others = [name for name in names if name not in waiting]
    lines = [shlex.join(["warpdeck", verb, *others])] if others else []
    if waiting:
        lines.append(shlex.join(["warpdeck", verb, "--state", "PD", *waiting]))
    return "; ".join(lines)


class Question(NamedTuple):
    """What is asked before something is changed, the command line that does the same, and a line for each job it meets."""

    text: str
    command: str
    lines: tuple[str, ...] = ()


def confirmation(verb: str, rows: Sequence[JobRow], everything: Iterable[JobRow]) -> Question:
    """Of cancel, hold, release or requeue on these rows."""
    there = list(everything)
    names = targets(verb, rows, there)
    wide = min(LISTED_COLUMNS, max(cell_len(printable(row.name)) for row in rows))
    lines = [
        f"{row.label:<12} {glyph(row.state)} {row.state_short:<3} {fit(printable(row.name), wide)}  {printable(row.user)}"
        + (f"  {plural(row.tasks_pending, 'waiting task')}" if row.tasks_pending else "")
        for row in rows
    ]
    what = f"job {rows[0].label}" if len(rows) == 1 else plural(len(names), "job")
    if len(names) == 1 and whole_arrays(verb, rows, there):
        what = f"the whole array {names[0]}"
    elif len(rows) == 1 and rows[0].tasks_pending:
        what = f"{plural(rows[0].tasks_pending, 'waiting task')} of array {rows[0].array_job_id}"
        begun = sum(row.end is None for row in tasks_of(rows[0], there))
        if begun:
            lines.append(f"{plural(begun, 'task')} that {'has' if begun == 1 else 'have'} begun will go on")
    return Question(f"{verb.capitalize()} {what}?", commands(verb, names), tuple(lines))
