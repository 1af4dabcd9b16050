"""Handlers for submissions: a job, an array, or all components of a heterogeneous job."""

from __future__ import annotations

import itertools

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Submitted
from warpdeck.controller.state import admission
from warpdeck.controller.state.array_record_splitting import fold
from warpdeck.controller.state.cpu_assignment import with_core_threads
from warpdeck.controller.state.dependencies import ignored_text, without_unknown
from warpdeck.controller.state.reservations import reservations
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.user_use import check_quota
from warpdeck.model import Component, Job, JobId, Request, count_tasks
from warpdeck.model.created_by_nonce import CreatedObject, RequestId, find_created
from warpdeck.model.ranges import MAX_RANGES
from warpdeck.notation.request.large_parts import size_of, split
from warpdeck.notation.values.arrays import MAX_TASKS
from warpdeck.policy import parse_constraint
from warpdeck.ports.caller import Principal, is_administrator, is_operator

from .hetjob_components import as_components, check_components, component_of
from .job_commands import reload_ended

MAX_OPEN_JOBS = 1_000_000
"""Maximum number of unfinished job records. It limits memory use."""

MAX_RECORDING_S = 120.0
"""Maximum time in seconds that a job waits until its code is recorded.

This is enough to record a large tree over a slow network.
"""


def submit(txn: Transaction, event: Submitted) -> Outcome:
    """Check a submission against the rules and the cluster's capacity, and create the job or all components.

    Raises UserError if it is refused.
    """
    earlier = find_created(txn.state.created, event.principal.uid, event.request_id)
    if earlier is not None:
        members = txn.state.named(JobId(earlier.job_id))
        return Outcome(job=members[0] if members else None, created=earlier, replan=False)
    if len(txn.state.index.pending) + len(txn.state.index.active) >= MAX_OPEN_JOBS:
        raise UserError(
            f"the limit of {MAX_OPEN_JOBS:,} waiting and running jobs is reached", "cancel some, or wait"
        )
    requests = (event.request, *event.components)
    if not event.principal.admin:
        size = sum(map(size_of, requests))
        use, quotas = txn.state.user_use, txn.state.site.quotas
        check_quota(use, quotas, event.principal.uid, jobs=len(requests), request_bytes=size)
    reload_ended(txn, event.ended)
    notes: list[str] = []
    requests = tuple(_without_unknown(txn, each, notes) for each in requests)
    check_components(requests)
    checked = [_checked(txn, request, event.principal) for request in as_components(requests)]
    first = JobId(txn.state.next_job_id)
    made = [
        _make(txn, request, event.principal, component_of(first, offset, size=len(checked)))
        for offset, request in enumerate(checked)
    ]
    if len(made) > 1:
        admission.check_hetjob(txn.state, made[0], now=txn.now)
    notes = list(dict.fromkeys(notes))
    notes_with_remarks = (*notes, *txn.state.site.remarks(event.request))
    return Outcome(
        job=made[0], created=_record_created(txn, event, made[0], notes_with_remarks), notes=tuple(notes)
    )


def _record_created(txn: Transaction, event: Submitted, job: Job, notes: tuple[str, ...]) -> CreatedObject:
    """Return the answer to the request. If the request may be repeated, the answer is kept."""
    array = event.request.array
    made = CreatedObject(
        uid=event.principal.uid,
        request_id=event.request_id or RequestId("", ""),
        at_unix=txn.now,
        job_id=job.id,
        label=job.label(),
        tasks=count_tasks(array.ranges) if array else 1,
        notes=notes,
    )
    if event.request_id is not None:
        txn.put_created(made)
    return made


def _checked(txn: Transaction, request: Request, principal: Principal) -> Request:
    """Return the request with the site's defaults. Raises UserError if it can never run."""
    if not request.script and not request.argv and not request.holder:
        raise UserError("the job has neither a script nor a command", "submit a script with a #! line")
    _check_array(request)
    _check_rights(request, principal)
    check_times(request, txn.now)
    if not is_operator(principal) or request.priority == 0:
        # As in Slurm, a priority in the script of an ordinary user is ignored.
        request = replace(request, priority=None)
    parse_constraint(request.resources.constraint)
    parse_constraint(request.resources.prefer, "prefer")
    request = with_core_threads(txn.state, txn.state.site.complete(request, principal.user))
    check_reservation(txn, request, principal)
    if request.code_due_unix is not None:
        request = replace(request, code_due_unix=min(request.code_due_unix, txn.now + MAX_RECORDING_S))
    return request


def _make(txn: Transaction, request: Request, principal: Principal, component: Component | None) -> Job:
    """Create the job of a checked request. Raises UserError if the queue does not admit it.

    The large parts of the request go to the store only.
    """
    state, job_id = txn.state, txn.new_job_id()
    request, content = split(request)
    if content is not None and request.parts is not None:
        txn.add_parts(principal.uid, request.parts, content)
    has_leader = component is not None and component.offset > 0
    base = Job(
        id=job_id,
        array_job_id=component.leader if component is not None else job_id,
        component=component,
        request=request,
        request_key=job_id if has_leader else 0,
        user=principal.user,
        uid=principal.uid,
        submit_at_unix=txn.now,
        eligible_at_unix=max(txn.now, request.begin_at_unix or 0.0),
        held=request.hold,
        predicted_s=state.predict(principal.user, request),
    )
    job = fold(base, request.array.ranges) if request.array else base
    admission.check(state, job, now=txn.now)
    txn.add_request(job_id, request)
    txn.put_job(job)
    txn.log(job_id, f"submitted by {principal.user}" + (", held" if request.hold else ""))
    return job


def _check_rights(request: Request, principal: Principal) -> None:
    if is_administrator(principal):
        return
    if request.admin_comment:
        raise UserError("only admins can set the admin comment", "use --comment", code="denied")
    if request.nice < 0 and not is_operator(principal):
        raise UserError(
            "only admins can use a negative --nice", "remove it, or use a positive value", code="nice"
        )


def check_reservation(txn: Transaction, request: Request, principal: Principal) -> None:
    """Raise UserError if the request names a reservation that does not exist or does not admit its user."""
    name = request.reservation
    if not name:
        return
    found = next((each for each in reservations(txn.state, txn.now) if each.name == name), None)
    if found is None or found.end_unix <= txn.now:
        raise UserError(f"there is no reservation {name}", "see `warpdeck reservations`", code="reservation")
    if not found.admits(principal.user, request.account):
        raise UserError(
            f"reservation {name} is not for {principal.user}",
            "remove --reservation, or ask an admin for access",
            code="reservation_denied",
        )


def check_times(request: Request, now: float) -> None:
    """Raise UserError if the job could not end before its deadline."""
    if request.deadline_unix is None:
        return
    begins = max(now, request.begin_at_unix or 0.0)
    if begins + (request.time_min_s or request.time_limit_s or 0) >= request.deadline_unix:
        raise UserError(
            "the job could not end before its deadline",
            "use a later --deadline or a shorter --time",
            code="deadline",
        )


def _without_unknown(txn: Transaction, request: Request, notes: list[str]) -> Request:
    """Return the request without dependencies on unknown jobs, and add a note about them."""
    if request.dependencies is None:
        return request
    left, unknown = without_unknown(request.dependencies, txn.state.named)
    if not unknown:
        return request
    notes.append(ignored_text(unknown))
    return replace(request, dependencies=left)


def _check_array(request: Request) -> None:
    array = request.array
    if array is None:
        return
    whole = all(
        0 <= first <= last and step >= 1 and (last - first) % step == 0 for first, last, step in array.ranges
    )
    is_disjoint = all(left[1] < right[0] for left, right in itertools.pairwise(array.ranges))
    if not array.ranges or not whole or not is_disjoint:
        raise UserError(
            "the array's ranges are empty or overlap",
            "use --array=FIRST-LAST[:STEP][%LIMIT]",
            code="array",
        )
    if count_tasks(array.ranges) > MAX_TASKS:
        raise UserError(f"the array has more than {MAX_TASKS:,} tasks", "split it", code="array")
    if len(array.ranges) > MAX_RANGES:
        message = f"the array has more than {MAX_RANGES:,} ranges of task ids"
        raise UserError(message, "number its tasks without gaps, or split it", code="array")
