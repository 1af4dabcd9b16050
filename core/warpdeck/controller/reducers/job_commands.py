"""Handlers for user commands on jobs: cancel, hold, release, requeue and notify."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import chain

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Effect, KillShare, Outcome, ShowNotice
from warpdeck.controller.events.events import HANG, Cancelled, Held, JobCommand, NotifyJob, Released, Requeued
from warpdeck.controller.state.request_revision import RequestRevisions
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, JobId, JobState, NodeName, Ranges, split_ranges
from warpdeck.model.ranges import format_ranges, without_steps
from warpdeck.notation.values.job_ids import parse_job_id
from warpdeck.ports.caller import Principal, coordinates, may_access, may_control, owner_text

from .naming import JobReferences

ROOT_UID = 0


def reload_ended(txn: Transaction, ended: tuple[Job, ...]) -> None:
    """Load ended jobs back into memory, so that an event can refer to them. They are already in the store."""
    for job in ended:
        if job.id not in txn.state.jobs:
            txn.state.upsert_job(job)


def cancel(txn: Transaction, event: Cancelled) -> Outcome:
    """Cancel waiting or running jobs, or send a signal to them."""
    if event.signal:
        return on_each(txn, event, lambda job: _signal(txn, job, event))
    return on_each(txn, event, lambda job: _cancel_one(txn, job, event))


def _cancel_one(txn: Transaction, job: Job, event: Cancelled) -> list[Effect]:
    principal = event.principal
    if job.has_leader and _goes_with_its_leader(txn, job, event.jobs):
        return []
    if job.is_finished:
        raise UserError(f"job {job.label()} has already ended ({job.state})", code="already_done")
    if event.waiting_only and job.state is not JobState.PENDING:
        raise UserError(
            f"job {job.label()} has already started", "cancel it by its own id", code="already_begun"
        )
    txn.log(job.id, f"canceled by {principal.user}")
    job = replace(job, ended_by_uid=principal.uid)
    if job.state is JobState.PENDING:
        txn.put_job(replace(job, state=JobState.CANCELLED, end_at_unix=txn.now, ending_cause="cancelled"))
        return []
    return end_job(txn, job, "cancelled")


def is_with_its_leader(txn: Transaction, job: Job, named: Collection[str]) -> bool:
    """Return whether a command that names these jobs applies to all components of the job."""
    leader = txn.state.jobs.get(job.array_job_id)
    return leader is not None and not {leader.label(), str(leader.id)}.isdisjoint(named)


def _goes_with_its_leader(txn: Transaction, job: Job, named: Collection[str]) -> bool:
    """Return whether the component needs no separate action because its whole job is cancelled.

    Raises UserError if a waiting component was named without its leader, because components start together.
    """
    leader, is_all = txn.state.jobs.get(job.array_job_id), is_with_its_leader(txn, job, named)
    if job.state is not JobState.PENDING or leader is None or leader.is_finished:
        return is_all and job.is_finished
    if not is_all:
        raise UserError(
            f"job {job.label()} is a component of a waiting job",
            f"cancel the whole job {leader.id}",
            code="component",
        )
    return True


def end_job(txn: Transaction, job: Job, cause: str, *, saving_s: float | None = None) -> list[Effect]:
    """Request the end of a running job on all its nodes. If its end was already requested, the first cause
    stays.

    With `saving_s`, the job may save its work for that many seconds before it is ended. A later request that also
    returns the job to the queue does not shorten them, and any other one does.

    A suspended job does not get back the resources that it gave up, because other jobs may hold them now.
    """
    requeues = job.requeue_on_exit and cause in ("requeued", "preempted")
    leaves_by_unix = job.leaves_by_unix if requeues else None
    ended = replace(
        job,
        state=JobState.COMPLETING,
        ending_cause=job.ending_cause or cause,
        requeue_on_exit=requeues,
        leaves_by_unix=leaves_by_unix if saving_s is None else txn.now + saving_s,
    )
    txn.put_job(ended)
    return [
        kill_share(txn, ended, share.node, cause=cause) for share in job.shares if share.phase != "exited"
    ]


def kill_share(txn: Transaction, job: Job, name: NodeName, *, cause: str) -> KillShare:
    """Return the effect that ends a job's share. It may be repeated, so the grace time is the part that is left."""
    left_s = None if job.leaves_by_unix is None else max(0.0, job.leaves_by_unix - txn.now)
    return KillShare(
        node=name,
        job_id=job.id,
        restarts=job.restarts,
        cause=cause,
        grace_s=left_s,
        saves=left_s is not None,
    )


def _signal(txn: Transaction, job: Job, event: Cancelled) -> list[Effect]:
    if job.state is not JobState.RUNNING:
        code = "pending" if job.state in (JobState.PENDING, JobState.CONFIGURING) else "already_done"
        raise UserError(f"job {job.label()} is not running ({job.state})", code=code)
    txn.log(job.id, f"signal {event.signal} sent")
    return [
        KillShare(
            node=share.node, job_id=job.id, restarts=job.restarts, signal=event.signal, target=event.target
        )
        for share in job.shares
        if share.phase == "running"
    ]


def hold(txn: Transaction, event: Held) -> Outcome:
    """Hold jobs.

    A waiting job does not start until it is released. A running job is held once it is requeued.
    """
    return on_each(txn, event, lambda job: _hold_one(txn, job, event))


def release(txn: Transaction, event: Released) -> Outcome:
    """Release held jobs.

    As in Slurm, a priority that was set explicitly is computed again, even if the job was not held.
    """
    revisions = RequestRevisions()
    return on_each(txn, event, lambda job: _release_one(txn, job, event.principal, revisions))


def _hold_one(txn: Transaction, job: Job, event: Held) -> list[Effect]:
    _check_unfinished(job)
    set_held(txn, job, event.principal, for_owner=event.for_owner)
    return []


def set_held(txn: Transaction, job: Job, principal: Principal, *, for_owner: bool = False) -> Job:
    """Hold a job.

    The owner cannot release a job that root, an operator or a coordinator held, unless they held it `for_owner`.
    """
    is_other = principal.uid == ROOT_UID or principal.uid != job.uid
    by_admin = job.held_by_admin or (coordinates(principal, job) and is_other)
    if coordinates(principal, job) and for_owner:
        by_admin = False
    if job.held and by_admin is job.held_by_admin:
        return job
    txn.log(job.id, f"held by {principal.user}")
    return txn.put_job(replace(job, held=True, held_by_admin=by_admin))


def _release_one(
    txn: Transaction, job: Job, principal: Principal, revisions: RequestRevisions
) -> list[Effect]:
    _check_unfinished(job)
    if job.held_by_admin and not coordinates(principal, job):
        raise UserError(
            f"job {job.label()} is held by an admin", "ask an administrator to release it", code="denied"
        )
    waits = job.state is JobState.PENDING
    if waits and job.request.priority is not None:
        job = txn.put_job(revisions.of(txn, job, replace(job.request, priority=None)))
        txn.log(job.id, f"priority reset by {principal.user}")
    if job.held:
        # The time during which a job was held does not count as waiting time.
        eligible = max(job.eligible_at_unix, txn.now) if waits else job.eligible_at_unix
        txn.put_job(
            replace(
                job,
                held=False,
                held_by_admin=False,
                failed_nodes=(),
                lost_reservation="",
                requeued_held=False,
                special_exit=False,
                eligible_at_unix=eligible,
            )
        )
        txn.log(job.id, f"released by {principal.user}")
    return []


def _check_unfinished(job: Job) -> None:
    if job.is_finished:
        raise UserError(
            f"job {job.label()} has ended ({job.state})",
            "only jobs in the queue can be held or released",
            code="finished",
        )


def requeue(txn: Transaction, event: Requeued) -> Outcome:
    """Requeue or pause jobs. Running jobs are ended first; ended jobs wait again at once."""
    return on_each(txn, event, lambda job: _requeue_one(txn, job, event))


def _requeue_one(txn: Transaction, job: Job, event: Requeued) -> list[Effect]:
    """Requeue a job. All components of a heterogeneous job are requeued with its leader, or none is."""
    if job.has_leader:
        if txn.state.jobs[job.id] is not job:
            return []  # Its leader has just been requeued.
        raise UserError(
            f"job {job.label()} is a component of a heterogeneous job",
            f"requeue the whole job {job.array_job_id}",
            code="not_leader",
        )
    if event.saves and job.state is not JobState.RUNNING:
        raise UserError(
            f"job {job.label()} is not running ({job.state})",
            "only running jobs can be paused; `warpdeck hold` keeps a waiting job from starting",
            code="not_running",
        )
    if event.unfinished_only and job.state not in (
        JobState.CONFIGURING,
        JobState.RUNNING,
        JobState.SUSPENDED,
    ):
        return []
    _check_requeue(job)
    whole = [job] if job.component is None else txn.state.array_members(job.array_job_id)
    if any(each.state is JobState.COMPLETING for each in whole):
        raise UserError(f"job {job.label()} is ending", "requeue it after it has ended", code="ending")
    return [effect for each in whole for effect in _requeue_alone(txn, each, event)]


def _check_requeue(job: Job) -> None:
    """Raise UserError if the job must not be requeued."""
    if not job.request.requeue:
        raise UserError(
            f"job {job.label()} was submitted with --no-requeue", "submit it again", code="no_requeue"
        )
    if job.state is JobState.PENDING:
        raise UserError(f"job {job.label()} is already waiting", code="pending")
    if job.request.pty is not None or (job.request.holder and job.component is None):
        raise UserError(
            f"job {job.label()} is interactive; it cannot be requeued", "start a new one", code="no_batch"
        )


def _requeue_alone(txn: Transaction, job: Job, event: Requeued) -> list[Effect]:
    held = event.hold or event.special_exit
    saving_s = _saving_s(txn, job, event) if event.saves else None
    asked = "requeue" if saving_s is None else f"pause (at most {saving_s:g} s to save its work)"
    txn.log(job.id, f"{asked} requested" + (", held" if held else ""))
    if held:
        job = replace(job, held=True, requeued_held=event.hold, special_exit=event.special_exit)
    if job.is_finished:
        requeue_job(txn, job)
    if job.is_finished or job.state is JobState.PENDING:
        return []
    return end_job(txn, replace(job, requeue_on_exit=True), "requeued", saving_s=saving_s)


def _saving_s(txn: Transaction, job: Job, event: Requeued) -> float:
    """Return how long a job that is paused may save its work, in seconds.

    It is the requested time; else the time before its limit at which the job wants its own signal (--signal); else
    the site's time.
    """
    if event.saving_s is not None:
        return event.saving_s
    warn = job.request.warn
    return txn.state.site.pause_grace_s if warn is None or not warn.before_s else float(warn.before_s)


def notify(txn: Transaction, event: NotifyJob) -> Outcome:
    """Show a line of text to the users of running jobs, on the first node of each job."""
    return on_each(txn, event, lambda job: _notify_one(job, event), may=may_access)


def _notify_one(job: Job, event: NotifyJob) -> list[Effect]:
    if job.state is not JobState.RUNNING:
        raise UserError(f"job {job.label()} is not running ({job.state})", code="not_running")
    text = f"{event.principal.user}: {event.text}"
    return [ShowNotice(node=job.shares[0].node, job_id=job.id, restarts=job.restarts, text=text)]


def requeue_job(txn: Transaction, job: Job) -> Job:
    """Requeue the job with a new start count, so that late reports about the old launch are ignored."""
    if job.start_at_unix is not None:
        txn.put_run(job)
    return txn.put_job(
        replace(
            job,
            state=JobState.PENDING,
            restarts=job.restarts + 1,
            notice="" if job.notice.startswith(HANG) else job.notice,
            annotations=job.annotations if job.start_at_unix is None else None,
            steps_made=0,
            allocation=None,
            shares=(),
            exit=None,
            ending_cause="",
            ended_by_uid=None,
            requeue_on_exit=False,
            partition="",
            magnetic_reservation="",
            priority=None,
            time_limit_s=None,
            leaves_by_unix=None,
            suspended_at_unix=None,
            suspended_by="",
            suspended_s=0.0,
            resumed_at_unix=None,
            kept=None,
            start_at_unix=None,
            end_at_unix=None,
            eligible_at_unix=txn.now,
        )
    )


def _on_some(
    txn: Transaction, found: list[Job], act: Callable[[Job], list[Effect]]
) -> tuple[list[Effect], list[tuple[Job, UserError]]]:
    """Apply `act` to the jobs. Returns the effects, and the jobs for which it was refused, with the errors."""
    effects: list[Effect] = []
    refused: list[tuple[Job, UserError]] = []
    for job in found:
        savepoint = txn.savepoint()
        try:
            effects += act(job)
        except UserError as error:
            txn.rollback(savepoint)
            refused.append((job, error))
    return effects, refused


def _parts(reference: str, found: list[Job], refused: list[tuple[Job, UserError]]) -> dict[str, str]:
    """Return the results by task range if an array command was refused for some tasks or named some tasks.

    Each range has the error code of its refusal, or "" if it succeeded. Returns {} if all succeeded.
    """
    named = parse_job_id(reference)[1] or ()
    if found[0].request.array is None or not (refused or named):
        return {}
    codes = {job.id: error.code for job, error in refused}
    by_code: dict[str, Ranges] = {}
    for job in found:
        code = codes.get(job.id, "")
        by_code[code] = (*by_code.get(code, ()), *_tasks_of(job))
    there = without_steps(tuple(chain.from_iterable(by_code.values())))
    if unknown := split_ranges(named, there)[1]:
        by_code["not_found"] = unknown
    if by_code.keys() == {""}:
        return {}
    parts = sorted((without_steps(ranges), code) for code, ranges in by_code.items())
    return {format_ranges(ranges): code for ranges, code in parts}


def _tasks_of(job: Job) -> Ranges:
    task = job.array_task_id
    return job.pending_tasks if task is None else ((task, task, 1),)


def on_each(
    txn: Transaction,
    command: JobCommand,
    act: Callable[[Job], list[Effect]],
    *,
    may: Callable[[Principal, Job], bool] = may_control,
) -> Outcome:
    """Apply `act` to every named job. An error for one job is reported and does not affect the others.

    `may` decides whether the caller has the right to it.
    """
    own = partial(_own, may=may)
    effects: list[Effect] = []
    labels: list[str] = []
    errors: list[str] = []
    codes: list[str] = []
    refused: list[str] = []
    parts: dict[str, dict[str, str]] = {}
    principal = command.principal
    reload_ended(txn, command.ended)
    references = JobReferences(txn)
    for reference in command.jobs:
        savepoint = txn.savepoint()
        try:
            found = _found(txn, references, command, reference)
            follows, failed = _on_some(txn, found, partial(own, principal, reference, act))
            parts[reference] = _parts(reference, found, failed)
            if len(failed) == len(found):
                raise failed[0][1]
            effects += follows
            labels.append(reference)
        except UserError as error:
            txn.rollback(savepoint)
            references.forget()
            errors.append(error.line)
            codes.append(error.code)
            refused.append(reference)
    return Outcome(
        effects=tuple(effects),
        labels=tuple(labels),
        errors=tuple(errors),
        codes=tuple(codes),
        refused=tuple(refused),
        parts={name: tasks for name, tasks in parts.items() if tasks},
    )


def _found(txn: Transaction, references: JobReferences, command: JobCommand, reference: str) -> list[Job]:
    """Return the jobs that the reference names. Raises UserError.

    As in Slurm, cancelling tasks of another user's array reports the owner, even if these tasks do not exist.
    """
    try:
        return references.find(reference)
    except UserError as error:
        if error.code == "not_found" and isinstance(command, Cancelled):
            for job in txn.state.named(JobId(parse_job_id(reference)[0])):
                if job.request.array is not None and not may_control(command.principal, job):
                    raise _not_theirs(command.principal, reference, job) from None
        raise


def _not_theirs(principal: Principal, reference: str, job: Job) -> UserError:
    return UserError(
        f"job {reference} belongs to {owner_text(principal, job)}, not to {principal.user}", code="not_owner"
    )


def _own(
    principal: Principal,
    reference: str,
    act: Callable[[Job], list[Effect]],
    job: Job,
    *,
    may: Callable[[Principal, Job], bool],
) -> list[Effect]:
    if not may(principal, job):
        raise _not_theirs(principal, reference, job)
    return act(job)
