"""Texts about a job in the queue, and the jobs affected by an action.

The texts say where a job runs, why it waits, how it ended, and how far it is.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from warpdeck.base.errors import UserError
from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.viewmodels.cells import Cell, Line, age, due, left, plural
from warpdeck_tui.widgets.cells import printable, shortened

from .arrays import Fold, is_task
from .order import rank
from .verbs import WHOLE_ARRAYS, refusal
from .waiting import short_reason, whole_reason, why_words

DAY_S = 86_400
NAME_COLUMNS = 72
"""Largest width of a name in a sentence. Longer names are paths or whole commands, which would hide the
rest.
"""
MAX_NAME = 1000
"""Largest length in characters of one name for a set of jobs. A request allows 1,024."""
IDLE_BELOW_PCT = 5
"""Utilization below which the accounting counts a GPU as idle."""
LAUNCH_FAILED = "launch_failed"
NONE_LOST: Mapping[str, float | None] = {}
STARTS_UP_S = 120.0
"""Seconds after the start in which GPUs may be idle, because the job imports modules and loads data."""


def tasks_of(row: JobRow, jobs: Iterable[JobRow]) -> list[JobRow]:
    """Return the started tasks of an array, the running ones first. `row` is the row of its pending tasks."""
    begun = [each for each in jobs if each.array_job_id == row.array_job_id and each.state != "PENDING"]
    return sorted(begun, key=rank)


def ran_s(row: JobRow, now: float) -> float | None:
    """Return the seconds that the job has run, or None if it has not started."""
    return None if row.start is None else max(0.0, (now if row.end is None else row.end) - row.start)


def clock(row: JobRow, now: float) -> str:
    """Return the elapsed time, from one day on as days-hours:minutes.

    For a waiting job, return the time until its expected start after "≈", or "soon" if that is past.
    """
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
    """Return the elapsed percentage of the time limit, or None if the job has no limit or is not running."""
    ran = ran_s(row, now)
    if ran is None or row.end is not None or not row.time_limit_s:
        return None
    return 100 * ran / row.time_limit_s


def is_idle(row: JobRow, now: float) -> bool:
    """Return whether the job holds idle GPUs after its startup time, or a terminal that nobody uses."""
    if row.state != "RUNNING" or (ran_s(row, now) or 0) < STARTS_UP_S:
        return False
    still = row.gpus and row.gpu_util_pct is not None and row.gpu_util_pct < IDLE_BELOW_PCT
    return bool(still or row.idle_since is not None)


def is_unmeasured(row: JobRow, now: float) -> bool:
    """Return whether the job holds GPUs that nobody measures, so that they had no reading by the end of its startup time."""
    return bool(row.gpus and row.gpu_util_pct is None and row.state == "RUNNING") and (
        (ran_s(row, now) or 0) >= STARTS_UP_S
    )


def where(row: JobRow, now: float, *, place: int = 0) -> Cell:
    """Return where the job runs, why it waits, or how it ended.

    The most important part comes first, because the column may be narrow. `place` is the place in line of a waiting
    job, or 0.
    """
    if row.end is not None:
        at = f", {row.node_list}" if row.node_list else ""
        style = "muted" if row.state == "COMPLETED" else row.state
        return Cell(f"{end_words(row)}, {age(now - row.end)} ago{at}", style)
    if row.why is not None:
        return Cell(short_reason(row.why, place))
    stopped = "suspended on " if row.state == "SUSPENDED" else ""
    idle = f", idle {age(now - row.idle_since)}" if row.idle_since is not None else ""
    return Cell(stopped + row.node_list + (f"  interactive{idle}" if row.interactive else ""))


def full_name(row: JobRow) -> str:
    """Return the name of a job. For a task of a sweep, its values are added, such as "vit lr=0.1 seed=3"."""
    return f"{row.name} {row.sweep}" if row.sweep else row.name


def unreachable(row: JobRow, lost: Mapping[str, float | None], *, now: float) -> str:
    """Return which of the job's nodes are unreachable and for how long, or "" if none is.

    `lost` are the unreachable nodes, with the time of their last reading.
    """
    if not lost or row.end is not None or not row.node_list:
        return ""
    found = [name for name in _names(row.node_list) if name in lost]
    if not found:
        return ""
    at = max((at for name in found if (at := lost[name]) is not None), default=None)
    since = f" for {age(now - at)}" if at is not None else ""
    which = found[0] if len(found) == 1 else f"{len(found)} nodes"
    return f"{printable(which)} unreachable{since}"


@lru_cache(maxsize=1024)
def _names(node_list: str) -> tuple[str, ...]:
    from warpdeck.notation.values.hostlist import (
        expand,  # only for unreachable nodes, so not before the first frame
    )

    try:
        return tuple(expand(node_list))
    except UserError:
        return ()


def in_full(row: JobRow, *, now: float, lost: Mapping[str, float | None] = NONE_LOST, place: int = 0) -> Line:
    """Return a sentence about one job: where and how it runs, the whole pending reason, or how it ended."""
    name = Cell(f"{row.label} {shortened(printable(full_name(row)), NAME_COLUMNS)}  ", "accent")
    if row.end is not None:
        ran = f", after {format_duration(ran_s(row, now))}" if row.start else ""
        return name, Cell(f"{how_ended(row)}, {age(now - row.end)} ago", where(row, now).style), Cell(ran)
    if row.why is not None:
        return name, Cell(whole_reason(row.why, place, now=now))
    limit = format_duration(row.time_limit_s) if row.time_limit_s else "no limit"
    use = f", {row.gpu_util_pct}% busy" if row.gpu_util_pct is not None else ""
    has = f"{plural(row.cpus, 'CPU')}" + (f", {plural(row.gpus, 'GPU')}{use}" if row.gpus else "")
    stopped = "suspended " if row.state == "SUSPENDED" else ""
    ran = format_duration(ran_s(row, now) or 0)
    gone = unreachable(row, lost, now=now)
    told = Cell(f"  {gone}; whether the job still runs is unknown" if gone else "", "NODE_FAIL")
    return name, Cell(f"{stopped}on {row.node_list or '...'} with {has}, {ran} of {limit}"), told


def array_in_full(array: Fold, *, now: float) -> Line:
    """Return a sentence about an array: the tasks in each state, their GPUs, and the pending reason."""
    head, waiting = array.head, array.waiting
    counts = ", ".join(f"{count} {_STATE_WORDS.get(short, short)}" for count, short in array.counts())
    gpus = sum(row.gpus for row in array.running())
    holds = f" on {plural(gpus, 'GPU')}" if gpus else ""
    why = ""
    if waiting is not None and waiting.why is not None:
        start = waiting.why.expected_start
        soon = f" Next expected start: {due(start, now)}." if start is not None else ""
        why = f"  {why_words(waiting.why)}.{soon}"
    name = Cell(f"{array.label} {shortened(printable(head.name), NAME_COLUMNS)}  ", "accent")
    return name, Cell(counts + holds), Cell(why, "muted")


_STATE_WORDS = {
    "R": "running",
    "CG": "completing",
    "CF": "starting",
    "S": "suspended",
    "PD": "pending",
    "CD": "completed",
    "F": "failed",
    "CA": "canceled",
    "TO": "timed out",
    "OOM": "out of memory",
    "NF": "lost to node failure",
    "PR": "preempted",
}


def end_words(row: JobRow) -> str:
    """Return how a job ended, without its nodes. The job's page has the cause of a failed launch."""
    return "could not start" if row.exit_cause == LAUNCH_FAILED else printable(row.reason)


def how_ended(row: JobRow) -> str:
    """Return how a job ended, or why it never started.

    Examples are "exit 0 on gpu01", "signal 9 (oom) on gpu01" and "canceled".
    """
    return end_words(row) + (f" on {row.node_list}" if row.node_list else "")


def summary(jobs: Iterable[JobRow]) -> str:
    """Return a summary, such as "3 running, 1 suspended, 12 pending"."""
    running = suspended = waiting = 0
    for row in jobs:
        suspended += row.state == "SUSPENDED"
        running += row.state in ("RUNNING", "CONFIGURING", "COMPLETING")
        waiting += max(1, row.tasks_pending) if row.state == "PENDING" else 0
    stopped = f"{suspended} suspended, " if suspended else ""
    return f"{running} running, {stopped}{waiting} pending"


def names_of(row: JobRow) -> list[str]:
    """Return the names that identify exactly the jobs of this row.

    Examples are `12`, `12_3`, and `12_[4-9,11]` for the waiting tasks of an array. Each name has at most
    MAX_NAME characters, so many scattered tasks need several names.
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
    """Return the arrays that the action affects as a whole: these rows include all of its jobs that it applies to.

    Arrays with a single affected job are omitted.
    """
    if verb not in WHOLE_ARRAYS:
        return set()
    chosen = {(row.id, row.label) for row in rows}
    arrays = {row.array_job_id for row in rows if is_task(row)}
    met = [row for row in everything if row.array_job_id in arrays and not refusal(verb, row)]
    # A row with the same id and another label stands for some of the pending tasks only.
    left_out = {row.array_job_id for row in met if (row.id, row.label) not in chosen}
    counts = Counter(row.array_job_id for row in met)
    return {array for array in arrays - left_out if counts[array] > 1}


def targets(verb: str, rows: Sequence[JobRow], everything: Iterable[JobRow]) -> list[str]:
    """Return the names of these rows for a command line.

    An array is named by its number if the action affects all of it.
    """
    whole = whole_arrays(verb, rows, everything)
    names = ([str(row.array_job_id)] if row.array_job_id in whole else names_of(row) for row in rows)
    return list(dict.fromkeys(chain.from_iterable(names)))


def only_waiting(name: str) -> bool:
    """Return whether the name means only waiting tasks of an array.

    Tasks that have started meanwhile are then excluded.
    """
    return name.endswith("]")


def commands(verb: str, names: Sequence[str]) -> str:
    """Return the command lines equivalent to an action on the jobs with these names."""
    waiting = [name for name in names if verb == "cancel" and only_waiting(name)]
    others = [name for name in names if name not in waiting]
    lines = [shlex.join(["warpdeck", verb, *others])] if others else []
    if waiting:
        lines.append(shlex.join(["warpdeck", verb, "--state", "PD", *waiting]))
    return "; ".join(lines)


class Question(NamedTuple):
    """A question before a change, the equivalent command line, and a line for each affected job.

    `effect` says in one line which tasks will be affected and which will not, or is "". `names` are the names of
    the jobs for the request.
    """

    text: str
    command: str
    lines: tuple[str, ...] = ()
    effect: str = ""
    names: tuple[str, ...] = ()
