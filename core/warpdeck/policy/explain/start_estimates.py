"""Start estimates for the many jobs far back in the queue, from the work ahead of each job.

A pass computes the starts of its first jobs on the timeline. For the other jobs, this module estimates how
long their nodes need for the work ahead: the rest of the running jobs there, and the pending jobs that come
first in order of tier, priority and time. The scarcest of CPUs, memory and GPUs decides. Work is counted with
expected run times (predicted, else limits). The work of jobs that may also run elsewhere is spread over all
their nodes.

This is an estimate for a queue that stays unchanged, and it guarantees nothing. If jobs do not pack well on
the nodes, they start later than estimated. With backfill, short jobs may start earlier.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpdeck.model import JobId, NodeName, count_tasks
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.limits.access import partition_names, tier, time_limit
from warpdeck.policy.resources.cluster import Cluster, Floats, Ints
from warpdeck.policy.resources.demand import WHOLE_NODE, needs

DIMENSIONS = 3
"""CPUs, memory and GPUs: the first columns of a `Cluster`."""
MAX_GROUPS = 256
"""Maximum number of distinct sets of usable nodes. Further sets are treated as if they contained all nodes.
The computation time is proportional to sets x jobs.
"""
ESTIMATED_CODES = ("Resources", "Priority", "None")
"""Reason codes of jobs that wait only for resources. Only their starts can be estimated from the work
ahead.
"""


class StartEstimates:
    """Estimated starts by job. `end_unix` is the end of all pending work. It is the estimate for a newly
    submitted job.
    """

    def __init__(self, ids: Ints, at_unix: Floats, *, end_unix: float = np.inf) -> None:
        order = np.argsort(ids)
        self._ids, self._at_unix = ids[order], at_unix[order]
        self._end_unix = end_unix

    def __len__(self) -> int:
        return len(self._ids)

    def start_of(self, job_id: JobId) -> float | None:
        """Return the estimated start in Unix seconds; None if jobs without a limit make it unpredictable."""
        if not len(self._ids):
            return None
        position = int(np.searchsorted(self._ids, job_id))
        is_found = position < len(self._ids) and self._ids[position] == job_id
        at_unix = float(self._at_unix[position]) if is_found else self._end_unix
        return at_unix if np.isfinite(at_unix) else None

    def changed_since(self, before: StartEstimates, now: float) -> list[JobId]:
        """Return the jobs with a new estimate, or with an estimate that has changed by a significant part of
        the wait, soonest start first.
        """
        if not len(self._ids):
            return []
        positions = np.minimum(np.searchsorted(before._ids, self._ids), len(before) - 1)
        new = before._ids[positions] != self._ids if len(before) else np.ones(len(self), dtype=np.bool_)
        at_unix = np.minimum(self._at_unix, NEVER_UNIX)
        was = np.minimum(before._at_unix[positions], NEVER_UNIX) if len(before) else at_unix
        changed = np.flatnonzero(
            new | (np.abs(at_unix - was) > CHANGED_SHARE * np.maximum(at_unix - now, 0.0))
        )
        return [JobId(number) for number in self._ids[changed[np.argsort(self._at_unix[changed])]].tolist()]


NEVER_UNIX = 1e15
"""Used instead of infinity, because the difference of two infinities cannot be compared."""
CHANGED_SHARE = 0.2
"""Changes of a start by less than this share of the wait are not reported."""
NO_ESTIMATES = StartEstimates(np.zeros(0, dtype=np.int64), np.zeros(0))


def estimate_starts(
    view: PlannerView,
    now: float,
    settings: PlannerSettings,
    *,
    priorities: Mapping[JobId, int],
    besides: Collection[JobId] = (),
) -> StartEstimates:
    """Return the estimated starts of the pending jobs.

    Jobs in `besides` wait for something other than resources. They get no estimate and delay no other job.
    """
    jobs = [
        job for job in view.pending if job.id not in besides and not (job.held or job.waits_for or job.never)
    ]
    jobs = [job for job in jobs if job.begin_at_unix is None or job.begin_at_unix <= now]
    if not jobs or not view.nodes:
        return NO_ESTIMATES
    jobs = [jobs[position] for position in _order(jobs, view, settings, priorities).tolist()]
    cluster = Cluster(view.nodes)
    groups = _Groups(cluster, jobs, view, settings)
    waits_s = groups.waits(
        groups.amounts(jobs, settings), _times(jobs, view, settings, now), _running(cluster, view, now)
    )
    ids = np.array([job.id for job in jobs], dtype=np.int64)
    return StartEstimates(ids, now + waits_s, end_unix=now + float(waits_s.max()))


def _order(
    jobs: Sequence[PendingJob], view: PlannerView, settings: PlannerSettings, priorities: Mapping[JobId, int]
) -> Ints:
    by_name = {part.name: part.priority_tier for part in view.partitions}
    tiers = {named: tier(named, by_name, settings) for named in {job.partition for job in jobs}}
    order: Ints = np.lexsort(
        (
            np.array([job.id for job in jobs], dtype=np.int64),
            np.array([job.eligible_at_unix for job in jobs], dtype=np.float64),
            -np.array([priorities.get(job.id, 0) for job in jobs], dtype=np.int64),
            -np.array([tiers[job.partition] for job in jobs], dtype=np.int64),
        )
    )
    return order


class _Groups:
    """Jobs grouped by the nodes that they may use."""

    def __init__(
        self, cluster: Cluster, jobs: Sequence[PendingJob], view: PlannerView, settings: PlannerSettings
    ) -> None:
        self._cluster = cluster
        partitions = {part.name: part.nodes for part in view.partitions}
        reserved = {each.name: None if each.is_everywhere else each.nodes for each in view.reservations}
        numbers: dict[tuple[object, ...], int] = {}
        masks = [cluster.takes_jobs.astype(np.float64)]  # Group 0 contains all nodes.
        of = []
        for job in jobs:
            requested = job.resources
            key = (
                job.partition,
                job.reservation,
                requested.gpus.type,
                requested.constraint,
                requested.nodelist,
                requested.exclude,
                requested.node_minimum,
            )
            number = numbers.get(key)
            if number is None:
                number = len(masks) if len(masks) < MAX_GROUPS else 0
                numbers[key] = number
                if number:
                    masks.append(self._mask(job, partitions, reserved, settings))
            of.append(number)
        self.of: Ints = np.array(of, dtype=np.int64)
        self._masks: Floats = np.array(masks)

    def _mask(
        self,
        job: PendingJob,
        partitions: Mapping[str, frozenset[NodeName] | None],
        reserved: Mapping[str, frozenset[NodeName] | None],
        settings: PlannerSettings,
    ) -> Floats:
        allowed: frozenset[NodeName] | None = frozenset()
        for name in partition_names(job.partition, settings) if partitions else ("",):
            nodes = partitions.get(name, frozenset()) if partitions else None
            allowed = None if allowed is None or nodes is None else allowed | nodes
        inside = reserved.get(job.reservation, frozenset()) if job.reservation else None
        if inside is not None:
            allowed = inside if allowed is None else allowed & inside
        found = np.zeros(len(self._cluster), dtype=np.bool_)
        for mask in self._cluster.rows_for(job.resources, allowed):
            found |= mask
        usable: Floats = (found & self._cluster.takes_jobs).astype(np.float64)
        return usable

    def amounts(self, jobs: Sequence[PendingJob], settings: PlannerSettings) -> Floats:
        """Return the amounts that all pending tasks of each job take together, as an array (dimension, job)."""
        per_node = self._cluster.capacity[:DIMENSIONS].max(axis=1, initial=0).astype(np.float64)
        sizes: dict[int, Floats] = {}
        for job in jobs:
            if id(job.resources) not in sizes:
                requested = job.resources
                default = settings.default_mem_per_cpu_bytes
                size = np.zeros(DIMENSIONS)
                for need, count in needs(requested, requested.nodes_min, default_mem_per_cpu_bytes=default):
                    mem = per_node[1] if need.mem_bytes == WHOLE_NODE else need.mem_bytes
                    gpus = need.gpus * need.gpu_share_pct / 100
                    each = per_node if need.exclusive else np.array((need.cpus, mem, gpus))
                    size += each * count
                sizes[id(requested)] = size
        tasks = np.array([count_tasks(job.tasks) if job.tasks else 1 for job in jobs])
        amounts: Floats = np.array([sizes[id(job.resources)] for job in jobs]).T * tasks
        return amounts

    def waits(self, amounts: Floats, times_s: Floats, running: _Running) -> Floats:
        """Return how many seconds the nodes of each job need for the work that runs there and the work ahead
        of it.

        Jobs that never end take their amounts from the nodes forever. If nothing is left, the wait is
        infinite.
        """
        endless = np.isinf(times_s)
        work = np.where(endless, 0.0, amounts) * np.where(endless, 0.0, times_s)
        gone = np.where(endless, amounts, 0.0)
        waits_s = np.zeros(len(self.of))
        for dimension in range(DIMENSIONS):
            capacity = self._masks * self._cluster.capacity[dimension]
            total = capacity.sum(axis=1)
            # (of, on): the amount of one group's nodes that also belongs to the other group.
            inside = capacity @ self._masks.T
            spread = np.divide(inside, total[:, None], out=np.zeros_like(inside), where=total[:, None] > 0)
            busy = self._masks @ running.work[dimension]
            left = total - self._masks @ running.endless[dimension]
            for group in np.unique(self.of).tolist():
                mine, part = self.of == group, spread[self.of, group]
                before = _preceding(work[dimension] * part)[mine] + busy[group]
                left_over = left[group] - _preceding(gone[dimension] * part)[mine]
                requested = amounts[dimension][mine] > 0
                wait = np.divide(before, left_over, out=np.full(len(left_over), np.inf), where=left_over > 0)
                waits_s[mine] = np.maximum(waits_s[mine], np.where(requested, wait, 0.0))
        return waits_s


def _preceding(amounts: Floats) -> Floats:
    """Return the sum of the preceding elements for each element."""
    before: Floats = np.cumsum(amounts) - amounts
    return before


def _times(jobs: Sequence[PendingJob], view: PlannerView, settings: PlannerSettings, now: float) -> Floats:
    """Return the expected run time of each job in seconds; infinite if nothing limits it."""
    partitions = {part.name: part for part in view.partitions}
    found = []
    for job in jobs:
        seconds: float | None = job.predicted_s
        if seconds is None:
            name = next(iter(partition_names(job.partition, settings)), "")
            seconds = time_limit(job, partitions.get(name), settings, now)
        found.append(np.inf if seconds is None else float(seconds))
    return np.array(found)


class _Running(NamedTuple):
    """Arrays (dimension, row): the remaining resource-seconds of running jobs, and the amounts held by jobs
    without a limit.
    """

    work: Floats
    endless: Floats


def _running(cluster: Cluster, view: PlannerView, now: float) -> _Running:
    work: Floats = np.zeros((DIMENSIONS, len(cluster)))
    endless: Floats = np.zeros((DIMENSIONS, len(cluster)))
    for job in view.running:
        ends = job.expects_end_unix if job.expects_end_unix is not None else job.ends_by_unix
        for share in job.allocation.shares:
            row = cluster.row.get(share.node)
            if row is None:
                continue
            gpus = len(share.gpus) * share.gpu_share_pct / 100
            held = np.array((share.cpus, share.mem_bytes, gpus))
            if ends is None:
                endless[:, row] += held
            else:
                work[:, row] += held * max(0.0, ends - now)
    return _Running(work, endless)
