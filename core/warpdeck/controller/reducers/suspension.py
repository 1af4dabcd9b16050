"""Handlers that suspend and resume jobs, for an administrator or for the planner.

A suspended job keeps its memory. Its CPUs are free for other jobs, and its GPUs are also free if the site
allows it. Only an administrator resumes a job that an administrator suspended; the planner does not change
it. A job is resumed only if the resources that it held are free again.
"""

from __future__ import annotations

from collections.abc import Collection

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Effect, KillShare, Outcome
from warpdeck.controller.events.events import Resumed, Suspended
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import fits_now
from warpdeck.model import Allocation, Job, JobState, NodeName
from warpdeck.ports.caller import Principal, is_operator
from warpdeck_agent.wire.messages import RESUMED, SUSPENDED

from .job_commands import is_with_its_leader, on_each

SIGCONT, SIGSTOP = 18, 19
"""Signal numbers of Linux, equal on every architecture with NVIDIA GPUs."""


def suspend(txn: Transaction, event: Suspended) -> Outcome:
    """Suspend running jobs. As in Slurm, raises UserError unless the caller is an administrator."""
    _check_admin(event.principal)
    return on_each(txn, event, lambda job: _suspend_one(txn, job, event.principal, event.jobs))


def resume(txn: Transaction, event: Resumed) -> Outcome:
    """Resume suspended jobs. Raises UserError unless the caller is an administrator."""
    _check_admin(event.principal)
    return on_each(txn, event, lambda job: _resume_one(txn, job, event.principal))


def _check_admin(principal: Principal) -> None:
    if not is_operator(principal):
        hint = "ask an administrator; `warpdeck hold` keeps waiting jobs from starting"
        raise UserError("only admins can suspend and resume jobs", hint, code="denied")


def _suspend_one(txn: Transaction, job: Job, principal: Principal, named: Collection[str]) -> list[Effect]:
    if job.has_leader and not is_with_its_leader(txn, job, named):
        raise UserError(
            f"job {job.label()} is a component of a heterogeneous job",
            f"suspend the whole job {job.array_job_id}",
            code="component",
        )
    if job.state is JobState.SUSPENDED and job.suspended_by:
        return []
    if job.state is JobState.SUSPENDED:
        txn.put_job(replace(job, suspended_by=principal.user))
        txn.log(job.id, f"kept suspended by {principal.user}")
        return []
    if job.state is not JobState.RUNNING:
        raise UserError(
            f"job {job.label()} is not running ({job.state})",
            "only running jobs can be suspended",
            code="pending" if job.state is JobState.PENDING else "not_running",
        )
    return suspend_job(txn, job, keeps_gpus=True, by=principal.user)


def _resume_one(txn: Transaction, job: Job, principal: Principal) -> list[Effect]:
    if job.state is not JobState.SUSPENDED or job.allocation is None:
        code = "pending" if job.state is JobState.PENDING else "not_suspended"
        raise UserError(f"job {job.label()} is not suspended ({job.state})", code=code)
    if not fits_now(txn.state, job.allocation, ignoring=job.id):
        raise UserError(
            f"the resources of job {job.label()} are in use",
            "wait until they are free, or cancel the jobs that use them",
        )
    return resume_job(txn, job, by=principal.user)


def suspend_job(txn: Transaction, job: Job, *, keeps_gpus: bool, by: str = "") -> list[Effect]:
    """Suspend a running job. `by` is the administrator who requested it, or "" for the planner."""
    assert job.allocation is not None
    kept = tuple(
        replace(share, cpus=0) if keeps_gpus else replace(share, cpus=0, gpus=(), gpu_uuids=())
        for share in job.allocation.shares
    )
    stopped = txn.put_job(
        replace(
            job,
            state=JobState.SUSPENDED,
            suspended_at_unix=txn.now,
            suspended_by=by,
            kept=Allocation(shares=kept),
        )
    )
    txn.log(job.id, f"suspended by {by}" if by else "suspended")
    return [
        effect
        for share in stopped.shares
        for effect in correct_suspension(stopped, share.node, stopped_there=False)
    ]


def resume_job(txn: Transaction, job: Job, *, by: str = "") -> list[Effect]:
    """Resume a suspended job with all its resources.

    The suspended time does not count against the time limit of the job.
    """
    stopped_s = max(0.0, txn.now - (job.suspended_at_unix or txn.now))
    resumed = txn.put_job(
        replace(
            job,
            state=JobState.RUNNING,
            kept=None,
            suspended_at_unix=None,
            suspended_by="",
            resumed_at_unix=txn.now,
            suspended_s=job.suspended_s + stopped_s,
        )
    )
    txn.log(job.id, f"resumed by {by}" if by else "resumed")
    return [
        effect
        for share in resumed.shares
        for effect in correct_suspension(resumed, share.node, stopped_there=True)
    ]


def correct_suspension(job: Job, node: NodeName, *, stopped_there: bool) -> list[Effect]:
    """Return the signal to send if the share on the node does not have the job's state (suspended or
    running).

    An earlier signal may have been lost with the link.
    """
    suspends = job.state is JobState.SUSPENDED
    if job.state not in (JobState.SUSPENDED, JobState.RUNNING) or stopped_there == suspends:
        return []
    number, cause = (SIGSTOP, SUSPENDED) if suspends else (SIGCONT, RESUMED)
    return [KillShare(node=node, job_id=job.id, restarts=job.restarts, cause=cause, signal=number)]
