"""What has changed since a job last worked: the last one of its name that completed, compared in all but its code."""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.api.rows import JobDetail, JobRow
from warpdeck.notation.times import format_duration
from warpdeck_tui.widgets.cells import printable

from .job import BOLD, GREEN, PLAIN, RED, asked


def last_that_worked(row: JobRow, jobs: Iterable[JobRow]) -> JobRow | None:
    """Of the same user and name, and submitted before it."""
    before = [
        each
        for each in jobs
        if (each.user, each.name, each.state) == (row.user, row.name, "COMPLETED") and each.id < row.id
    ]
    return max(before, key=lambda each: each.id, default=None)


def changes_text(worked: JobDetail, now: JobDetail, *, code: str) -> str:
    """The facts that differ, the script's lines, then the code as `code` tells it."""
    lines = [f"{BOLD}how it was submitted{PLAIN}"]
    before, after = _facts(worked), _facts(now)
    for title, words in after.items():
        if before[title] != words:
            lines += [
                f"{RED}-{title}: {before[title] or 'none'}{PLAIN}",
                f"{GREEN}+{title}: {words or 'none'}{PLAIN}",
            ]
    if len(lines) == 1:
        lines.append("the same")
    return "\n".join([*lines, "", f"{BOLD}its code{PLAIN}", code])


def _facts(detail: JobDetail) -> dict[str, str]:
    """What is printed is made harmless: some of it is other people's words."""
    row = detail.row
    facts = {
        "asked": asked(row),
        "limit": "none" if row.time_limit_s is None else format_duration(row.time_limit_s),
        "partition": f"{row.partition}, QoS {row.qos}",
        "account": row.account,
        "nodes": row.node_list,
        "folder": detail.submit_dir,
        "command": detail.submit_line,
        "script": _script(detail.script),
    }
    return {title: printable(words) for title, words in facts.items()}


def _script(text: str) -> str:
    """In one line: comments and empty lines say nothing."""
    kept = (line.strip() for line in text.splitlines())
    return "; ".join(
        line for line in kept if line and (not line.startswith("#") or line.startswith("#SBATCH"))
    )
