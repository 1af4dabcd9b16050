"""Handler that changes comments or the derived exit code in the records of jobs.

The rules are those of slurmdbd. Users may change the comment and the derived exit code of their own jobs.
Administrators may change all of these fields of all jobs. If the caller may not change one of the jobs, no
job is changed.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import CommentUpdated, Outcome
from warpdeck.controller.state.state import amend
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job
from warpdeck.model.annotations import Annotations
from warpdeck.ports.caller import Principal, may_touch, whose

from .job_commands import recall

OF_ADMINS = frozenset({"admin_comment", "system_comment"})
NONE = Annotations()


def annotate(txn: Transaction, event: CommentUpdated) -> Outcome:
    """Change the annotations of the jobs. Raises UserError if a job is unknown or must not be changed."""
    recall(txn, event.ended)
    wanted = event.annotating.asked()
    for number in event.ids:
        job = txn.state.jobs.get(number)
        if job is None:
            raise UserError(f"there is no job {number}", code="not_found")
        check_rights(event.who, job, wanted)
        now = {"derived_at_unix": txn.now} if "derived_exit" in wanted else {}
        txn.put_job(amend(job, annotations=amend(job.annotations or NONE, **wanted, **now)))
        txn.log(job.id, f"record changed by {event.who.user}: {', '.join(sorted(wanted))}")
    return Outcome(replan=False)


def check_rights(who: Principal, job: Job, wanted: dict[str, str | int]) -> None:
    """Raise UserError if the caller may not change these fields of the job."""
    if who.admin:
        return
    if not may_touch(who, job):
        raise UserError(
            f"job {job.label()} belongs to {whose(who, job)}, not to {who.user}", code="not_owner"
        )
    if wanted.keys() & OF_ADMINS:
        raise UserError(
            "only admins can change the admin comment and the system comment",
            "change `comment` instead",
            code="denied",
        )
