"""The page of a job: its head lines, and the lines of its panes. Ended and running jobs have the same
layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobDetail, JobRow, UsageRow
from warpdeck.protocol.usage_text import used_in_words
from warpdeck_tui.viewmodels.cells import Cell, Line, age, due, fact, glyph, plural, thin_bar
from warpdeck_tui.widgets.cells import printable, shortened

from .postmortem import PostMortem
from .queue import Question, how_ended, ran_s, used_of_limit
from .waiting import why_words

PANES = ("log", "metrics", "details", "gpus", "code", "events")
PANE_WORDS = {
    "log": "Log",
    "metrics": "Metrics",
    "details": "Details",
    "gpus": "GPUs",
    "code": "Code",
    "events": "Events",
}
NO_POST_MORTEM = PostMortem("")
NAME_COLUMNS = 36
"""Largest width of a name in the first line, so that state and time fit on 80 columns. The details contain
the full name.
"""


def head(row: JobRow, *, now: float) -> Line:
    """Return the first line of the page: job, name, state, and elapsed time with its limit."""
    ran = ran_s(row, now)
    limit = f" of {format_duration(row.time_limit_s)}" if row.time_limit_s and row.end is None else ""
    cells = [
        Cell(f"job {row.label}", "accent"),
        Cell(f"  {shortened(printable(row.name), NAME_COLUMNS)}  "),
        Cell(f"{glyph(row.state)} {row.state}", row.state),
        Cell("" if ran is None else f"  {format_duration(ran)}{limit}"),
    ]
    used = used_of_limit(row, now)
    if used is not None:
        cells += [Cell(" "), *thin_bar(used, 8, "PENDING" if used >= 90 else "accent"), Cell(" ")]
    return tuple(cells)


def status(row: JobRow, *, now: float, died_of: str = "") -> Line:
    """Return the second line of the page: where the job runs, why it waits, or how and why it ended."""
    if row.end is not None:
        style = "muted" if row.state == "COMPLETED" else row.state
        words = (Cell(f" {how_ended(row)}, {age(now - row.end)} ago", style),)
        return (*words, Cell(f"   {died_of}")) if died_of else words
    if row.why is not None:
        expected = row.why.expected_start
        soon = f" expected start {due(expected, now)}:" if expected is not None else ""
        return (Cell(soon, "muted"), Cell(f" {why_words(row.why)}", "PENDING"))
    if row.state == "SUSPENDED":
        return (Cell(f" suspended on {row.node_list}; resumes when the preempting jobs end", "SUSPENDED"),)
    return (Cell(f" on {row.node_list}" if row.node_list else " starting", "muted"),)


def writing_nodes(detail: JobDetail | None) -> list[str]:
    """Return the nodes that write separate outputs.

    A command writes on all of its nodes, a script only on the first.
    """
    if detail is None or not detail.argv or not detail.row.node_list or detail.row.start is None:
        return []
    return expand(detail.row.node_list)


def neighbour(row: JobRow, tasks: Iterable[JobRow], step: int) -> JobRow | None:
    """Return the next started task of the row's array in the direction of `step`, or None at the end."""
    begun = {each.array_task_id: each for each in tasks if each.array_task_id is not None and each.start}
    here = row.array_task_id if row.array_task_id is not None else -1
    numbers = [number for number in begun if (number - here) * step > 0]
    return begun[min(numbers, key=lambda number: abs(number - here))] if numbers else None


def tabs(chosen: str, *, channel: str, waiting: str, node: str = "") -> Line:
    """Return the line with the names of the panes, the chosen one in brackets, and the text about the log."""
    cells: list[Cell] = []
    for name in PANES:
        words = "Stderr" if name == "log" and channel == "err" else PANE_WORDS[name]
        words += f" on {node}" if name == "log" and node else ""
        here = name == chosen
        cells.append(Cell(f"[{words}]" if here else f" {words} ", "accent" if here else "muted"))
    if waiting and chosen == "log":
        cells.append(Cell(f"   {printable(waiting)}", "muted"))
    return tuple(cells)


def log_words(row: JobRow | None, *, written: bool, is_empty: bool, told: str) -> str:
    """Return the text about a log: an error, or the reason why it is empty.

    It is "" while it is unknown whether the log is empty.
    """
    if row is None or written:
        return told
    if row.tasks_pending:
        return "Each array task has its own log. Press l to select a task"
    if row.state == "PENDING":
        return "No log: the job has not started"
    if told or not is_empty:
        return told
    return "The log is empty" if row.end is not None else "No output yet"


def asked(row: JobRow) -> str:
    """Return the requested resources as text."""
    gpus = f", {plural(row.gpus, 'GPU')}{' ' + row.gpu_type if row.gpu_type else ''}" if row.gpus else ""
    mem = f", {format_memory(row.mem_bytes)}" if row.mem_bytes else ""
    return f"{plural(row.nodes, 'node')}, {plural(row.cpus, 'CPU')}{gpus}{mem}"


def used_words(used: UsageRow) -> list[str]:
    """Return the measured fields of a resource usage as phrases."""
    return used_in_words(**msgspec.structs.asdict(used))


def code_head(snapshot: Mapping[str, object] | None, *, branch: str = "") -> list[Line]:
    """Return lines that identify the code that the job runs."""
    if not snapshot:
        return [(Cell("No snapshot: the live folder runs, as its files are at the start", "muted"),)]
    head_commit = str(snapshot.get("head", ""))[:12] or "none"
    on = f" on branch {printable(branch)}" if branch else ""
    changed = ", with uncommitted changes" if snapshot.get("dirty") else ""
    return [
        fact("code", f"tree {str(snapshot['tree'])[:12]}"),
        fact("commit", f"{head_commit}{on}{changed}"),
        fact("root", printable(str(snapshot["root"]))),
    ]


def again(detail: JobDetail) -> Question:
    """Return the question that asks whether to run the job again."""
    row = detail.row
    code = "the live folder (no snapshot)"
    if snapshot := detail.snapshot:
        commit = str(snapshot.get("head", ""))[:12]
        what = f"commit {commit}" if commit else f"tree {str(snapshot['tree'])[:12]}"
        changed = " with uncommitted changes" if snapshot.get("dirty") else ""
        code = f"snapshot of {what}{changed}"
    lines = (
        f"{printable(row.name)}: {asked(row)}",
        "same script, options and environment, new job ID",
        f"code: {code}",
    )
    return Question(f"Run job {row.label} again?", f"warpdeck rerun {row.label}", lines)


NO_CODE = (
    ("why", "the folder is not in a git repository, --no-snapshot was given, or it is a session"),
    (
        "next",
        "run git init in the folder; later jobs then keep a snapshot of their code",
    ),
)


FOREIGN = (
    ("why", "the job was submitted with Slurm's own sbatch, which records no code"),
    ("next", "submit with `warpdeck submit`, which records a snapshot of the folder"),
)


class CodeState(NamedTuple):
    """The known facts about a snapshot. `trouble` says why its files are unknown.

    `is_foreign` tells that the job was submitted with the commands of another scheduler.
    """

    files: int = 0
    branch: str = ""
    changed_files: int | None = None
    """Number of files that differ from the commit; None if that is unknown."""
    added: int = 0
    removed: int = 0
    trouble: str = ""
    is_foreign: bool = False


def code_lines(snapshot: Mapping[str, object] | None, state: CodeState) -> list[Line]:
    """Return the lines above the tree of files: the snapshot, and its files or the problem."""
    lines = code_head(snapshot, branch=state.branch)
    if state.trouble:
        lines.append(fact("error", printable(state.trouble), "warn"))
    elif snapshot:
        lines.append(fact("files", f"{state.files}; press Enter to open one"))
        if state.changed_files is not None:
            lines.append((fact("changed", "")[0], *_changes(state)))
    else:
        lines += [(), *(fact(title, words) for title, words in (FOREIGN if state.is_foreign else NO_CODE))]
    return [*lines, ()]


def _changes(state: CodeState) -> Line:
    if not state.changed_files:
        return (Cell("nothing since the commit", "muted"),)
    return (
        Cell(f"{plural(state.changed_files, 'file')} since the commit  "),
        Cell(f"+{state.added}", "added"),
        Cell(f" -{state.removed}", "removed"),
    )


def file_text(data: bytes) -> str:
    """Return the content of a file for display, or a note if it is not text."""
    if b"\0" in data:
        return f"Binary file ({format_memory(len(data)) or '0'})\n"
    return data.decode("utf-8", "replace") or "Empty file\n"
