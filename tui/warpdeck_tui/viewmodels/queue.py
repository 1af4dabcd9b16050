"""The queue's lines: which jobs in which order, and each as cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warpdeck.api.rows import JobRow
from warpdeck.notation.times import format_duration
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.meter import bar

from .cells import Cell, Line, age, glyph, plural
from .filters import parse_filter

LIMIT_WIDTH = 6
UTIL_WIDTH = 5
DAY_S = 86_400
_ORDER = {"RUNNING": 0, "COMPLETING": 0, "SUSPENDED": 0, "CONFIGURING": 1, "PENDING": 2}
_ENDED = 3


def choose(jobs: Iterable[JobRow], *, user: str | None, text: str) -> list[JobRow]:
    """Running, then waiting, then ended with the latest first; of one user if given; narrowed by the filter."""
    holds = parse_filter(text)
    wanted = [row for row in jobs if user in (None, row.user) and holds(row)]
    wanted.sort(key=_rank)
    return wanted


def _rank(row: JobRow) -> tuple[int, float, int, int]:
    """Waiting jobs stand by their priority, the tasks of an array together and in their order."""
    if row.end is not None:
        return _ENDED, -row.end, -row.id, 0
    return _ORDER.get(row.state, _ENDED), -float(row.priority or 0), row.array_job_id, row.array_task_id or 0


def tasks_of(row: JobRow, jobs: Iterable[JobRow]) -> list[JobRow]:
    """The tasks that have begun of the array whose waiting rest `row` is, running ones first."""
    begun = [each for each in jobs if each.array_job_id == row.array_job_id and each.state != "PENDING"]
    return sorted(begun, key=_rank)


class QueueRows:
    """The chosen jobs as a table's rows, each made when it is looked at. `now` is what elapsed times count to."""

    def __init__(self, jobs: Sequence[JobRow], *, now: float) -> None:
        self._jobs = jobs
        self._now = now

    def __len__(self) -> int:
        return len(self._jobs)

    def row(self, index: int) -> Line:
        return queue_row(self._jobs[index], now=self._now)

    def key(self, index: int) -> str:
        return str(self._jobs[index].id)


def queue_row(row: JobRow, *, now: float) -> Line:
    """Job, state, name, user, GPUs, priority, time, progress to the limit, GPU use, and where or why."""
    plain = "muted" if row.end is not None else ""
    return (
        Cell(row.label, "accent"),
        Cell(f"{glyph(row.state)} {row.state_short}", "HELD" if row.held else row.state),
        Cell(row.name, plain),
        Cell(row.user, "muted"),
        Cell(str(row.gpus or "·"), plain if row.gpus else "muted"),
        Cell(str(row.priority or ""), "muted"),
        Cell(clock(row, now), plain),
        Cell(progress(row, now), _progress_style(row, now)),
        Cell(bar(row.gpu_util_pct, UTIL_WIDTH) if row.gpus and row.state == "RUNNING" else "", "accent"),
        where(row, now),
    )


def choice_row(row: JobRow, *, now: float) -> Line:
    """Job, state, time and where, to choose from."""
    job, state, _, _, _, _, time_run, *_, place = queue_row(row, now=now)
    return job, state, time_run, place


def ran_s(row: JobRow, now: float) -> float | None:
    """Seconds that it ran, or has run until now."""
    return None if row.start is None else max(0.0, (now if row.end is None else row.end) - row.start)


def clock(row: JobRow, now: float) -> str:
    """Time run, from a day on as days-hours:minutes; of a waiting job when it should start, after a "≈"."""
    ran = ran_s(row, now)
    if ran is not None:
        return (
            format_duration(ran)
            if ran < DAY_S
            else f"{ran // DAY_S:.0f}-{ran % DAY_S // 3600:02.0f}:{ran % 3600 // 60:02.0f}"
        )
    if row.why is not None and row.why.expected_start is not None:
        return f"≈{age(row.why.expected_start - now)}"
    return ""


def used_of_limit(row: JobRow, now: float) -> float | None:
    """The share of its time limit that is gone, in percent; None without a limit or when it does not run."""
    ran = ran_s(row, now)
    if ran is None or row.end is not None or not row.time_limit_s:
        return None
    return 100 * ran / row.time_limit_s


def progress(row: JobRow, now: float) -> str:
    used = used_of_limit(row, now)
    return "" if used is None else bar(used, LIMIT_WIDTH).rstrip().ljust(LIMIT_WIDTH, "░")


def _progress_style(row: JobRow, now: float) -> str:
    used = used_of_limit(row, now)
    return "PENDING" if used is not None and used >= 90 else "muted"


def where(row: JobRow, now: float) -> Cell:
    """Where it runs, why it waits, or how it ended: what matters first, for the column may be narrow."""
    if row.end is not None:
        at = f", {row.node_list}" if row.node_list else ""
        style = "muted" if row.state == "COMPLETED" else row.state
        return Cell(f"{_end_words(row)}, {age(now - row.end)} ago{at}", style)
    if row.why is not None:
        return Cell(row.why.sentence or row.why.code)
    stopped = "suspended on " if row.state == "SUSPENDED" else ""
    return Cell(stopped + row.node_list + ("  interactive" if row.interactive else ""))


def in_full(row: JobRow, *, now: float) -> Line:
    """One job in a sentence: where it runs and how, the whole reason why it waits, or how it ended."""
    name = Cell(f"{row.label} {printable(row.name)}  ", "accent")
    if row.end is not None:
        ran = f", after {format_duration(ran_s(row, now))}" if row.start else ""
        return name, Cell(f"{how_ended(row)}, {age(now - row.end)} ago", where(row, now).style), Cell(ran)
    if row.why is not None:
        start = row.why.expected_start
        soon = f"  It should start in about {age(start - now)}." if start is not None else ""
        return name, Cell(printable(row.why.sentence or row.why.code)), Cell(soon, "muted")
    limit = format_duration(row.time_limit_s) if row.time_limit_s else "no limit"
    use = f", {row.gpu_util_pct}% busy" if row.gpu_util_pct is not None else ""
    has = f"{plural(row.cpus, 'CPU')}" + (f", {plural(row.gpus, 'GPU')}{use}" if row.gpus else "")
    stopped = "suspended " if row.state == "SUSPENDED" else ""
    ran = format_duration(ran_s(row, now) or 0)
    return name, Cell(f"{stopped}on {row.node_list or '...'} with {has}, {ran} of {limit}")


def how_ended(row: JobRow) -> str:
    """The exit in words: "exit 0 on gpu01", "signal 9 (oom) on gpu01", "cancelled", or why it never started."""
    return _end_words(row) + (f" on {row.node_list}" if row.node_list else "")


def _end_words(row: JobRow) -> str:
    if row.why is not None:
        return printable(row.why.sentence or row.why.code)
    code, _, signal = row.exit_code.partition(":")
    words = f"signal {signal}" if signal not in ("", "0") else f"exit {code}" if code else row.state.lower()
    cause = f" ({row.exit_cause})" if row.exit_cause else ""
    return f"{words}{cause}"


def summary(jobs: Iterable[JobRow]) -> str:
    """ "3 running, 1 suspended, 12 waiting"."""
    running = suspended = waiting = 0
    for row in jobs:
        suspended += row.state == "SUSPENDED"
        running += row.state in ("RUNNING", "CONFIGURING", "COMPLETING")
        waiting += max(1, row.tasks_pending) if row.state == "PENDING" else 0
    stopped = f"{suspended} suspended, " if suspended else ""
    return f"{running} running, {stopped}{waiting} waiting"


def target(row: JobRow) -> str:
    """The name by which a verb means this line; the waiting rest of an array stands for the whole array."""
    return str(row.array_job_id) if row.tasks_pending else row.label


class Question(NamedTuple):
    """What is asked before something is changed, the command line that does the same, and a line for each job it meets."""

    text: str
    command: str
    lines: tuple[str, ...] = ()


def confirmation(verb: str, rows: Sequence[JobRow], everything: Iterable[JobRow]) -> Question:
    """Of cancel, hold, release or requeue on these rows; of an array's waiting rest all its tasks are met."""
    names = list(dict.fromkeys(target(row) for row in rows))
    arrays = {row.array_job_id for row in rows if row.tasks_pending}
    chosen = {row.id for row in rows}
    met = [row for row in everything if row.end is None and (row.id in chosen or row.array_job_id in arrays)]
    met = met or list(rows)
    lines = [
        f"{row.label:<12} {glyph(row.state)} {row.state_short:<3} {printable(row.name)}  {printable(row.user)}"
        + (f"  {plural(row.tasks_pending, 'waiting task')}" if row.tasks_pending else "")
        for row in met
    ]
    what = f"job {names[0]}" if len(names) == 1 else plural(len(names), "job")
    if arrays and len(names) == 1:
        what = f"the whole array {names[0]}"
    return Question(f"{verb.capitalize()} {what}?", f"warpdeck {verb} {' '.join(names)}", tuple(lines))
