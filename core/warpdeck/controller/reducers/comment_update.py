"""Handler that changes comments or the derived exit code in the records of jobs.

The rules are those of slurmdbd. Users may change the comment and the derived exit code of their own jobs.
Administrators may change all of these fields of all jobs. If the caller may not change one of the jobs, no
job is changed.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import CommentUpdated
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job
from warpdeck.model.annotations import Annotations
from warpdeck.ports.caller import Principal, is_administrator, may_read, owner_text

from .job_commands import reload_ended

OF_ADMINS = frozenset({"admin_comment", "system_comment"})
NONE = Annotations()


def annotate(txn: Transaction, event: CommentUpdated) -> Outcome:
    """Change the annotations of the jobs. Raises UserError if a job is unknown or must not be changed."""
    reload_ended(txn, event.ended)
    changed = event.changes.changed_fields()
    for number in event.ids:
        job = txn.state.jobs.get(number)
        if job is None:
            raise UserError(f"there is no job {number}", code="not_found")
        check_rights(event.principal, job, changed)
        now = {"derived_at_unix": txn.now} if "derived_exit" in changed else {}
        txn.put_job(replace(job, annotations=replace(job.annotations or NONE, **changed, **now)))
        txn.log(job.id, f"record changed by {event.principal.user}: {', '.join(sorted(changed))}")
    return Outcome(replan=False)


def check_rights(principal: Principal, job: Job, changed: dict[str, str | int]) -> None:
    """Raise UserError if the caller may not change these fields of the job."""
    if is_administrator(principal):
        return
    if not may_read(principal, job):  # As in Slurm, a coordinator may not.
        raise UserError(
            f"job {job.label()} belongs to {owner_text(principal, job)}, not to {principal.user}",
            code="not_owner",
        )
    if changed.keys() & OF_ADMINS:
        raise UserError(
            "only admins can change the admin comment and the system comment",
            "change `comment` instead",
            code="denied",
        )
