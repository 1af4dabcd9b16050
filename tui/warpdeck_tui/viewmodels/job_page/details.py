"""The "Details" pane of a job's page: the facts of the job in titled groups."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from warpdeck.notation.values.durations import format_duration
from warpdeck.notation.values.memory_sizes import format_memory
from warpdeck.protocol.job_rows import JobDetail, JobRow, StepRow
from warpdeck.protocol.site_rows import ForecastRow
from warpdeck.protocol.usage_text import origin
from warpdeck_tui.viewmodels.cells import (
    Cell,
    Line,
    age,
    fact,
    glyph,
    left,
    memory,
    plural,
    thin_bar,
)
from warpdeck_tui.viewmodels.jobs.job import NO_POST_MORTEM, asked, code_head, used_words
from warpdeck_tui.viewmodels.jobs.postmortem import UNSUSPECTED, PostMortem
from warpdeck_tui.viewmodels.jobs.queue import how_ended, ran_s, used_of_limit
from warpdeck_tui.viewmodels.jobs.waiting import why_words
from warpdeck_tui.widgets.cells import printable

BAR_WIDTH = 12
LATE_PCT = 90
JOULES_PER_KWH = 3_600_000
LEFT, RIGHT, BELOW = ("request", "limits", "files"), ("when", "usage", "code"), ("script", "environment")
"""The groups of the left and the right column, and the long ones below both."""


class Group(NamedTuple):
    """The lines of a group, with the title of its frame. A group without lines is not shown.

    `style` is the role of the title.
    """

    title: str
    lines: tuple[Line, ...]
    style: str = "title"


Groups = Mapping[str, Group]


def groups(
    detail: JobDetail,
    *,
    now: float,
    forecast: ForecastRow | None = None,
    ended: PostMortem = NO_POST_MORTEM,
) -> Groups:
    """Return the groups by name. The first one says why the job failed, or why it waits.

    The environment is shown separately (see `environment`), because only the job's user may see it.
    """
    row = detail.row
    return {
        "cause": _cause(detail, now, forecast, ended),
        "request": Group("Requested", tuple(_request(detail))),
        "limits": Group("Limits and priority", tuple(_limits(detail, now))),
        "files": Group("Files", tuple(_texts(_files(detail)))),
        "when": Group("Where and when", tuple(_when(row, detail, now))),
        "usage": Group("Used", tuple(usage(row, now))),
        "code": Group("Code", tuple(code_head(detail.snapshot))),
        "steps": Group("Steps", tuple(_step(step, now) for step in detail.steps)),
        "script": Group("Script", tuple((Cell(line),) for line in _script(detail.script))),
    }


def _script(script: str) -> list[str]:
    return [printable(line.expandtabs(4)) for line in script.splitlines()]


def _texts(facts: Iterable[tuple[str, str]]) -> list[Line]:
    return [fact(title, printable(text)) for title, text in facts if text]


def _cause(detail: JobDetail, now: float, forecast: ForecastRow | None, ended: PostMortem) -> Group:
    """Return why the job failed or why it waits. For other jobs the group is empty."""
    row = detail.row
    if row.end is not None and row.state not in UNSUSPECTED and row.start is not None:
        return Group("Why it failed", tuple(_failure(detail, now, ended)), row.state)
    lines = reasons(detail, now, forecast)
    if row.end is None and row.why is not None:
        return Group("Why it waits", tuple(lines), "PENDING")
    return Group("Message" if row.why is None else "Why it ended", tuple(lines), "warn")


def _failure(detail: JobDetail, now: float, ended: PostMortem) -> list[Line]:
    """Return the cause, the exit, the peak of the memory and the last lines of the output."""
    row, used = detail.row, detail.row.used
    ran = ran_s(row, now)
    lines = [fact("cause", ended.words, row.state)] if ended.words else []
    after = "" if ran is None else f", after {format_duration(ran)}"
    lines.append(fact("ended", f"{how_ended(row)}{after}"))
    lines += [line for line in reasons(detail, now, None) if line[1].text != ended.words]
    if used is not None and used.peak_mem_bytes:
        lines.append(_memory_peak(row, used.peak_mem_bytes))
    if ended.lines:
        lines += [(), (Cell("last lines of the output", "muted"), Cell("   l shows all", "muted"))]
        lines += [(Cell(f"  {line}", "" if line != ended.lines[-1] else "title"),) for line in ended.lines]
    return lines


def _memory_peak(row: JobRow, peak_bytes: int) -> Line:
    total = row.mem_bytes // max(1, row.nodes)
    words = f"{memory(peak_bytes, total)} at most"
    if not total:
        return fact("memory", words)
    return (*_gauge("memory", 100 * peak_bytes / total), Cell(f" {words}"))


def _gauge(title: str, percent: float | None, style: str = "accent") -> Line:
    """Return the title and a thin bar. The caller adds the number."""
    return (fact(title, "")[0], *thin_bar(percent, BAR_WIDTH, style))


def reasons(detail: JobDetail, now: float, forecast: ForecastRow | None) -> list[Line]:
    """Return why the job waits, when it starts, and the scheduler's message."""
    row, lines = detail.row, []
    if row.why is not None:
        lines.append(fact("reason", f"{row.why.code}: {why_words(row.why)}", "PENDING"))
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


def _ahead(forecast: ForecastRow) -> list[Line]:
    """Return the jobs ahead of this one, and the changes that would let it start now."""
    lines: list[Line] = []
    if forecast.ahead:
        named = ", ".join(f"{each.label} of {each.user}" for each in forecast.leaders)
        more = " and others" if forecast.ahead > len(forecast.leaders) else ""
        lines.append(fact("ahead", printable(f"{plural(forecast.ahead, 'job')}: {named}{more}")))
    lines += [fact("helps", printable(f"it {change}")) for change in forecast.changes]
    return lines


def _request(detail: JobDetail) -> list[Line]:
    row = detail.row
    return _texts(
        (
            ("name", row.name),
            ("requested", asked(row)),
            ("sweep", row.sweep),
            ("user", row.user + (f", account {row.account}" if row.account else "")),
            ("partition", f"{row.partition}, QoS {row.qos}"),
            ("command", detail.submit_line),
            ("comment", row.comment),
        )
    )


def _when(row: JobRow, detail: JobDetail, now: float) -> list[Line]:
    ended = row.end is not None and row.why is None  # otherwise the first group shows the reason
    lines = [
        fact("state", f"{glyph(row.state)} {row.state}{f', {how_ended(row)}' if ended else ''}", row.state)
    ]
    lines += _texts((("nodes", row.node_list),))
    lines += [
        fact(title, f"{time.strftime('%a %d %b %H:%M', time.localtime(at))}, {age(now - at)} ago")
        for title, at in (("submitted", row.submit or None), ("started", row.start), ("ended", row.end))
        if at is not None
    ]
    ran, waited = ran_s(row, now), None if row.start is None else row.start - row.submit
    both = (
        ("waited", "" if waited is None else age(waited)),
        ("ran", "" if ran is None else format_duration(ran)),
        (
            "predicted",
            "" if detail.predicted_s is None else f"{format_duration(detail.predicted_s)} of run time",
        ),
        ("restarts", str(row.restarts) if row.restarts else ""),
    )
    return lines + _texts(both)


NO_TASK = "4294967294"
"""Slurm's number of a task that does not exist yet. Paths of arrays contain it until their tasks start."""


def _limits(detail: JobDetail, now: float) -> list[Line]:
    row = detail.row
    limit = "none" if row.time_limit_s is None else format_duration(row.time_limit_s)
    used = used_of_limit(row, now)
    lines = [fact("limit", limit)]
    if detail.requeues_at_limit:
        lines.append(fact("at limit", "returns to the queue after a checkpoint"))
    if used is not None and row.start is not None and row.time_limit_s:
        rest = left(row.start + row.time_limit_s, now)
        style = "PENDING" if used >= LATE_PCT else "accent"
        words = f" {used:.0f}%, {rest} left" if rest else f" {used:.0f}%"
        lines.append((*_gauge("used", used, style), Cell(words)))
    return lines + _texts(
        (
            ("priority", f"{row.priority}   (6 Site, Priorities explains it)" if row.priority else ""),
            ("after", detail.dependency),
            ("notice", detail.notice),
        )
    )


def _files(detail: JobDetail) -> tuple[tuple[str, str], ...]:
    return (
        ("work dir", detail.work_dir),
        ("from", detail.submit_dir),
        ("stdout", _path(detail.stdout)),
        ("stderr", _path(detail.stderr) if detail.stderr != detail.stdout else ""),
    )


def _path(path: str) -> str:
    """Return the path of an output file, with "%a" for the task number if no task has started."""
    return path.replace(NO_TASK, "%a")


def usage(row: JobRow, now: float) -> list[Line]:
    """Return the resource usage: for an ended job the recorded one, else the present utilization of its GPUs."""
    used, ran = row.used, ran_s(row, now)
    if used is None:
        if not row.gpus or row.gpu_util_pct is None:
            return []
        lines = [(*_gauge("GPUs", row.gpu_util_pct), Cell(f" {row.gpu_util_pct}% now"))]
        if row.gpu_mem_bytes:
            lines.append(fact("GPU mem", format_memory(row.gpu_mem_bytes)))
        return lines
    lines = []
    if used.gpu_util_pct is not None:
        idle = f", under 5 % for {used.gpu_idle_pct:.0f} % of the time" if used.gpu_idle_pct else ""
        words = f" {used.gpu_util_pct:.0f}% in the mean{idle}{origin(used.gpu_source)}"
        lines.append((*_gauge("GPUs", used.gpu_util_pct), Cell(words)))
    if used.gpu_mem_peak_bytes:
        lines.append(fact("GPU mem", f"{format_memory(used.gpu_mem_peak_bytes)} at most"))
    if used.peak_mem_bytes:
        lines.append(_memory_peak(row, used.peak_mem_bytes))
    if used.cpu_seconds:
        mean = used.cpu_seconds / ran if ran else None
        busy = "" if mean is None else f", {mean:.1f} of {plural(row.cpus, 'CPU')} in the mean"
        lines.append(fact("CPU time", f"{format_duration(used.cpu_seconds)}{busy}"))
    if used.energy_j:
        kwh = used.energy_j / JOULES_PER_KWH
        energy = f"{kwh:.2f} kWh" if kwh >= 1 else f"{1000 * kwh:.3g} Wh"
        lines.append(fact("energy", f"{energy} of the GPUs"))
    return lines


def _step(step: StepRow, now: float) -> Line:
    """Return a line for a step: id, state, elapsed time, size, nodes and resource usage."""
    ran = format_duration(max(0.0, (step.end or now) - step.start))
    gpus = f", {plural(step.gpus, 'GPU')}" if step.gpus else ""
    used = "" if step.used is None else ", ".join(used_words(step.used))
    ended = f"  exit {step.exit_code.partition(':')[0]}" if step.exit_code not in ("", "0:0") else ""
    return (
        Cell(f"{step.id:<12} "),
        Cell(f"{glyph(step.state)} {step.state}{ended}", step.state),
        Cell(f"  {ran}  {printable(step.name)}  {plural(step.tasks, 'task')}{gpus} on {step.node_list}"),
        Cell(f"  {used}" if used else "", "muted"),
    )
