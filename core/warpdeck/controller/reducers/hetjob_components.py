"""The rules that connect the components of a heterogeneous job.

Each component is a separate job. All components start together and end no later than their leader. The leader
is the first component and runs the script. The other components hold their nodes for the script until it has
ended. A component other than the leader may end alone if it is cancelled or reaches its time limit. If a
component loses a node or is preempted, or if the job is requeued, all components end.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.base.errors import UserError
from warpdeck.controller.events.effects import Effect
from warpdeck.controller.state.state import State, replace
from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Component, ExitStatus, Job, JobId, JobState, Request
from warpdeck.notation.options.directives import MAX_COMPONENTS
from warpdeck.policy import Start

from .allocations import RELEASED, release
from .job_commands import end_job, requeue_job

HOLDER = "hetjob"
"""Holder of a component's allocation, which is kept for the script of its leader."""
_ALL_END = frozenset({"node_fail", "launch_failed", "preempted", "unknown"})
"""Causes of a component's end that also end all other components."""


def check_components(requests: tuple[Request, ...]) -> None:
    """Raise UserError if these requests cannot form a heterogeneous job."""
    if len(requests) > MAX_COMPONENTS:
        raise UserError(
            f"the job has {len(requests)} components; the maximum is {MAX_COMPONENTS}",
            "submit it as several jobs",
        )
    if len(requests) > 1 and any(request.array is not None for request in requests):
        raise UserError(
            "a heterogeneous job cannot be an array", "remove --array or the components", code="array"
        )
    first, *others = requests
    if others and not first.script and not first.holder:
        raise UserError("only a batch script can have several components", "submit it with sbatch")


def as_components(requests: tuple[Request, ...]) -> list[Request]:
    """Return the components' requests in the form in which they are stored.

    Components other than the first get the code of the first component and no script. If one component is
    held, all are held.
    """
    if len(requests) == 1:
        return [*requests]
    first, *rest = requests
    hold = any(request.hold for request in requests)
    same = {"in_place": first.in_place, "snapshot": first.snapshot, "code_due_unix": first.code_due_unix}
    return [
        replace(first, hold=hold),
        *(
            replace(each, script="", script_args=(), argv=(), holder=HOLDER, hold=hold, env={}, **same)
            for each in rest
        ),
    ]


def component_of(job_id: JobId, offset: int, *, size: int) -> Component | None:
    """Return the component with this offset. `job_id` is the id of the job's first component.

    Returns None for a job of one component.
    """
    return Component(leader=job_id, offset=offset, size=size) if size > 1 else None


def others(state: State, job: Job) -> list[Job]:
    """Return the other components that are in memory, by offset."""
    found = state.array_members(job.array_job_id) if job.component is not None else []
    return [each for each in found if each.id != job.id]


def whole_starts(state: State, starts: Iterable[Start]) -> list[list[Start]]:
    """Return the starts, grouped by heterogeneous job.

    Heterogeneous jobs with a component that does not start are left out.
    """
    found: list[list[Start]] = []
    groups: dict[JobId, list[Start]] = {}
    for start in starts:
        job = state.jobs.get(start.job_id)
        if job is None or job.component is None:
            found.append([start])
            continue
        group = groups.setdefault(job.array_job_id, [])
        group.append(start)
        if len(group) == 1 + sum(not each.is_finished for each in others(state, job)):
            found.append(group)
    return found


def after_end(txn: Transaction, ended: Job, *, requeues: bool) -> list[Effect]:
    """Apply the end of a component to the other components.

    With `requeues`, the component is requeued, and the other components are requeued too.
    """
    cause = ended.exit.cause if ended.exit is not None else ""
    if ended.component is None or not (requeues or not ended.has_leader or cause in _ALL_END):
        return []
    effects: list[Effect] = []
    for job in others(txn.state, ended):
        if requeues:
            effects += _requeue_component(txn, job)
        elif not job.is_finished and job.state is not JobState.COMPLETING:
            effects += _end_with(txn, job, ended)
    return effects


def _requeue_component(txn: Transaction, job: Job) -> list[Effect]:
    if job.is_finished:
        requeue_job(txn, job)
        txn.log(job.id, "requeued with the other components")
        return []
    if job.state is JobState.PENDING:
        return []
    return end_job(txn, txn.put_job(replace(job, requeue_on_exit=True)), "requeued")


def _end_with(txn: Transaction, job: Job, ended: Job) -> list[Effect]:
    """End a component with the status of its leader, or of the component that could not continue."""
    status = ended.exit or ExitStatus()
    txn.log(job.id, f"ends with component {ended.label()}")
    job = replace(job, ended_by_uid=ended.ended_by_uid)
    if job.state is JobState.PENDING:
        txn.put_job(
            replace(job, state=ended.state, exit=status, end_at_unix=txn.now, ending_cause=ended.ending_cause)
        )
        return []
    if status.cause and status.cause != RELEASED:
        return end_job(txn, job, status.cause)
    return release(txn, job, status)


def is_left(state: State, job: Job) -> bool:
    """Return whether the job is a component and its leader has ended for good.

    Such a component must not be requeued.
    """
    leader = state.jobs.get(job.array_job_id)
    return job.has_leader and (leader is None or leader.is_finished)
