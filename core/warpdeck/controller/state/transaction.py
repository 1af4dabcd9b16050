"""A transaction on the controller's state: the changes to commit together, and a function that undoes each of
them.

A refused event or a failed commit therefore leaves no trace in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from warpdeck.base.errors import InvalidTransition
from warpdeck.model import (
    Job,
    JobCurve,
    JobId,
    JobState,
    Link,
    Node,
    NodeName,
    PendingReason,
    Request,
    Reservation,
    may_become,
)
from warpdeck.model.created_by_nonce import CreatedObject, RequestId, upsert_created
from warpdeck.model.recovery import Recovery
from warpdeck.model.request import StoredParts
from warpdeck.model.step import Step
from warpdeck.ports.store import Changes, JournalEntry, PartsBlob, UsageRecord
from warpdeck_agent.wire.epochs import ControllerStart

from .accounting import charge
from .node_conditions import next_condition
from .state import State, replace

_K = TypeVar("_K")
_V = TypeVar("_V")


class JobRows:
    """Rows of jobs and steps that a transaction has changed."""

    def __init__(self) -> None:
        self.requests: dict[JobId, Request] = {}
        self.parts: list[PartsBlob] = []
        self.jobs: dict[JobId, None] = {}
        self.gone_jobs: dict[JobId, None] = {}
        self.states_before: dict[JobId, JobState | None] = {}
        """State of each changed job before the transaction; None for a new job."""
        self.steps: dict[tuple[JobId, int, int], Step] = {}
        self.journal: list[JournalEntry] = []
        self.curves: list[JobCurve] = []
        self.runs: list[Job] = []


class SiteRows:
    """Rows of nodes, reservations, usage and created objects that a transaction has changed."""

    def __init__(self) -> None:
        self.nodes: dict[NodeName, None] = {}
        self.conditions: dict[NodeName, None] = {}
        self.usage: dict[tuple[str, str, str], None] = {}
        self.reservations: dict[str, None] = {}
        self.created: list[CreatedObject] = []
        self.gone_created: list[CreatedObject] = []
        self.start: ControllerStart | None = None
        self.fenced_by: ControllerStart | None = None
        self.has_new_recovery = False
        self.has_new_ids = False
        """Whether the next free job id has changed."""
        self.has_new_waits = False
        """Whether the recorded longest waits have changed."""


class Transaction:
    """Changes to a State that can be undone until they are committed."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now
        self._undo_log: list[Callable[[], object]] = []
        self._job_rows = JobRows()
        self._site_rows = SiteRows()
        self.successors: dict[JobId, JobId] = {}
        """Ended job -> the job that took over its allocation."""

    def new_job_id(self) -> JobId:
        """Return the next free job id. A rollback of the transaction frees the id again."""
        before = self.state.next_job_id
        self._undo_log.append(lambda: setattr(self.state, "next_job_id", before))
        self.state.next_job_id = before + 1
        self._site_rows.has_new_ids = True
        return JobId(before)

    def add_request(self, array_job_id: JobId, request: Request) -> None:
        """Add the request of a new submission, or a request that replaces it."""
        before = self._job_rows.requests.get(array_job_id)
        self._job_rows.requests[array_job_id] = request
        self._undo_log.append(lambda: _put_back(self._job_rows.requests, array_job_id, before))

    def add_parts(self, uid: int, key: StoredParts, content: bytes) -> None:
        """Add the large parts of a request of this user."""
        self._job_rows.parts.append(PartsBlob(uid=uid, sha256=key.sha256, content=content))
        self._undo_log.append(self._job_rows.parts.pop)

    def put_job(self, job: Job) -> Job:
        """Add or replace a job.

        Raises InvalidTransition if the state table does not allow the change of state.
        """
        before = self.state.jobs.get(job.id)
        self._job_rows.states_before.setdefault(job.id, before.state if before is not None else None)
        if before is not None and before.state is not job.state and not may_become(before.state, job.state):
            raise InvalidTransition(f"job {before.label()}: {before.state} -> {job.state}")
        reason = self.state.planned.pending_reasons.get(job.id)
        self.state.upsert_job(job)
        self._job_rows.jobs[job.id] = None
        self._undo_log.append(lambda: self._restore_job(job.id, before, reason))
        if before is not None and before.holds_resources and not job.holds_resources:
            ran = (
                before
                if before.start_at_unix is not None
                else replace(before, start_at_unix=job.start_at_unix)
            )
            self._put_usage(charge(self.state, ran, ended_unix=min(job.end_at_unix or self.now, self.now)))
            self._learn(job)
        if job.state is JobState.CONFIGURING and (before is None or before.state is JobState.PENDING):
            self._put_wait(max(0.0, self.now - job.eligible_at_unix))
        return job

    def evict_job(self, job: Job) -> None:
        """Remove the record of a waiting array task, because the array's record holds the task again."""
        self.state.evict_job(job.id)
        self._job_rows.jobs.pop(job.id, None)
        self._job_rows.gone_jobs[job.id] = None
        self._undo_log.append(lambda: self._restore_evicted(job))

    def _restore_evicted(self, job: Job) -> None:
        del self._job_rows.gone_jobs[job.id]
        self._job_rows.jobs[job.id] = None
        self.state.upsert_job(job)

    def put_step(self, step: Step) -> None:
        """Add or replace a step."""
        key = (step.job_id, step.restarts, step.number)
        before, change = dict(self.state.steps.get(step.job_id, {})), self._job_rows.steps.get(key)
        self.state.upsert_step(step)
        self._job_rows.steps[key] = step
        self._undo_log.append(lambda: self._restore_steps(key, before, change))

    def _restore_steps(
        self, key: tuple[JobId, int, int], before: dict[int, Step], change: Step | None
    ) -> None:
        self.state.steps[key[0]] = before
        if change is None:
            del self._job_rows.steps[key]
        else:
            self._job_rows.steps[key] = change

    def _learn(self, job: Job) -> None:
        """Update the run-time prediction of the job's user."""
        predictor, user = self.state.planned.predictor, job.user
        known = predictor.known(user)
        self.state.learn(job)
        self._undo_log.append(lambda: predictor.restore(user, known))

    def _put_wait(self, waited_s: float) -> None:
        """Record how long a job had waited when it started."""
        state, before = self.state, self.state.planned.waits
        after = before.after(waited_s, self.now)
        if after is not before:
            state.planned.waits, self._site_rows.has_new_waits = after, True
            self._undo_log.append(lambda: setattr(state.planned, "waits", before))

    def _put_usage(self, row: UsageRecord | None) -> None:
        """Store the usage of a job in the same transaction in which the job releases its resources."""
        if row is None:
            return
        used, before = self.state.used, self.state.used.get(row.key)
        used[row.key] = row
        self._site_rows.usage[row.key] = None
        self._undo_log.append(lambda: _put_back(used, row.key, before))

    def put_node(self, node: Node) -> None:
        """Add or replace a node."""
        before = self.state.nodes.get(node.name)
        self.state.nodes[node.name] = node
        self.state.node_status.links.setdefault(node.name, Link.CONNECTING)
        self._site_rows.nodes[node.name] = None
        self._undo_log.append(lambda: self._restore_node(node.name, before))
        self.record_condition(node.name)

    def record_condition(self, name: NodeName) -> None:
        """Record the node's condition if it differs from the last recorded one."""
        state, before = self.state, self.state.node_status.conditions.get(name)
        link, reason = state.node_status.links[name], state.node_status.link_reasons.get(name, "")
        after = next_condition(state.nodes[name], link=link, link_reason=reason, before=before, now=self.now)
        if after is not None:
            state.node_status.conditions[name] = after
            self._site_rows.conditions[name] = None
            self._undo_log.append(lambda: _put_back(state.node_status.conditions, name, before))

    def drop_node(self, name: NodeName) -> None:
        """Remove a node."""
        before, condition = self.state.nodes[name], self.state.node_status.conditions.get(name)
        self.state.drop_node(name)
        self._site_rows.nodes[name] = None
        self._undo_log.append(lambda: _put_back(self.state.node_status.conditions, name, condition))
        self._undo_log.append(lambda: self._restore_node(name, before))

    def put_reservation(self, made: Reservation) -> None:
        """Add a reservation, or replace the reservation of the same name."""
        before = self.state.reserved.get(made.name)
        self.state.upsert_reservation(made.name, made)
        self._site_rows.reservations[made.name] = None
        self._undo_log.append(lambda: self.state.upsert_reservation(made.name, before))

    def drop_reservation(self, name: str) -> None:
        """Remove a reservation that was created at run time."""
        before = self.state.reserved[name]
        self.state.upsert_reservation(name, None)
        self._site_rows.reservations[name] = None
        self._undo_log.append(lambda: self.state.upsert_reservation(name, before))

    def put_created(self, created: CreatedObject) -> None:
        """Record the object that a request has created.

        Old entries, and entries beyond the maximum number, are removed. A rollback of this entry does not
        restore them.
        """
        table = self.state.created
        self._site_rows.gone_created += upsert_created(table, created)
        self._site_rows.created.append(created)
        self._undo_log.append(self._site_rows.created.pop)
        self._undo_log.append(lambda: table[created.uid].pop(created.request_id.nonce, None))

    def put_created_by_name(self, name: str, *, uid: int, request_id: RequestId | None) -> None:
        """Record that a request created this node or reservation.

        Nothing is recorded if the request has no nonce and so cannot be repeated.
        """
        if request_id is not None:
            self.put_created(
                CreatedObject(uid=uid, request_id=request_id, at_unix=self.now, job_id=0, label=name)
            )

    def put_fence(self, holder: ControllerStart) -> None:
        """Record that the agents obey this start instead of this controller."""
        starts, before, row = self.state.starts, self.state.starts.fenced_by, self._site_rows.fenced_by
        starts.fenced_by = self._site_rows.fenced_by = holder
        self._undo_log.append(lambda: setattr(starts, "fenced_by", before))
        self._undo_log.append(lambda: setattr(self._site_rows, "fenced_by", row))

    def put_recovery(self, recovery: Recovery) -> None:
        """Record the launches that the controller does not know."""
        before = self.state.recovery
        self.state.recovery, self._site_rows.has_new_recovery = recovery, True
        self._undo_log.append(lambda: setattr(self.state, "recovery", before))

    def raise_job_ids(self, above: int) -> None:
        """Give new jobs ids above this one."""
        before = self.state.next_job_id
        if before <= above:
            self._undo_log.append(lambda: setattr(self.state, "next_job_id", before))
            self.state.next_job_id, self._site_rows.has_new_ids = above + 1, True

    def put_start(self, start: ControllerStart) -> None:
        """Record a new start of this controller. It ends a fence."""
        starts, own, fenced_by = self.state.starts, self.state.starts.own, self.state.starts.fenced_by
        rows, row, fence_row = self._site_rows, self._site_rows.start, self._site_rows.fenced_by
        starts.own, starts.fenced_by = start, None
        rows.start, rows.fenced_by = start, None
        self._undo_log.append(lambda: vars(starts).update(own=own, fenced_by=fenced_by))
        self._undo_log.append(lambda: vars(rows).update(start=row, fenced_by=fence_row))

    def put_curve(self, curve: JobCurve) -> None:
        """Add the measurement curve of a share. Only the store keeps it."""
        self._job_rows.curves.append(curve)
        self._undo_log.append(self._job_rows.curves.pop)

    def put_run(self, job: Job) -> None:
        """Add the record of an ended start of a job that is requeued. Only the store keeps it."""
        self._job_rows.runs.append(job)
        self._undo_log.append(self._job_rows.runs.pop)

    def log(self, job_id: JobId, text: str) -> None:
        """Append a line to the job's history."""
        self._job_rows.journal.append(JournalEntry(at_unix=self.now, job_id=job_id, text=text))
        self._undo_log.append(self._job_rows.journal.pop)

    def savepoint(self) -> int:
        """Return a savepoint for `rollback`."""
        return len(self._undo_log)

    def rollback(self, savepoint: int = 0) -> None:
        """Undo all changes since the savepoint."""
        while len(self._undo_log) > savepoint:
            self._undo_log.pop()()

    def changes(self) -> Changes:
        """Return the changes to commit."""
        state, jobs, site = self.state, self._job_rows, self._site_rows
        conditions = state.node_status.conditions
        return Changes(
            requests=tuple(jobs.requests.items()),
            parts=tuple(jobs.parts),
            jobs=tuple(state.jobs[job_id] for job_id in jobs.jobs if job_id in state.jobs),
            gone_jobs=tuple(jobs.gone_jobs),
            nodes=tuple(state.nodes[name] for name in site.nodes if name in state.nodes),
            gone_nodes=tuple(name for name in site.nodes if name not in state.nodes),
            journal=tuple(jobs.journal),
            curves=tuple(jobs.curves),
            next_job_id=state.next_job_id if site.has_new_ids else None,
            reservations=tuple(state.reserved[name] for name in site.reservations if name in state.reserved),
            gone_reservations=tuple(name for name in site.reservations if name not in state.reserved),
            waits=state.planned.waits if site.has_new_waits else None,
            usage=tuple(state.used[key] for key in site.usage if key in state.used),
            steps=tuple(jobs.steps.values()),
            runs=tuple(jobs.runs),
            created=tuple(site.created),
            gone_created=tuple(site.gone_created),
            conditions=tuple(conditions[name] for name in site.conditions if name in conditions),
            start=site.start,
            fenced_by=site.fenced_by,
            recovery=state.recovery if site.has_new_recovery else None,
        )

    def changed_jobs(self) -> Iterable[JobId]:
        rows = self._job_rows
        return rows.jobs | rows.gone_jobs | {key[0]: None for key in rows.steps}

    def states_before(self) -> Mapping[JobId, JobState | None]:
        """Return the state of each changed job before the transaction.

        The state is None for a job that the transaction created.
        """
        return self._job_rows.states_before

    def changed_nodes(self) -> Iterable[NodeName]:
        return self._site_rows.nodes

    def _restore_job(self, job_id: JobId, before: Job | None, reason: PendingReason | None) -> None:
        if before is None:
            self.state.evict_job(job_id)
            return
        self.state.upsert_job(before)
        if reason is not None:
            self.state.planned.pending_reasons[job_id] = reason

    def _restore_node(self, name: NodeName, before: Node | None) -> None:
        if before is None:
            self.state.drop_node(name)
        else:
            self.state.nodes[name] = before
            self.state.node_status.links.setdefault(name, Link.CONNECTING)


def _put_back(table: dict[_K, _V], key: _K, before: _V | None) -> None:
    """Restore the value that a table had before a change; None means that it had no value."""
    if before is None:
        table.pop(key, None)
    else:
        table[key] = before
