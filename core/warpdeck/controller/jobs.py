"""What users ask of jobs: submit, cancel, hold, release, requeue. Handlers of the reducer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from warpdeck.errors import UserError
from warpdeck.model import (
    Job,
    JobState,
    Request,
    count_tasks,
)
from warpdeck.model.ranges import MAX_RANGES
from warpdeck.notation.arrays import MAX_TASKS
from warpdeck.policy import parse_constraint

from .amended import Amended
from .cores import with_core_threads
from .dependencies import clause_name, targets
from .events import (
    Cancelled,
    Effect,
    Held,
    KillShare,
    Order,
    Outcome,
    Released,
    Requeued,
    Submitted,
    TellJob,
    Told,
    Who,
)
from .folding import fold
from .naming import Naming
from .reservations import reservations
from .state import amend
from .transaction import Transaction

MAX_OPEN_JOBS = 1_000_000
"""Unfinished job records; keeps memory bounded."""

MOST_RECORDING_S = 120.0
"""What a job waits at most for the record of its code: as long as a capture of a large tree over a slow network takes."""


def submit(txn: Transaction, event: Submitted) -> Outcome:
    """Checks the request against what the cluster can ever give and makes the job. Raises UserError."""
    request, state = event.request, txn.state
    if len(state.pending) + len(state.active) >= MAX_OPEN_JOBS:
        raise UserError(f"{MAX_OPEN_JOBS:,} jobs are open already", "cancel some, or wait")
    if not request.script and not request.argv and not request.holder:
        raise UserError("nothing to run: neither a script nor a command", "give a script with a #! line")
    _check_array(event)
    _check_rights(event)
    check_times(event.request, txn.now)
    parse_constraint(request.resources.constraint)
    parse_constraint(request.resources.prefer, "prefer")
    _check_dependencies(txn, event)
    request = with_core_threads(state, state.site.complete(request, event.who.user))
    check_reservation(txn, request, event.who)
    if request.code_due_unix is not None:
        request = amend(request, code_due_unix=min(request.code_due_unix, txn.now + MOST_RECORDING_S))
    job_id = txn.new_job_id()
    base = Job(
        id=job_id,
        array_job_id=job_id,
        request=request,
        user=event.who.user,
        uid=event.who.uid,
        submit_at_unix=txn.now,
        eligible_at_unix=max(txn.now, request.begin_at_unix or 0.0),
        held=request.hold,
        predicted_s=state.predict(event.who.user, request),
    )
    job = fold(base, request.array.ranges) if request.array else base
    state.admission.check(state, job, now=txn.now)
    txn.add_request(job_id, request)
    txn.put_job(job)
    txn.log(job_id, f"submitted by {event.who.user}" + (", held" if request.hold else ""))
    return Outcome(job=job)


def _check_rights(event: Submitted) -> None:
    request = event.request
    if event.who.admin:
        return
    if request.nice < 0:
        raise UserError(
            "only admins may ask for a negative --nice", "leave it out, or write one above 0", code="denied"
        )
    if request.priority is not None:
        raise UserError(
            "only admins may set a --priority", "leave it out; --nice lowers your own jobs", code="denied"
        )


def check_reservation(txn: Transaction, request: Request, who: Who) -> None:
    """Raises UserError where the request names a reservation that is not there, or not for its user."""
    name = request.reservation
    if not name:
        return
    found = next((each for each in reservations(txn.state, txn.now) if each.name == name), None)
    if found is None or found.end_unix <= txn.now:
        raise UserError(f"there is no reservation {name}", "see `warpdeck reservations`", code="reservation")
    if who.user not in found.users and request.account not in found.accounts:
        raise UserError(
            f"reservation {name} is not for {who.user}",
            "leave out --reservation, or ask its admin",
            code="reservation_denied",
        )


def check_times(request: Request, now: float) -> None:
    """Raises UserError where the request could not be done before its deadline."""
    if request.deadline_unix is None:
        return
    begins = max(now, request.begin_at_unix or 0.0)
    if begins + (request.time_min_s or request.time_limit_s or 0) >= request.deadline_unix:
        raise UserError(
            "it could not end before its deadline",
            "give a later --deadline or a shorter --time",
            code="deadline",
        )


def _check_dependencies(txn: Transaction, event: Submitted) -> None:
    _recall(txn, event.ended)
    asked = event.request.dependencies
    for clause in asked.clauses if asked else ():
        if clause.kind != "singleton" and not targets(clause, txn.state.named):
            raise UserError(
                f"it depends on job {clause_name(clause)}, which does not exist",
                "see `warpdeck queue --all`",
                code="dependency",
            )


def _check_array(event: Submitted) -> None:
    array = event.request.array
    if array is None:
        return
    whole = all(
        0 <= first <= last and step >= 1 and (last - first) % step == 0 for first, last, step in array.ranges
    )
    apart = all(left[1] < right[0] for left, right in itertools.pairwise(array.ranges))
    if not array.ranges or not whole or not apart:
        raise UserError(
            "the array's ranges are empty or overlap",
            "write --array=FIRST-LAST[:STEP][%LIMIT]",
            code="array",
        )
    if count_tasks(array.ranges) > MAX_TASKS:
        raise UserError(f"an array of over {MAX_TASKS:,} tasks", "split it", code="array")
    if len(array.ranges) > MAX_RANGES:
        words = f"an array whose numbers lie in over {MAX_RANGES:,} ranges"
        raise UserError(words, "number its tasks without gaps, or split it", code="array")


def _recall(txn: Transaction, ended: tuple[Job, ...]) -> None:
    """Brings ended jobs back into memory, so that an event can refer to them; the store has them already."""
    for job in ended:
        if job.id not in txn.state.jobs:
            txn.state.place_job(job)


def cancel(txn: Transaction, event: Cancelled) -> Outcome:
    """Ends jobs, waiting or running, or sends them a signal."""
    if event.signal:
        return on_each(txn, event, lambda job: _signal(txn, job, event))
    return on_each(txn, event, lambda job: _cancel_one(txn, job, event.who))


def _cancel_one(txn: Transaction, job: Job, who: Who) -> list[Effect]:
    if job.is_finished:
        raise UserError(f"job {job.label()} has ended already ({job.state})", code="already_done")
    txn.log(job.id, f"cancelled by {who.user}")
    job = amend(job, ended_by_uid=who.uid)
    if job.state is JobState.PENDING:
        txn.put_job(amend(job, state=JobState.CANCELLED, end_at_unix=txn.now, ending_cause="cancelled"))
        return []
    return end_job(txn, job, "cancelled")


def end_job(txn: Transaction, job: Job, cause: str, *, grace_s: float | None = None) -> list[Effect]:
    """Orders the end of a running job on all its nodes. What is asked first stays the cause.

    A suspended one does not get back what it gave away: others hold that now.
    """
    ended = amend(
        job,
        state=JobState.COMPLETING,
        ending_cause=job.ending_cause or cause,
        requeue_on_exit=job.requeue_on_exit and cause in ("requeued", "preempted"),
    )
    txn.put_job(ended)
    return [
        KillShare(node=share.node, job_id=job.id, restarts=job.restarts, cause=cause, grace_s=grace_s)
        for share in job.shares
        if share.phase != "exited"
    ]


def _signal(txn: Transaction, job: Job, event: Cancelled) -> list[Effect]:
    if job.state is not JobState.RUNNING:
        code = "already_done" if job.is_finished else "pending"
        raise UserError(f"job {job.label()} is not running ({job.state})", code=code)
    txn.log(job.id, f"signal {event.signal} sent")
    return [
        KillShare(node=share.node, job_id=job.id, restarts=job.restarts, signal=event.signal, whom=event.whom)
        for share in job.shares
        if share.phase == "running"
    ]


def hold(txn: Transaction, event: Held) -> Outcome:
    """Waiting jobs stay where they are until released; one that runs waits so once it is requeued. What an admin holds of
    somebody else's only an admin releases."""
    return on_each(txn, event, lambda job: _hold_one(txn, job, event))


def release(txn: Transaction, event: Released) -> Outcome:
    """Held jobs may start again. A priority that was set gives way to the computed one, held or not, as in Slurm."""
    amended = Amended()
    return on_each(txn, event, lambda job: _release_one(txn, job, event.who, amended))


def _hold_one(txn: Transaction, job: Job, event: Held) -> list[Effect]:
    _check_unfinished(job)
    who = event.who
    by_admin = job.held_by_admin or (who.admin and who.uid != job.uid)
    if who.admin and event.for_owner:
        by_admin = False
    if not job.held or by_admin is not job.held_by_admin:
        txn.put_job(amend(job, held=True, held_by_admin=by_admin))
        txn.log(job.id, f"held by {who.user}")
    return []


def _release_one(txn: Transaction, job: Job, who: Who, amended: Amended) -> list[Effect]:
    _check_unfinished(job)
    if job.held_by_admin and not who.admin:
        raise UserError(
            f"job {job.label()} is held by an admin", "ask an administrator to release it", code="denied"
        )
    waits = job.state is JobState.PENDING
    if waits and job.request.priority is not None:
        job = txn.put_job(amended.of(txn, job, amend(job.request, priority=None)))
        txn.log(job.id, f"priority computed again, for {who.user}")
    if job.held:
        # Who was held did not wait for anybody.
        eligible = max(job.eligible_at_unix, txn.now) if waits else job.eligible_at_unix
        txn.put_job(amend(job, held=False, held_by_admin=False, eligible_at_unix=eligible))
        txn.log(job.id, f"released by {who.user}")
    return []


def _check_unfinished(job: Job) -> None:
    if job.is_finished:
        raise UserError(
            f"job {job.label()} is over ({job.state})",
            "hold or release it while it is in the queue",
            code="finished",
        )


def requeue(txn: Transaction, event: Requeued) -> Outcome:
    """Running jobs are ended and wait again; ended ones wait again at once."""
    return on_each(txn, event, lambda job: _requeue_one(txn, job, event))


def _requeue_one(txn: Transaction, job: Job, event: Requeued) -> list[Effect]:
    if not job.request.requeue:
        raise UserError(
            f"job {job.label()} was submitted with --no-requeue", "submit it again", code="no_requeue"
        )
    if job.state is JobState.PENDING:
        raise UserError(f"job {job.label()} is waiting already", code="pending")
    if job.request.pty is not None or job.request.holder:
        raise UserError(
            f"job {job.label()} is interactive; it cannot be requeued", "start a new one", code="no_batch"
        )
    txn.log(job.id, "requeue asked" + (", held" if event.hold else ""))
    if event.hold:
        job = amend(job, held=True, held_by_admin=event.who.admin and event.who.uid != job.uid)
    if job.is_finished:
        put_back(txn, job)
        return []
    if job.state is JobState.COMPLETING:
        raise UserError(f"job {job.label()} is ending", "requeue it when it has ended", code="ending")
    job = amend(job, requeue_on_exit=True)
    return end_job(txn, job, "requeued")


def tell(txn: Transaction, event: Told) -> Outcome:
    """Shows a line where the people of running jobs see it: on the first node of each."""
    return on_each(txn, event, lambda job: _tell_one(job, event))


def _tell_one(job: Job, event: Told) -> list[Effect]:
    if job.state is not JobState.RUNNING:
        raise UserError(f"job {job.label()} is not running ({job.state})", code="not_running")
    words = f"{event.who.user}: {event.text}"
    return [TellJob(node=job.shares[0].node, job_id=job.id, restarts=job.restarts, text=words)]


def put_back(txn: Transaction, job: Job) -> Job:
    """Back to PENDING with a new start count: whatever an old launch still reports does not count any more."""
    if job.start_at_unix is not None:
        txn.put_run(job)
    return txn.put_job(
        amend(
            job,
            state=JobState.PENDING,
            restarts=job.restarts + 1,
            steps_made=0,
            allocation=None,
            shares=(),
            exit=None,
            ending_cause="",
            ended_by_uid=None,
            requeue_on_exit=False,
            partition="",
            priority=None,
            time_limit_s=None,
            leaves_by_unix=None,
            suspended_at_unix=None,
            suspended_by="",
            suspended_s=0.0,
            kept=None,
            start_at_unix=None,
            end_at_unix=None,
            eligible_at_unix=txn.now,
        )
    )


def may_touch(who: Who, job: Job) -> bool:
    """Owners and admins."""
    return who.admin or who.uid == job.uid


def _on_some(txn: Transaction, found: list[Job], act: Callable[[Job], list[Effect]]) -> list[Effect]:
    """Does it to those jobs of an array to which it applies; raises the first error if there is none such."""
    effects: list[Effect] = []
    refused: list[UserError] = []
    for job in found:
        mark = txn.mark()
        try:
            effects += act(job)
        except UserError as error:
            txn.undo(mark)
            refused.append(error)
    if len(refused) == len(found):
        raise refused[0]
    return effects


def on_each(txn: Transaction, order: Order, act: Callable[[Job], list[Effect]]) -> Outcome:
    """Does it for every job named; what cannot be done to one is told and leaves the others alone."""
    effects: list[Effect] = []
    labels: list[str] = []
    errors: list[str] = []
    codes: list[str] = []
    refused: list[str] = []
    who = order.who
    _recall(txn, order.ended)
    naming = Naming(txn)
    for reference in order.jobs:
        mark = txn.mark()
        try:
            found = naming.find(reference)
            denied = [job for job in found if not may_touch(who, job)]
            if denied:
                raise UserError(
                    f"job {reference} belongs to {denied[0].user}, not to {who.user}", code="denied"
                )
            effects += _on_some(txn, found, act)
            labels.append(reference)
        except UserError as error:
            txn.undo(mark)
            naming.forget()
            errors.append(error.message + (f" ({error.hint})" if error.hint else ""))
            codes.append(error.code)
            refused.append(reference)
    return Outcome(
        effects=tuple(effects),
        labels=tuple(labels),
        errors=tuple(errors),
        codes=tuple(codes),
        refused=tuple(refused),
    )
