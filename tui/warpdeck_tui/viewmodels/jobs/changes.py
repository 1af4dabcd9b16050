"""Compares the options, the script and the environment of two jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.job_rows import JobDetail, JobRow
from warpdeck_tui.viewmodels.diffs.parsing import FileDiff, fact_diff, text_diff
from warpdeck_tui.widgets.cells import printable

from .environment import environment_changes
from .job import asked


def last_that_worked(row: JobRow, jobs: Iterable[JobRow]) -> JobRow | None:
    """Return the last completed job of the same user and name that was submitted before this one, or None."""
    before = [
        each
        for each in jobs
        if (each.user, each.name, each.state) == (row.user, row.name, "COMPLETED") and each.id < row.id
    ]
    return max(before, key=lambda each: each.id, default=None)


def option_changes(
    worked: JobDetail, now: JobDetail, *, variables: tuple[Mapping[str, str], Mapping[str, str]]
) -> list[FileDiff]:
    """Return the differing facts, script lines and variables of two jobs.

    `variables` are those of both jobs; they are empty if the jobs belong to another user.
    """
    before, after = _facts(worked), _facts(now)
    facts = [
        (f"{title}: ", before[title] or "none", words or "none")
        for title, words in after.items()
        if before[title] != words
    ]
    changed = [
        (f"{name}=" if then or this else "", then, this)
        for name, then, this in environment_changes(*variables)
    ]
    return [
        found
        for found in (
            fact_diff("options", facts),
            fact_diff("environment", changed),
            _script_changes(worked.script, now.script),
        )
        if found is not None
    ]


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


def _script_changes(before: str, after: str) -> FileDiff | None:
    """Return the differences of the scripts, or None if only comments and empty lines differ."""
    return text_diff("script", before, after) if _telling(before) != _telling(after) else None


def _telling(script: str) -> list[str]:
    """Return the lines of the script without comments and empty lines."""
    kept = (line.strip() for line in script.splitlines())
    return [line for line in kept if line and (not line.startswith("#") or line.startswith("#SBATCH"))]
