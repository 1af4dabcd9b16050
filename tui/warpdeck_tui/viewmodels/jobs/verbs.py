"""Decides which actions apply to a job in its present state, and explains why others do not."""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.widgets.cells import printable

JOB_VERBS = ("cancel", "hold", "release", "requeue", "pause", "limit", "priority", "attach")
DONE = {
    "cancel": "Canceled",
    "hold": "Held",
    "release": "Released",
    "requeue": "Requeued",
    "pause": "Paused",
    "limit": "Changed the time limit of",
    "priority": "Changed the priority of",
}
TAKES_BACK = {"hold": "release", "release": "hold"}
NO_JOB = "No job under the cursor"
AT_ONCE = ("hold", "release")
"""Actions that need no confirmation on a single job, because each undoes the other."""

WHOLE_ARRAYS = ("cancel", "hold", "release")
"""Actions for which the number of an array means its tasks in the queue. For requeue it would also mean tasks
that ended long ago.
"""


def refusal(verb: str, row: JobRow) -> str:
    """Return why the action does not apply to this job, or "" if it does."""
    ended, waits = row.end is not None, row.state == "PENDING"
    if verb == "requeue":
        if row.interactive:
            return f"Job {row.label} is interactive and cannot be requeued. Press i to start a new one"
        return f"Job {row.label} is already pending" if waits else ""
    if ended:
        return f"Job {row.label} has ended ({row.state})"
    if verb == "pause" and row.interactive:
        return f"Job {row.label} is interactive and cannot be paused"
    if verb == "pause" and row.state != "RUNNING":
        return f"Job {row.label} is not running ({row.state}). Only running jobs can be paused"
    if verb == "hold" and not waits:
        runs = "is suspended" if row.state == "SUSPENDED" else "is already running"
        return f"Job {row.label} {runs}. Only pending jobs can be held"
    if verb == "priority" and not waits:
        return f"Job {row.label} is not pending ({row.state}). Only pending jobs have a priority"
    if verb == "priority" and row.held:
        return f"Job {row.label} is held. Press U to release it"
    if verb == "hold" and row.held:
        return f"Job {row.label} is already held. Press U to release it"
    if verb == "release" and not row.held:
        return f"Job {row.label} is not held"
    if verb == "attach" and not row.interactive:
        return f"Job {row.label} has no terminal. Press l to open its log"
    return ""


def fits(verb: str, rows: Sequence[JobRow]) -> bool:
    """Return whether the action applies to at least one of these jobs."""
    return any(not refusal(verb, row) for row in rows)


def that_fit(verb: str, rows: Sequence[JobRow]) -> list[JobRow]:
    """Return the jobs to which the action applies."""
    return [row for row in rows if not refusal(verb, row)]


def said_done(verb: str, labels: Sequence[str]) -> str:
    """Return the message after an action, such as "Canceled job 12" or "Held 3 jobs"."""
    what = f"job {printable(labels[0])}" if len(labels) == 1 else f"{len(labels)} jobs"
    return f"{DONE[verb]} {what}"
