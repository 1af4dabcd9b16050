"""The controller's state in memory. Only a `Transaction` (transaction.py) changes it.

Jobs, nodes, usage and the next job id are durable. Links, readings, pending reasons and priorities are
volatile and are collected again after a restart. The site's rules come from its configuration and are kept
here for all code that makes decisions.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from warpdeck.model import Job, JobId, JobState, Link, Node, NodeName, Reservation, count_tasks
from warpdeck.model.created_by_nonce import upsert_created
from warpdeck.model.step import Step
from warpdeck.policy import AdmissionRefusal, PlannerSettings
from warpdeck.ports.store import Loaded

from .accounting import Accounting, key_of
from .deadlines import has_deadline, is_held
from .tables import StateTables
from .view_cache import ViewCache

_T = TypeVar("_T", bound=msgspec.Struct)
MAX_KEPT = 10_000
"""Maximum number of cached answers. A site has a few hundred different requests."""
Answers = dict[tuple[object, ...], AdmissionRefusal | None]
MAX_ENDED_STEPS = 64
"""Number of ended steps per job that stay in memory for requests that wait for a step's end.

The store has all of them.
"""


class AdmissionCache:
    """Cached results of the check whether the empty cluster could ever hold a request.

    A result depends only on the nodes and the rules, and takes long to compute on a large cluster. It is
    therefore kept for equal requests until the nodes or the rules change.
    """

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._settings: PlannerSettings | None = None
        self._answers: Answers = {}

    def answers(self, nodes: tuple[Node, ...], settings: PlannerSettings) -> Answers:
        """Return the answers kept for these nodes and settings. The table is empty if either has changed.

        The settings object stays the same when only usage is counted again.
        """
        if self._settings is not settings or self._nodes != nodes or len(self._answers) >= MAX_KEPT:
            self._settings, self._nodes, self._answers = settings, nodes, {}
        return self._answers


class State(StateTables):
    """Unfinished and recently ended jobs, and all nodes.

    Any code may read it; only a `Transaction` changes it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.admitted = AdmissionCache()
        self.accounting = Accounting()
        self.view_cache = ViewCache()

    def load(self, loaded: Loaded) -> None:
        """Fill the empty state at the start of a controller with all committed data. All links are down at
        first.
        """
        self.controller_id = loaded.controller_id
        self.next_job_id = loaded.next_job_id
        self.recovery = loaded.recovery
        self.starts.own, self.starts.fenced_by = loaded.start, loaded.fenced_by
        self.unreadable = loaded.unreadable
        for job in loaded.jobs:
            self.upsert_job(job)
        for node in loaded.nodes:
            self.nodes[node.name] = node
            self.node_status.links[node.name] = Link.CONNECTING
        self.node_status.conditions = {each.node: each for each in loaded.conditions}
        self.used = {row.key: row for row in loaded.usage}
        for made in loaded.created:
            upsert_created(self.created, made)
        self.planned.waits = loaded.waits
        self.reserved = {each.name: each for each in loaded.reservations}
        for step in loaded.steps:
            self.upsert_step(step)
        for job in loaded.last_runs:
            self.learn(job)

    def reserve_start(self, job_id: JobId, at_unix: float) -> None:
        """Record the start that the planner has reserved for a waiting job."""
        if job_id in self.index.pending and self.planned.reserved_starts.get(job_id) != at_unix:
            self.planned.reserved_starts[job_id] = at_unix
            self.view_cache.invalidate_job(job_id)

    def upsert_job(self, job: Job) -> None:
        """Put a job into the tables and indexes, in place of its previous version."""
        self._take_out(job.id)
        self.view_cache.note_changed(job)
        self.jobs[job.id] = job
        self.index.in_state[job.state] = self.index.in_state.get(job.state, 0) + 1
        _count(self.submitted, job, times=1)
        self.user_use.add(job)
        if job.request.array is not None or job.component is not None:
            self.index.members.setdefault(job.array_job_id, {})[job.id] = None
        _keep(self.index.pending, job.id, belongs=job.state is JobState.PENDING)
        _keep(self.index.timed, job.id, belongs=job.id in self.index.pending and has_deadline(job.request))
        _keep(self.index.held, job.id, belongs=job.id in self.index.pending and is_held(job))
        _keep(self.planned.unexplained, job.id, belongs=job.state is JobState.PENDING)
        if job.component is not None:
            kept = self.index.hetjob_components if job.has_leader else self.index.hetjob_leaders
            _keep(kept, job.id, belongs=job.state is JobState.PENDING)
        _keep(self.index.active, job.id, belongs=job.holds_resources)
        _keep(self.index.in_reservations, job.id, belongs=bool(job.reservation) and not job.is_finished)
        if job.prefetched_after is not None:
            self.index.successor[job.prefetched_after] = job.id
        for name in _held_nodes(job):
            self.index.on_node.setdefault(name, {})[job.id] = None
            self.view_cache.invalidate_holders(name)
        if job.state is not JobState.PENDING:
            self.planned.pending_reasons.pop(job.id, None)
            self.planned.reserved_starts.pop(job.id, None)

    def upsert_step(self, step: Step) -> None:
        """Put a step into the table. Only the latest ended steps of a job stay there."""
        steps = self.steps.setdefault(step.job_id, {})
        steps[step.number] = step
        ended = [number for number, each in steps.items() if each.is_finished]
        for number in ended[:-MAX_ENDED_STEPS]:
            del steps[number]

    def upsert_reservation(self, name: str, made: Reservation | None) -> None:
        """Put a reservation into the table; None removes it.

        Cached views of its jobs are dropped, because their ends depend on the end of the reservation.
        """
        if made is None:
            self.reserved.pop(name, None)
        else:
            self.reserved[name] = made
        for job_id in self.index.in_reservations:
            if self.jobs[job_id].reservation == name:
                self.view_cache.invalidate_job(job_id)

    def evict_job(self, job_id: JobId) -> None:
        """Remove a job from memory. The store keeps it."""
        self.steps.pop(job_id, None)
        self._take_out(job_id)
        job = self.jobs.pop(job_id)
        self.index.pending.pop(job_id, None)
        self.index.timed.pop(job_id, None)
        self.index.held.pop(job_id, None)
        self.planned.unexplained.pop(job_id, None)
        self.index.hetjob_leaders.pop(job_id, None)
        self.index.hetjob_components.pop(job_id, None)
        self.index.active.pop(job_id, None)
        self.index.in_reservations.pop(job_id, None)
        self.planned.pending_reasons.pop(job_id, None)
        self.planned.reserved_starts.pop(job_id, None)
        members = self.index.members.get(job.array_job_id, {})
        members.pop(job_id, None)
        if not members:
            self.index.members.pop(job.array_job_id, None)

    def drop_node(self, name: NodeName) -> None:
        """Remove a node and everything known about it.

        A later node of the same name starts without history.
        """
        self.nodes.pop(name, None)
        self.starts.unclaimed.pop(name, None)
        self.node_status.drop(name)

    def _take_out(self, job_id: JobId) -> None:
        """Remove the old version of a job from counts and indexes."""
        self.view_cache.invalidate_job(job_id)
        job = self.jobs.get(job_id)
        if job is None:
            return
        self.view_cache.note_changed(job)
        self.index.in_state[job.state] -= 1
        if job.prefetched_after is not None and self.index.successor.get(job.prefetched_after) == job_id:
            del self.index.successor[job.prefetched_after]
        _count(self.submitted, job, times=-1)
        self.user_use.remove(job)
        for name in _held_nodes(job):
            self.view_cache.invalidate_holders(name)
            there = self.index.on_node[name]
            del there[job_id]
            if not there:
                del self.index.on_node[name]


def _held_nodes(job: Job) -> tuple[NodeName, ...]:
    return job.allocation.node_names() if job.allocation is not None and job.holds_resources else ()


def _count(submitted: dict[tuple[str, str, str], int], job: Job, *, times: int) -> None:
    if job.is_finished:
        return
    key = key_of(job)
    submitted[key] = submitted.get(key, 0) + times * (
        count_tasks(job.pending_tasks) if job.pending_tasks else 1
    )
    if not submitted[key]:
        del submitted[key]


def _keep(index: dict[JobId, None], job_id: JobId, *, belongs: bool) -> None:
    if belongs:
        index[job_id] = None
    else:
        index.pop(job_id, None)


def replace(thing: _T, **changes: object) -> _T:
    """Return a copy of a job, share or node with these fields changed."""
    return msgspec.structs.replace(thing, **changes)
