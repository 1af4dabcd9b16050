"""The page of a job: its head lines, and the lines of its panes. Ended and running jobs have the same
layout.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import msgspec
from rich.cells import cell_len

from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.hostlist import expand
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck.protocol.usage_text import origin, used_in_words
from warpdeck_tui.viewmodels.cells import Cell, Line, age, due, fact, glyph, left, memory, plural
from warpdeck_tui.widgets.cells import printable, shortened
from warpdeck_tui.widgets.meter import bar

from .postmortem import PostMortem
from .queue import Question, how_ended, ran_s, used_of_limit

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
        cells.append(Cell(f" {bar(used, 8)}", "PENDING" if used >= 90 else "muted"))
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
        return (Cell(soon, "muted"), Cell(f" {printable(row.why.sentence or row.why.code)}", "PENDING"))
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


def details(
    detail: JobDetail,
    *,
    now: float,
    forecast: ForecastRow | None = None,
    ended: PostMortem = NO_POST_MORTEM,
) -> list[Line]:
    """Return the lines of the details.

    The environment is shown separately (see `environment`), because only the job's user may see it.
    """
    row = detail.row
    lines = [
        *([fact("name", printable(row.name))] if cell_len(printable(row.name)) > NAME_COLUMNS else []),
        fact("state", _state_words(row), row.state),
        *([fact("cause", ended.words)] if ended.words else []),
        *_reasons(detail, now, forecast),
        *_times(row, now),
        *([fact("sweep", printable(row.sweep))] if row.sweep else []),
        fact("requested", asked(row)),
        fact("limit", "none" if row.time_limit_s is None else format_duration(row.time_limit_s)),
        fact("user", printable(row.user) + (f", account {row.account}" if row.account else "")),
        fact("partition", f"{row.partition}, QoS {row.qos}"),
    ]
    optional = (
        ("nodes", row.node_list),
        (
            "priority",
            f"{row.priority} (details: warpdeck prio {row.label})" if row.priority else "",
        ),
        ("after", detail.dependency),
        ("used", _used(detail)),
        ("restarts", str(row.restarts) if row.restarts else ""),
        ("work dir", detail.work_dir),
        ("from", detail.submit_dir),
        ("stdout", detail.stdout),
        ("stderr", detail.stderr if detail.stderr != detail.stdout else ""),
        ("command", detail.submit_line),
        ("comment", row.comment),
    )
    lines += [fact(title, printable(text)) for title, text in optional if text]
    if ended.lines:
        lines += [(), (Cell("last lines", "accent"),), *((Cell(f"  {line}"),) for line in ended.lines)]
    lines += _steps(detail, now)
    if detail.script:
        lines += [(), (Cell("script", "accent"),)]
        lines += [(Cell(f"  {printable(line.expandtabs(4))}"),) for line in detail.script.splitlines()]
    return lines


def _steps(detail: JobDetail, now: float) -> list[Line]:
    """Return a line for each step: id, state, elapsed time, size, nodes and resource usage."""
    if not detail.steps:
        return []
    lines: list[Line] = [(), (Cell("steps", "accent"),)]
    for step in detail.steps:
        ran = format_duration(max(0.0, (step.end or now) - step.start))
        gpus = f", {plural(step.gpus, 'GPU')}" if step.gpus else ""
        used = "" if step.used is None else ", ".join(used_in_words(**msgspec.structs.asdict(step.used)))
        ended = f"  exit {step.exit_code.partition(':')[0]}" if step.exit_code not in ("", "0:0") else ""
        lines.append(
            (
                Cell(f"  {step.id:<12} "),
                Cell(f"{glyph(step.state)} {step.state}{ended}", step.state),
                Cell(
                    f"  {ran}  {printable(step.name)}  {plural(step.tasks, 'task')}{gpus} on {step.node_list}"
                ),
                Cell(f"  {used}" if used else "", "muted"),
            )
        )
    return lines


def side(detail: JobDetail, *, now: float, forecast: ForecastRow | None = None) -> list[Line]:
    """Return the lines beside the log on a wide screen: first the GPUs, then the most important facts."""
    row = detail.row
    facts: list[Line] = gpu_lines(detail) + [()] if detail.gpus else []
    facts += [
        *_reasons(detail, now, forecast),
        *([fact("sweep", printable(row.sweep))] if row.sweep else []),
        fact("requested", asked(row)),
        fact("user", printable(row.user)),
    ]
    optional = (
        ("nodes", row.node_list),
        ("used", _used(detail)),
        ("work dir", detail.work_dir),
        ("stdout", detail.stdout),
    )
    facts += [fact(title, printable(text)) for title, text in optional if text]
    return [*facts, (), *code_head(detail.snapshot)]


def _reasons(detail: JobDetail, now: float, forecast: ForecastRow | None) -> list[Line]:
    row, lines = detail.row, []
    if row.why is not None:
        lines.append(fact("reason", f"{row.why.code}: {printable(row.why.sentence)}", "PENDING"))
        if row.why.expected_start is not None:
            at = time.strftime("%a %H:%M", time.localtime(row.why.expected_start))
            until = left(row.why.expected_start, now)
            told = f"about {at}, in {until}" if until else "soon, later than expected"
            lines.append(fact("start", told))
    if row.why is not None and forecast is not None:
        lines += _ahead(forecast)
    if detail.message and (row.why is None or detail.message not in row.why.sentence):
        lines.append(fact("message", printable(detail.message), "warn"))
    return lines


def _state_words(row: JobRow) -> str:
    ended = row.end is not None and row.why is None  # otherwise the reason is shown on the next line
    return f"{row.state}, {how_ended(row)}" if ended else row.state


def _times(row: JobRow, now: float) -> list[Line]:
    """Return when the job was submitted, started and ended, and how long ago that was."""
    times = (("submitted", row.submit or None), ("started", row.start), ("ended", row.end))
    return [
        fact(title, f"{time.strftime('%a %d %b %H:%M', time.localtime(at))}, {age(now - at)} ago")
        for title, at in times
        if at is not None
    ]


def _ahead(forecast: ForecastRow) -> list[Line]:
    """Return the jobs ahead of this one, and the changes that would let it start now."""
    lines: list[Line] = []
    if forecast.ahead:
        named = ", ".join(f"{each.label} of {each.user}" for each in forecast.leaders)
        more = " and others" if forecast.ahead > len(forecast.leaders) else ""
        lines.append(fact("ahead", printable(f"{plural(forecast.ahead, 'job')}: {named}{more}")))
    lines += [fact("helps", printable(f"it {change}")) for change in forecast.changes]
    return lines


def asked(row: JobRow) -> str:
    """Return the requested resources as text."""
    gpus = f", {plural(row.gpus, 'GPU')}{' ' + row.gpu_type if row.gpu_type else ''}" if row.gpus else ""
    mem = f", {format_memory(row.mem_bytes)}" if row.mem_bytes else ""
    return f"{plural(row.nodes, 'node')}, {plural(row.cpus, 'CPU')}{gpus}{mem}"


def _used(detail: JobDetail) -> str:
    used = detail.row.used
    return "" if used is None else ", ".join(used_in_words(**msgspec.structs.asdict(used)))


def gpu_lines(detail: JobDetail) -> list[Line]:
    """Return a line for each GPU of the job, with its utilization and memory."""
    if not detail.gpus:
        return [(Cell(_no_gpus(detail.row), "muted"),)]
    lines: list[Line] = []
    for gpu in detail.gpus:
        if not gpu.uuid and gpu.util_pct is gpu.mem_used_bytes is None:
            lines.append((Cell(gpu.name.ljust(10), "accent"), Cell("no readings", "muted")))
            continue
        percent = "  ?%" if gpu.util_pct is None else f"{gpu.util_pct:>3}%"
        lines.append(
            (
                Cell(gpu.name.ljust(10), "accent"),
                Cell(bar(gpu.util_pct, 8), "accent"),
                Cell(f" {percent}  {memory(gpu.mem_used_bytes, gpu.mem_bytes)}"),
                Cell(origin(gpu.source), "muted"),
            )
        )
    return lines


def _no_gpus(row: JobRow) -> str:
    """Return why no GPUs are listed. Slurm does not tell which GPUs a job of another user has."""
    if not row.gpus:
        return "This job has no GPUs"
    if row.state == "PENDING":
        return "No GPU allocated yet"
    return f"{plural(row.gpus, 'GPU')} allocated; which ones is unknown"


def gpu_page(detail: JobDetail) -> list[Line]:
    """Return the lines of the "GPUs" pane: the same as beside the log, and the UUIDs."""
    lines = gpu_lines(detail)
    if named := [gpu for gpu in detail.gpus if gpu.uuid]:
        lines += [(), (Cell("GPU UUIDs", "muted"),)]
        lines += [(Cell(f"  {gpu.name}  {gpu.uuid}"),) for gpu in named]
    return lines


def code_head(snapshot: Mapping[str, object] | None) -> list[Line]:
    """Return lines that identify the code that the job runs."""
    if not snapshot:
        return [(Cell("No snapshot: the job runs the current files of its folder", "muted"),)]
    head_commit = str(snapshot.get("head", ""))[:12] or "none"
    changed = ", with uncommitted changes" if snapshot.get("dirty") else ""
    return [
        fact("code", f"tree {str(snapshot['tree'])[:12]}"),
        fact("commit", f"{head_commit}{changed}"),
        fact("root", printable(str(snapshot["root"]))),
    ]


def again(detail: JobDetail) -> Question:
    """Return the question that asks whether to run the job again."""
    row = detail.row
    code = "current files of its folder (no snapshot)"
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


def events(detail: JobDetail) -> list[Line]:
    """Return the job's events, the oldest first."""
    return [
        (
            Cell(time.strftime("%d %b %H:%M:%S  ", time.localtime(event.at)), "muted"),
            Cell(printable(event.text)),
        )
        for event in detail.events
    ] or [(Cell("No events", "muted"),)]


NO_CODE = (
    ("why", "the folder is not in a git repository, --no-snapshot was given, or it is a session"),
    (
        "next",
        "run git init in the folder; later jobs then keep a snapshot of their code",
    ),
)


def code_lines(snapshot: Mapping[str, object] | None, files: int, *, trouble: str = "") -> list[Line]:
    """Return the lines above the tree of files: the snapshot, and its files or the problem."""
    lines = code_head(snapshot)
    if trouble:
        lines.append(fact("error", printable(trouble), "warn"))
    elif snapshot:
        lines.append(fact("files", f"{files}; press Enter to open one"))
    else:
        lines += [(), *(fact(title, words) for title, words in NO_CODE)]
    return [*lines, ()]


def file_text(data: bytes) -> str:
    """Return the content of a file for display, or a note if it is not text."""
    if b"\0" in data:
        return f"Binary file ({format_memory(len(data)) or '0'})\n"
    return data.decode("utf-8", "replace") or "Empty file\n"
