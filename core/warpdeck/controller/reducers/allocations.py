"""Handlers for allocations of srun and salloc.

Such an allocation runs nothing itself and ends when its client releases it.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Effect, Outcome
from warpdeck.controller.events.events import HolderLeft, HolderSeen
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import ExitStatus, Job, JobState
from warpdeck.ports.caller import NOT_YOURS, may_access, owner_text

from .job_commands import end_job

RELEASED = "released"
"""Cause of an end that the client requested.

The client reports the exit status of the job.
"""


def release_by_client(txn: Transaction, event: HolderLeft) -> Outcome:
    """End an allocation because its client releases it or has disappeared.

    Raises UserError if the caller may not end it.
    """
    job = txn.state.jobs.get(event.job_id)
    if job is None or not job.request.holder:
        raise UserError(
            f"job {event.job_id} is not an allocation", f"cancel it with `warpdeck cancel {event.job_id}`"
        )
    if not may_access(event.principal, job):
        raise UserError(
            f"job {job.label()} belongs to {owner_text(event.principal, job)}, not to {event.principal.user}",
            code=NOT_YOURS,
        )
    return Outcome(effects=tuple(release(txn, job, ExitStatus(code=event.code, signal=event.signal))))


def see(txn: Transaction, event: HolderSeen) -> Outcome:
    """Record whether the client of an allocation or step is connected.

    The time of the disconnection is stored, so that the time limit for a reconnection also holds across
    restarts of the controller.
    """
    since = None if event.is_connected else txn.now
    if event.step is not None:
        step = txn.state.steps.get(event.job_id, {}).get(event.step)
        if (
            step is not None
            and not step.is_finished
            and event.is_connected == (step.client_gone_since_unix is not None)
        ):
            txn.put_step(replace(step, client_gone_since_unix=since))
        return Outcome(replan=False)
    job = txn.state.jobs.get(event.job_id)
    if (
        job is not None
        and not job.is_finished
        and event.is_connected == (job.client_gone_since_unix is not None)
    ):
        txn.put_job(replace(job, client_gone_since_unix=since))
    return Outcome(replan=False)


def release(txn: Transaction, job: Job, status: ExitStatus) -> list[Effect]:
    """End the allocation with this status. A waiting job is cancelled, because it never had an allocation."""
    if job.is_finished or job.state is JobState.COMPLETING:
        return []
    if job.state is JobState.PENDING:
        for each in txn.state.array_members(job.array_job_id):
            if each.state is JobState.PENDING:
                txn.put_job(
                    replace(each, state=JobState.CANCELLED, end_at_unix=txn.now, ending_cause="cancelled")
                )
                txn.log(each.id, "the client that waited for it has exited")
        return []
    return end_job(txn, txn.put_job(replace(job, exit=status)), RELEASED)
