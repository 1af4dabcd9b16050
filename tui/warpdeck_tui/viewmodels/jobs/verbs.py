"""Which verbs mean something for a job as it is now, and in words why not: the key line and the screens ask here."""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.protocol.job_rows import JobRow
from warpdeck_tui.widgets.cells import printable

JOB_VERBS = ("cancel", "hold", "release", "requeue", "limit", "priority", "attach")
DONE = {
    "cancel": "cancelled",
    "hold": "held",
    "release": "released",
    "requeue": "requeued",
    "limit": "changed the time limit of",
    "priority": "changed the priority of",
}
TAKES_BACK = {"hold": "release", "release": "hold"}
NO_JOB = "there is no job under the cursor"
AT_ONCE = ("hold", "release")
"""Done without asking on a single job: the other verb takes it back."""

WHOLE_ARRAYS = ("cancel", "hold", "release")
"""Said of an array's number they meet the tasks that are in the queue; requeue would meet those that ended long ago too."""


def refusal(verb: str, row: JobRow) -> str:
    """Why the verb means nothing for this job, "" if it does."""
    ended, waits = row.end is not None, row.state == "PENDING"
    if verb == "requeue":
        if row.interactive:
            return f"job {row.label} is interactive: i starts another"
        return f"job {row.label} waits in the queue already" if waits else ""
    if ended:
        return f"job {row.label} has ended ({row.state})"
    if verb == "hold" and not waits:
        runs = "is suspended" if row.state == "SUSPENDED" else "runs already"
        return f"job {row.label} {runs}; only waiting jobs can be held"
    if verb == "priority" and not waits:
        return f"job {row.label} does not wait any more ({row.state}); only waiting jobs have a priority"
    if verb == "priority" and row.held:
        return f"job {row.label} is held; U releases it"
    if verb == "hold" and row.held:
        return f"job {row.label} is held already; U releases it"
    if verb == "release" and not row.held:
        return f"job {row.label} is not held"
    if verb == "attach" and not row.interactive:
        return f"job {row.label} has no terminal; l shows its log"
    return ""


def fits(verb: str, rows: Sequence[JobRow]) -> bool:
    """Whether the verb means something for at least one of these jobs."""
    return any(not refusal(verb, row) for row in rows)


def that_fit(verb: str, rows: Sequence[JobRow]) -> list[JobRow]:
    """Those for which the verb means something."""
    return [row for row in rows if not refusal(verb, row)]


def said_done(verb: str, labels: Sequence[str]) -> str:
    """ "cancelled job 12", "held 3 jobs"."""
    what = f"job {printable(labels[0])}" if len(labels) == 1 else f"{len(labels)} jobs"
    return f"{DONE[verb]} {what}"
