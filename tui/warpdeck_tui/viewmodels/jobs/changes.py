"""Compares a job with the last completed job of its name: submission, script, environment and code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck_tui.widgets.cells import printable

from .environment import environment_changes
from .job import BOLD, GREEN, PLAIN, RED, asked


def last_that_worked(row: JobRow, jobs: Iterable[JobRow]) -> JobRow | None:
    """Return the last completed job of the same user and name that was submitted before this one, or None."""
    before = [
        each
        for each in jobs
        if (each.user, each.name, each.state) == (row.user, row.name, "COMPLETED") and each.id < row.id
    ]
    return max(before, key=lambda each: each.id, default=None)


def changes_text(
    worked: JobDetail, now: JobDetail, *, code: str, variables: tuple[Mapping[str, str], Mapping[str, str]]
) -> str:
    """Return the differing facts, script lines and variables of two jobs, followed by `code`.

    `code` describes the changes of the code. `variables` are those of both jobs; they are empty if the jobs
    belong to another user.
    """
    before, after = _facts(worked), _facts(now)
    lines = [
        line
        for title, words in after.items()
        if before[title] != words
        for line in _changed(f"{title}: {before[title] or 'none'}", f"{title}: {words or 'none'}")
    ]
    lines += [
        line
        for name, then, this in environment_changes(*variables)
        for line in _changed(f"{name}={then}" if then else "", f"{name}={this}" if this else "")
    ]
    lines += _script_changes(worked.script, now.script)
    heading = f"{BOLD}Submission{PLAIN}"
    return "\n".join([heading, *(lines or ["No changes"]), "", f"{BOLD}Code{PLAIN}", code])


def _changed(before: str, after: str) -> list[str]:
    """Return a removed and an added line, without those that are empty."""
    return [f"{RED}-{before}{PLAIN}"] * bool(before) + [f"{GREEN}+{after}{PLAIN}"] * bool(after)


def _facts(detail: JobDetail) -> dict[str, str]:
    """Return the facts of a job.

    Control characters are removed, because some texts were written by other users.
    """
    row = detail.row
    facts = {
        "requested": asked(row),
        "limit": "none" if row.time_limit_s is None else format_duration(row.time_limit_s),
        "partition": f"{row.partition}, QoS {row.qos}",
        "account": row.account,
        "nodes": row.node_list,
        "folder": detail.submit_dir,
        "command": detail.submit_line,
    }
    return {title: printable(words) for title, words in facts.items()}


def _script_changes(before: str, after: str) -> list[str]:
    """Return the lines of the script that differ."""
    found = list(difflib.unified_diff(_telling(before), _telling(after), n=0, lineterm=""))
    # the first two lines contain the names of the files
    changed = [line for line in found[2:] if not line.startswith("@@")]
    return [
        f"{RED if line.startswith('-') else GREEN}{line[0]}script: {printable(line[1:])}{PLAIN}"
        for line in changed
    ]


def _telling(script: str) -> list[str]:
    """Return the lines of the script without comments and empty lines."""
    kept = (line.strip() for line in script.splitlines())
    return [line for line in kept if line and (not line.startswith("#") or line.startswith("#SBATCH"))]
