"""Handlers that apply the planner's decisions: starts, preemptions, resumptions, and ends of jobs that can
never start.
"""

from __future__ import annotations

from warpdeck.controller.events.effects import Effect, LaunchShare, Outcome
from warpdeck.controller.events.events import Planned
from warpdeck.controller.state.array_record_splitting import split_tasks
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import eligible_unix, excludes_other_users, fits_now, unavailable_reason
from warpdeck.model import Allocation, ExitStatus, Job, JobState, Share, ShareStatus, has_task
from warpdeck.policy import EndDecision, Preempt, Resume, Start

from .hetjob_components import others, whole_starts
from .job_commands import end_job
from .launch_prefetch import prefetch_tasks
from .suspension import resume_job, suspend_job


def apply_plan(txn: Transaction, event: Planned) -> Outcome:
    """Apply the planner's decisions. A decision that no longer fits the state is left to the next pass."""
    effects: list[Effect] = []
    for end in event.ends:
        _end_waiting(txn, end)
    for preempt in event.preempts:
        effects += _preempt(txn, preempt)
    for resume in event.resumes:
        effects += _resume(txn, resume)
    for group in whole_starts(txn.state, event.starts):
        effects += _start_all(txn, group)
    for prefetch in event.prefetches:
        effects += prefetch_tasks(txn, prefetch)
    stopped = any(preempt.mode == "suspend" for preempt in event.preempts)
    return Outcome(effects=tuple(effects), replan=bool(event.ends) or stopped)


def _end_waiting(txn: Transaction, end: EndDecision) -> None:
    """End a job that can never start, and record the reason."""
    job = txn.state.jobs.get(end.job_id)
    if job is None or job.state is not JobState.PENDING:
        return
    cause = "deadline" if end.state == "DEADLINE" else "dependency"
    status = ExitStatus(cause=cause, message=end.sentence)
    txn.put_job(replace(job, state=JobState(end.state), exit=status, end_at_unix=txn.now, ending_cause=cause))
    txn.log(job.id, f"ended without a start ({end.code}): {end.sentence}")
    for other in others(txn.state, job) if not job.has_leader else ():
        _end_waiting(txn, replace(end, job_id=other.id))


def _preempt(txn: Transaction, preempt: Preempt) -> list[Effect]:
    """Preempt a running job: suspend it, or end it after its grace time. The job can save its work during the
    grace time.
    """
    job = txn.state.jobs.get(preempt.job_id)
    if job is None or job.state is not JobState.RUNNING:
        return []
    txn.log(job.id, f"preempted ({preempt.mode}): {preempt.sentence}")
    _record_claims(txn, preempt)
    if preempt.mode == "suspend":
        return suspend_job(txn, job, keeps_gpus=preempt.keeps_gpus)
    job = replace(job, requeue_on_exit=preempt.mode == "requeue" and job.request.pty is None)
    return end_job(txn, job, "preempted", saving_s=preempt.grace_s)


def _record_claims(txn: Transaction, preempt: Preempt) -> None:
    """Record the resources that the preemption frees in the jobs that caused it."""
    for job_id, claim in ((preempt.for_job_id, preempt.preempted_claim), *preempt.component_claims):
        job = txn.state.jobs.get(job_id)
        if job is not None and job.state is JobState.PENDING and job.preempted_claim != claim:
            txn.put_job(replace(job, preempted_claim=claim))


def _resume(txn: Transaction, resume: Resume) -> list[Effect]:
    job = txn.state.jobs.get(resume.job_id)
    if job is None or job.state is not JobState.SUSPENDED or job.allocation is None:
        return []
    if job.suspended_by:
        return []
    if not fits_now(txn.state, job.allocation, ignoring=job.id):
        return []
    return resume_job(txn, job)


def _start_all(txn: Transaction, starts: list[Start]) -> list[Effect]:
    """Start all jobs of the group, or none."""
    savepoint, effects = txn.savepoint(), list[Effect]()
    for start in starts:
        launches = _start(txn, start)
        if not launches:
            txn.rollback(savepoint)
            return []
        effects += launches
    return effects


def _start(txn: Transaction, start: Start) -> list[Effect]:
    job = txn.state.jobs.get(start.job_id)
    if job is None or job.state is not JobState.PENDING or job.held:
        return []
    if not _can_begin(txn, start.allocation) or not _users_may_meet(txn, job, start):
        return []
    if job.is_folded_array:
        if start.task is None or not has_task(job.pending_tasks, start.task):
            return []
        job = split_tasks(txn, replace(job, preempted_claim=None), ((start.task, start.task, 1),))
    names = start.allocation.node_names()
    job = txn.put_job(
        replace(
            job,
            state=JobState.CONFIGURING,
            allocation=start.allocation,
            preempted_claim=None,
            partition=start.partition or job.request.partition,
            magnetic_reservation="" if job.request.reservation else start.reservation,
            priority=txn.state.planned.priorities.get(start.job_id),
            time_limit_s=_limit_s(job, start, txn.now),
            eligible_at_unix=eligible_unix(txn.state, job, now=txn.now),
            shares=tuple(ShareStatus(node=name) for name in names),
        )
    )
    txn.log(job.id, f"allocated {', '.join(_share_text(share) for share in start.allocation.shares)}")
    return [LaunchShare(node=name, job_id=job.id) for name in names]


def _can_begin(txn: Transaction, allocation: Allocation) -> bool:
    """Return whether the whole allocation is free on nodes and GPUs that accept jobs."""
    state = txn.state
    nodes = [state.nodes.get(name) for name in allocation.node_names()]
    takes = all(node is not None and not unavailable_reason(state, node) for node in nodes)
    return (
        takes
        and not any(
            index in state.view_cache.blocked(state, share.node)
            for share in allocation.shares
            for index in share.gpus
        )
        and fits_now(state, allocation, ignoring=None)
    )


def _users_may_meet(txn: Transaction, job: Job, start: Start) -> bool:
    """Return whether the job may share its nodes with the jobs on them (--exclusive=user).

    It may not if a job of another user runs there, and one of the two jobs or its partition excludes other
    users.
    """
    state = txn.state
    is_exclusive = excludes_other_users(state, job, start.partition)
    there = [other for name in start.allocation.node_names() for other in state.jobs_on(name)]
    others = [other for other in there if other.uid != job.uid]
    return not any(is_exclusive or excludes_other_users(state, other, other.partition) for other in others)


def _limit_s(job: Job, start: Start, now: float) -> int | None:
    """Return the time limit in seconds that the planner chose.

    A job without a limit may run until its deadline.
    """
    deadline = job.request.deadline_unix
    if start.time_limit_s is not None or deadline is None:
        return start.time_limit_s
    return max(1, int(deadline - now))


def _share_text(share: Share) -> str:
    if not share.gpus:
        return share.node
    return f"{share.node} (GPU {','.join(str(index) for index in share.gpus)})"
