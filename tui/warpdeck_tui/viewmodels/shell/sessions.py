"""Interactive sessions and forwarded ports: their rows, their addresses, and the options of the next
shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.job_rows import ForwardRow, JobRow
from warpdeck_tui.table.palette import Palette
from warpdeck_tui.viewmodels.cells import Cell, Line, age, fact, glyph, plural
from warpdeck_tui.viewmodels.jobs.waiting import why_words
from warpdeck_tui.widgets.cells import printable
from warpdeck_tui.widgets.log.ansi import themed

from .replay import Written

FORWARD = "forward "
"""Prefix of the key of a forward's row, before its number. The key of a session is the job's id."""


def sessions(jobs: Iterable[JobRow], *, user: str | None) -> list[JobRow]:
    """Return the waiting and running interactive jobs of one user or of all, the latest first."""
    found = [job for job in jobs if job.interactive and job.end is None and user in (None, job.user)]
    return sorted(found, key=lambda job: -job.id)


def left_words(rows: Sequence[JobRow], *, key: str) -> str:
    """Return the message about the user's sessions that no terminal shows, the latest first.

    `key` is what the user presses to attach to the latest one.
    """
    latest = rows[0]
    if len(rows) > 1:
        return f"{len(rows)} sessions are waiting for you: {key} attaches to {latest.label}; 5 lists all"
    if latest.state == "PENDING":
        return f"Session {latest.label} is still pending: {key} waits for it"
    return f"Session {latest.label} is waiting for you: {key} attaches"


def session_rows(
    jobs: Sequence[JobRow], forwards: Sequence[ForwardRow], *, now: float
) -> list[tuple[str, tuple[Cell, ...]]]:
    """Return rows (key, cells): each session with its ports below it, then the ports of other jobs."""
    rows: list[tuple[str, tuple[Cell, ...]]] = []
    left = list(forwards)
    for job in jobs:
        rows.append((str(job.id), _session(job, now=now)))
        below = [each for each in left if each.job == job.label]
        left = [each for each in left if each.job != job.label]
        rows += [(f"{FORWARD}{each.number}", _forward(each, now=now, name="")) for each in below]
    rows += [(f"{FORWARD}{each.number}", _forward(each, now=now, name=each.job)) for each in left]
    return rows


def url(row: ForwardRow, *, page: str = "") -> str:
    """Return the URL of the forwarded port. It contains a notebook's token only if `page` does."""
    return f"http://127.0.0.1:{row.local_port}{page or row.page}"


def leads_to(row: ForwardRow) -> str:
    """Return the target of a forward, and whether it is in use."""
    used = plural(row.connections, "connection") if row.connections else "unused"
    return f"{used}, to {row.port} on {row.node}"


def return_lines(row: JobRow, *, user: str) -> list[Line]:
    """Return how the user gets back to a running session of their own, also from another terminal."""
    if row.user != user or row.state != "RUNNING":
        return []
    lines = [fact("attach", f"a, or `warpdeck attach {row.label}` in any terminal")]
    return [*lines, fact("detach", "Enter, then ~ d; the session keeps running")]


def forward_facts(row: ForwardRow, *, now: float) -> tuple[Line, list[Line]]:
    """Return the title and the facts about a forwarded port."""
    facts = [
        fact("url", url(row)),
        fact("leads to", leads_to(row)),
        fact("job", row.job),
        fact("user", printable(row.user)),
        fact("open", f"for {age(now - row.since)}, {plural(row.connections, 'connection')}"),
    ]
    title = (Cell(f"port {row.local_port}", "accent"), Cell(f" {printable(row.purpose)}", "title"))
    return title, facts


def glance_title(row: JobRow) -> Line:
    """Return the title above the screen of a session."""
    return (
        Cell(f"{row.label} {printable(row.name)}", "accent"),
        Cell("   current screen (read-only)", "muted"),
    )


def glance_text(screen: Sequence[Sequence[Written]], *, rows: int, styles: Palette) -> Text:
    """Return the last lines of a session's screen, in its own colors. Long lines are cut off."""
    text = Text(no_wrap=True)
    for line in screen[-rows:]:
        text.append("\n" if text else "")
        for written, style in line or [Written(" ")]:
            text.append(printable(written), themed(style, styles))
    return text if screen else Text("(empty screen)")


def shell_options(jobs: Iterable[JobRow], *, user: str, has_gpus: bool) -> list[str]:
    """Return the options of the next shell: GPUs, partition and time limit of the user's last session."""
    mine = [job for job in jobs if job.interactive and job.user == user]
    if not mine:
        return ["--gpus=1"] if has_gpus else []
    last = max(mine, key=lambda job: job.id)
    kind = f"{last.gpu_type}:" if last.gpu_type else ""
    options = [f"--gpus={kind}{last.gpus}"] if last.gpus else []
    options += [f"--partition={last.partition}"] if last.partition else []
    return options + ([f"--time={format_duration(last.time_limit_s)}"] if last.time_limit_s else [])


def summary(jobs: Sequence[JobRow], forwards: Sequence[ForwardRow]) -> str:
    """Return a summary, such as "2 sessions   1 forwarded port"."""
    return f"{plural(len(jobs), 'session')}   {plural(len(forwards), 'forwarded port')}"


def _session(job: JobRow, *, now: float) -> tuple[Cell, ...]:
    runs = job.start is not None and job.state != "PENDING"
    why = why_words(job.why) if job.why else ""
    idle = f"idle for {age(now - job.idle_since)}" if job.idle_since else ""
    return (
        Cell(job.label),
        Cell(f"{glyph(job.state)} {job.state_short}", job.state),
        Cell(job.name),
        Cell(job.user),
        Cell(str(job.gpus) if job.gpus else ""),
        Cell(age(now - (job.start or now)) if runs else ""),
        Cell(job.node_list if runs else why, "" if runs else "PENDING"),
        Cell(idle, "warn"),
    )


def _forward(row: ForwardRow, *, now: float, name: str) -> tuple[Cell, ...]:
    return (
        Cell(name),
        Cell(""),
        Cell(f"↳ {row.purpose or 'port'}", "muted"),
        Cell(row.user if name else ""),
        Cell(""),
        Cell(age(now - row.since), "muted"),
        Cell(url(row), "accent"),
        Cell(leads_to(row), "muted"),
    )
