"""Handlers that change existing jobs: `scontrol update job`.

The rules on changes are those of Slurm (job_mgr's update). All fields of a waiting job may change; it is then
checked against the site's rules and the cluster like a new submission. Of a running job, only the time limit
may change, and fields that have no effect on the running job (name, comment, mails, priority and nice,
requeue, the array's throttle, deadline, time-min, switches). Users may shorten limits, lower priorities and
set a `nice` of 0 or more; administrators may make all changes. A priority of 0 holds the job. Any other
priority stays in force, in place of age and `nice`, until the job is released.
"""

from __future__ import annotations

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Effect, LimitShare, Outcome
from warpdeck.controller.events.events import Updated
from warpdeck.controller.state import admission
from warpdeck.controller.state.cpu_assignment import with_core_threads
from warpdeck.controller.state.dependencies import clause_name, ignored_text, targets, without_unknown
from warpdeck.controller.state.request_revision import RequestRevisions
from warpdeck.controller.state.state import replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.controller.state.view import Namesakes, waiting_limit_s
from warpdeck.model import ArraySpec, Dependencies, Job, JobState, Request, Resources
from warpdeck.model.change import JobChange
from warpdeck.model.request import MAX_LIMIT_S
from warpdeck.ports.caller import Principal, is_administrator, is_operator, may_access, owns

from .job_commands import on_each, set_held
from .submitting import check_reservation, check_times

ANY_TIME = frozenset(
    {"name", "comment", "admin_comment", "requeue", "throttle", "nice", "priority", "mail_types", "mail_user"}
)
"""Fields that may change as long as the job has not ended."""
NEXT_START = frozenset({"deadline_unix", "max_switches", "switches_wait_s", "time_min_s"})
"""Fields that have no effect on a running job and apply when it is requeued."""
LIMIT = frozenset({"time_limit_s", "time_limit_more_s", "end_at_unix"})
AFTERWARDS = frozenset({"comment", "admin_comment"})
"""Fields that may change after the job has ended."""
OF_FILES = frozenset({"output", "chdir"})
"""Fields that decide which files a job writes as its user. In Slurm, operators may change them, too."""
OF_RESOURCES = frozenset(Resources.__struct_fields__)
OF_REQUEST = frozenset(Request.__struct_fields__)


def update(txn: Transaction, event: Updated) -> Outcome:
    """Change the named jobs. For each job, either all or none of the changes are made."""
    fields = event.change.changed_fields()
    if not fields:
        raise UserError("no changes given", "give at least one, such as TimeLimit=2:00:00")
    revisions = RequestRevisions()
    return on_each(txn, event, lambda job: _update_one(txn, job, event, revisions))


def _update_one(txn: Transaction, job: Job, event: Updated, revisions: RequestRevisions) -> list[Effect]:
    change, fields = event.change, event.change.changed_fields()
    _check_state(job, fields)
    _check_hold(job, change)
    _check_rights(job, change, event.principal, txn)
    if change.priority == 0:
        job = set_held(txn, job, event.principal)
        was_set = job.request.priority is not None
        change = msgspec.structs.replace(change, priority=None if was_set else msgspec.UNSET)
        fields = change.changed_fields()
        if not fields:
            return []
    changed = job
    effects: list[Effect] = []
    if job.state is JobState.PENDING:
        request = _changed_request(txn, job, change, event.principal)
        changed = revisions.of(txn, job, request)
        if "begin_at_unix" in fields:
            changed = replace(changed, eligible_at_unix=max(txn.now, request.begin_at_unix or 0.0))
    else:
        others = fields - LIMIT
        if others:
            changed = revisions.of(txn, job, _replaced(job.request, change))
        if fields & LIMIT:
            changed, effects = _limited(changed, change)
    txn.put_job(changed)
    txn.log(job.id, f"changed by {event.principal.user}: {', '.join(sorted(fields))}")
    return effects


def _check_state(job: Job, fields: frozenset[str]) -> None:
    if job.is_finished and fields - AFTERWARDS:
        raise UserError(f"job {job.label()} has already ended ({job.state})", code="finished")
    if "end_at_unix" in fields and job.start_at_unix is None:  # It may also be starting.
        raise UserError(f"job {job.label()} is not running ({job.state})", code="not_running")
    if job.state is JobState.PENDING:
        return
    fixed = sorted(fields - ANY_TIME - NEXT_START - LIMIT - AFTERWARDS)
    if fixed:
        raise UserError(
            f"job {job.label()} is no longer waiting ({job.state}); {fixed[0]} cannot be changed",
            "cancel it and submit it again",
            code="not_pending",
        )


def _check_hold(job: Job, change: JobChange) -> None:
    if job.held and change.priority:
        raise UserError(f"job {job.label()} is held", "release it first", code="held")


def _check_rights(job: Job, change: JobChange, principal: Principal, txn: Transaction) -> None:
    if change.changed_fields() & OF_FILES and not may_access(principal, job):
        raise _denied("only its owner can change where a job runs and writes its output")
    if is_administrator(principal):
        return
    if change.admin_comment is not msgspec.UNSET:
        raise _denied("only admins can set the admin comment")
    if is_operator(principal):
        return
    is_moved = isinstance(change.account, str) and change.account not in principal.coordinates
    if is_moved and not owns(principal, job):
        sentence = f"{principal.user} does not coordinate account {change.account}"
        raise UserError(sentence, "ask an administrator", code="not_owner")
    _check_ordinary(job, change, txn)


def _check_ordinary(job: Job, change: JobChange, txn: Transaction) -> None:
    """Raise UserError for a change that needs the rights of an operator."""
    request = job.request
    if isinstance(change.nice, int) and change.nice < min(0, request.nice):
        raise _denied("only admins can use a negative --nice")
    if change.priority is not msgspec.UNSET and change.priority != 0:
        now = txn.state.planned.priorities.get(job.id) if request.priority is None else request.priority
        if change.priority is None or now is None or change.priority > now:
            raise _denied("only admins can raise a priority")
    if change.contiguous is True:
        raise _denied("only admins can request contiguous nodes after the submission")
    if change.changed_fields() & LIMIT and job.state is not JobState.PENDING:
        requested_s = _requested_limit(job, change, now_s=job.time_limit_s)
        if job.time_limit_s is not None and (requested_s is None or requested_s > job.time_limit_s):
            raise _denied("only admins can extend the time limit of a running job")


def _denied(sentence: str) -> UserError:
    return UserError(sentence, "ask an administrator", code="denied")


def _changed_request(txn: Transaction, job: Job, change: JobChange, principal: Principal) -> Request:
    """Return the changed request of a waiting job. Raises UserError if the change is not allowed."""
    if isinstance(change.dependencies, Dependencies):
        change = replace(change, dependencies=_known_dependencies(txn, job, change.dependencies))
    fields, state = change.changed_fields(), txn.state
    request = with_core_threads(state, state.site.complete(_replaced(job.request, change), job.user))
    if fields & LIMIT:
        limit_s = _requested_limit(job, change, now_s=_limit_s(txn, job))
        request = replace(request, time_limit_s=limit_s, unlimited=limit_s is None)
    if fields & (LIMIT | {"time_min_s"}):
        _check_limit(txn, job, request)
    check_times(request, txn.now)
    if "reservation" in fields:
        check_reservation(txn, request, principal)
    for name in {*request.resources.nodelist, *request.resources.exclude}:
        if fields & {"nodelist", "exclude"} and name not in state.nodes:
            raise UserError(f"there is no node {name}", "see `warpdeck node ls`", code="InvalidNode")
    if fields - ANY_TIME:
        admission.check(state, replace(job, request=request), now=txn.now, is_queued=True)
    return request


def _known_dependencies(txn: Transaction, job: Job, requested: Dependencies) -> Dependencies | None:
    """Return the dependencies without unknown jobs. Raises UserError if the job would depend on itself."""
    for clause in requested.clauses:
        found = targets(clause, txn.state.named) if clause.kind != "singleton" else ()
        if any(each.array_job_id == job.array_job_id for each in found):
            raise UserError(f"job {clause_name(clause)} cannot depend on itself", code="dependency")
    left, unknown = without_unknown(requested, txn.state.named)
    if unknown:
        txn.log(job.id, ignored_text(unknown))
    return left


def _replaced(request: Request, change: JobChange) -> Request:
    """Return the request with the new values of all fields except the time limit."""
    fields = change.changed_fields() - LIMIT
    values = {name: getattr(change, name) for name in fields}
    resources = {name: value for name, value in values.items() if name in OF_RESOURCES}
    if "mem_per_node_bytes" in resources or "mem_per_cpu_bytes" in resources:
        none = {"mem_per_node_bytes": None, "mem_per_cpu_bytes": None, "mem_per_gpu_bytes": None}
        resources = {**none, **resources}
    if "exclusive" in resources:
        resources = {"share_with": "", **resources}
    if "nodes_min" in resources or "nodes_max" in resources:
        low = resources.get("nodes_min", request.resources.nodes_min)
        resources["nodes_open"] = "nodes_max" not in resources
        resources["nodes_max"] = max(low, resources.get("nodes_max", low))
    plain = {name: value for name, value in values.items() if name in OF_REQUEST}
    if values.get("priority", request.priority) is not None:
        plain["nice"] = 0 if "priority" in values else request.nice
    if "throttle" in fields and request.array is not None:
        plain["array"] = ArraySpec(ranges=request.array.ranges, throttle=values["throttle"])
    if resources:
        plain["resources"] = replace(request.resources, **resources)
    return replace(request, **plain)


def _limit_s(txn: Transaction, job: Job) -> int | None:
    """Return the time limit in seconds under which a waiting job would run."""
    return waiting_limit_s(txn.state, job, Namesakes(txn.state), now=txn.now)


def _check_limit(txn: Transaction, job: Job, request: Request) -> None:
    """Raise UserError if the time limit is less than the minimum time of the job."""
    limit_s = _limit_s(txn, replace(job, request=request))
    if request.time_min_s and limit_s and request.time_min_s > limit_s:
        raise UserError("TimeMin is longer than the time limit", "use a shorter TimeMin", code="time_min")


def _requested_limit(job: Job, change: JobChange, *, now_s: int | None) -> int | None:
    """Return the new time limit of the job in seconds; `now_s` is the present time limit.

    Raises UserError if it is longer than a submission may request, because the store cannot hold it.
    """
    limit_s = _changed_limit(job, change, now_s)
    if limit_s is not None and limit_s > MAX_LIMIT_S:
        message = f"job {job.label()} would have a time limit of over {MAX_LIMIT_S} seconds"
        raise UserError(message, "use TimeLimit=UNLIMITED to remove the limit", code="limit")
    return limit_s


def _changed_limit(job: Job, change: JobChange, now_s: int | None) -> int | None:
    if isinstance(change.end_at_unix, float):
        assert job.start_at_unix is not None, "changes of jobs that do not run were refused before"
        return max(1, round(change.end_at_unix - job.start_at_unix - job.suspended_s))
    if not change.time_limit_more_s:
        return None if change.time_limit_s is msgspec.UNSET else change.time_limit_s
    if now_s is None:
        raise UserError(f"job {job.label()} has no time limit to increase or decrease", code="limit")
    limit_s = now_s + change.time_limit_more_s
    if limit_s < 1:
        minutes = f"{-change.time_limit_more_s // 60} > {now_s // 60}"
        raise UserError(
            f"TimeLimit decrement larger than current time limit ({minutes})", code="limit_decrement"
        )
    return limit_s


def _limited(job: Job, change: JobChange) -> tuple[Job, list[Effect]]:
    """Return the running job with its new time limit, and the effects that send the limit to its nodes."""
    limited = replace(job, time_limit_s=_requested_limit(job, change, now_s=job.time_limit_s))
    return limited, [
        LimitShare(node=share.node, job_id=job.id, restarts=job.restarts)
        for share in job.shares
        if share.phase != "exited"
    ]
