"""Cache of the parts of the planner's view that are still valid.

A pass runs for every event, and most parts do not change. The view of a job is valid until the job is
replaced (`State.upsert_job` and `State.evict_job` call `invalidate_job`), or until the start reserved for it
changes. The view of a job with dependencies is also invalidated when a job on which it depends is replaced. A
job may depend on hundreds of jobs, and hundreds of jobs may depend on one. Views that depend on the time, or
on all jobs of a name, are built each time. The view of a node is valid as long as all of its source objects
are the same objects.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

from warpdeck.config import NodeSettings
from warpdeck.model import Job, JobId, JobState, Link, Node, NodeName, NodeReading
from warpdeck.policy import NodeView, PendingJob, RunningJob

from .dependencies import stable_targets
from .reservations import ends_for
from .tables import StateTables
from .view import (
    Namesakes,
    blocked_gpus,
    gpu_users,
    node_view,
    pending_job,
    running_job,
    unavailable_reason,
    with_components,
)

NO_FACTS = NodeSettings()


class _KeptNode(NamedTuple):
    """The cached view of a node, and the objects from which it was built."""

    node: Node
    facts: NodeSettings
    blocked: dict[int, str]
    view: NodeView

    def is_from(self, node: Node, facts: NodeSettings, blocked: dict[int, str], *, unavailable: str) -> bool:
        return (
            self.node is node
            and self.facts is facts
            and self.blocked is blocked
            and self.view.unavailable == unavailable
        )


class ViewCache:
    """The cached views. There is one cache per `StateTables`."""

    def __init__(self) -> None:
        self._pending: dict[JobId, PendingJob] = {}
        self._running: dict[JobId, RunningJob] = {}
        self._nodes: dict[NodeName, _KeptNode] = {}
        self._blocked: dict[NodeName, tuple[Node, NodeReading | None, dict[int, str]]] = {}
        self._depends: dict[JobId, frozenset[JobId]] = {}
        """Cached waiting job -> the jobs on which it depends."""
        self._changed: set[JobId] = set()
        """Jobs and submissions that changed since the last query.

        They are recorded only while a cached job has dependencies.
        """
        self._last_nodes: tuple[NodeView, ...] = ()
        self._last_running: tuple[RunningJob, ...] = ()

    def invalidate_job(self, job_id: JobId) -> None:
        """Drop the cached views of a job that has changed or was removed."""
        self._pending.pop(job_id, None)
        self._running.pop(job_id, None)
        self._depends.pop(job_id, None)

    def note_changed(self, job: Job) -> None:
        """Record that a job was changed, added or removed.

        The jobs that depend on it are then evaluated again.
        """
        if self._depends:
            self._changed.update((job.id, job.array_job_id))

    def invalidate_holders(self, name: NodeName) -> None:
        """Drop the cached blocked GPUs of a node because other jobs hold it now."""
        self._blocked.pop(name, None)

    def pending(self, state: StateTables, *, now: float) -> tuple[PendingJob, ...]:
        """Return the waiting jobs, ordered by id."""
        self._invalidate_dependents()
        kept, ids = self._pending, sorted(state.index.pending)
        if state.index.hetjob_components:  # The view of a leader contains the other components.
            ids = [job_id for job_id in ids if job_id not in state.index.hetjob_components]
        made = list(map(kept.get, ids))
        if not all(made):
            namesakes = Namesakes(state)
            for at, job in enumerate(made):
                if job is None:
                    made[at] = self._pending_job(state, state.jobs[ids[at]], namesakes, now)
        return tuple(cast("list[PendingJob]", made))

    def _pending_job(self, state: StateTables, job: Job, namesakes: Namesakes, now: float) -> PendingJob:
        made = pending_job(state, job, namesakes, now=now)
        if job.component is not None:
            return with_components(state, made, namesakes, now=now)
        requested = job.request.dependencies
        targets = None if requested is None else stable_targets(requested)
        if job.request.resources.max_switches is None and (requested is None or targets is not None):
            self._pending[job.id] = made
            if targets is not None:
                self._depends[job.id] = targets
        return made

    def _invalidate_dependents(self) -> None:
        """Drop the cached views of jobs that depend on a changed job."""
        if self._changed:
            changed = [
                each for each, targets in self._depends.items() if not targets.isdisjoint(self._changed)
            ]
            for job_id in changed:
                self.invalidate_job(job_id)
            self._changed.clear()

    def running(self, state: StateTables, *, now: float) -> tuple[RunningJob, ...]:
        """Return the jobs that hold resources, ordered by id."""
        kept = self._running
        made = tuple(
            kept.get(job_id) or self._running_job(state, state.jobs[job_id], now)
            for job_id in sorted(state.index.active)
        )
        if made != self._last_running:
            self._last_running = made
        return self._last_running

    def _running_job(self, state: StateTables, job: Job, now: float) -> RunningJob:
        closes_unix = ends_for(state, job) if job.reservation else math.inf
        made = running_job(job, now, state.site.grace_s, closes_unix=closes_unix)
        if job.state is JobState.RUNNING and job.start_at_unix is not None:
            self._running[job.id] = made
        return made

    def nodes(self, state: StateTables) -> tuple[NodeView, ...]:
        """Return all nodes, ordered by name."""
        if len(self._nodes) > len(state.nodes):
            self._nodes = {name: made for name, made in self._nodes.items() if name in state.nodes}
        made = tuple(self._node(state, state.nodes[name]) for name in sorted(state.nodes))
        if made != self._last_nodes:
            self._last_nodes = made
        return self._last_nodes

    def _node(self, state: StateTables, node: Node) -> NodeView:
        facts, blocked = state.site.nodes.get(node.name, NO_FACTS), self.blocked(state, node.name)
        up = not node.drained and state.node_status.links.get(node.name) is Link.UP
        unavailable = "" if up else unavailable_reason(state, node)
        kept = self._nodes.get(node.name)
        if kept is not None and kept.is_from(node, facts, blocked, unavailable=unavailable):
            return kept.view
        made = node_view(node, facts, blocked, unavailable=unavailable)
        self._nodes[node.name] = _KeptNode(node, facts, blocked, made)
        return made

    def blocked(self, state: StateTables, name: NodeName) -> dict[int, str]:
        """Return the reason why no job may use a GPU, by GPU index. An unchanged result is the same object."""
        node, reading, kept = state.nodes[name], state.node_status.readings.get(name), self._blocked.get(name)
        if kept is not None and kept[0] is node and kept[1] is reading:
            return kept[2]
        foreign = state.site.avoid_foreign_processes
        found = blocked_gpus(node, reading, gpu_users(state, name), foreign=foreign)
        before = self._nodes.get(name)
        if before is not None and before.blocked == found:
            found = before.blocked
        self._blocked[name] = (node, reading, found)
        return found
