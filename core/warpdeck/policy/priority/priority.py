"""Multifactor priority of pending jobs, and its factors.

Source: slurm.schedmd.com/priority_multifactor.html. The priority is the sum of weight x factor, minus nice.
Every factor is in [0, 1]:

- age: time eligible / max_age
- fairshare: from Fair Tree
- job size: the mean of the job's shares of the cluster's nodes and CPUs
- partition and QoS: their priority divided by the largest one
- TRES: the job's share of each TRES, with a weight for each

If all weights are 0, jobs are ordered by submission.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import math
from functools import cached_property

import msgspec
import numpy as np

from warpdeck.model import JobId
from warpdeck.policy.cache.waiting_queue import QueueTable, WaitingQueue
from warpdeck.policy.input.settings import PlannerSettings, Weights
from warpdeck.policy.input.site import Tres
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.limits.access import partition_names, tier
from warpdeck.policy.resources.cluster import Floats, Ints, Mask
from warpdeck.policy.resources.tres import requested_tres

from .fairshare import fairshare_by_user

ROUNDING = 1e-6
"""Amount added before priorities are truncated to whole numbers (as in Slurm). Otherwise rounding errors of a
sum could reduce a whole number by one.
"""


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """A line of sprio: the weighted parts of a job's priority, and their sum minus nice."""

    job_id: JobId
    priority: int
    age: float = 0.0
    fairshare: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: dict[str, float] = {}
    nice: int = 0
    set_by_hand: bool = False


def priorities(view: PlannerView, now: float, settings: PlannerSettings) -> dict[JobId, int]:
    """Return the priorities of all pending jobs."""
    queue = WaitingQueue(settings, is_personal=False)
    queue.follow(view.pending)
    found = Ranking(view, now, settings).of_queue(queue)
    return dict(zip(queue.table["id"].tolist(), found.tolist(), strict=True))


class Ranking:
    """Computes the priorities of one pass. Values that jobs have in common are computed once."""

    def __init__(self, view: PlannerView, now: float, settings: PlannerSettings) -> None:
        self._now = now
        self._settings = settings
        self._nodes = view.nodes
        weights = settings.weights
        self._weighted = weights != Weights()
        self._partitions = {part.name: part for part in view.partitions}
        self._top_partition = max((part.priority_job_factor for part in view.partitions), default=0)
        self._qos = {qos.name: qos.priority for qos in view.qos}
        self._top_qos = max(self._qos.values(), default=0)
        self._shares = fairshare_by_user(view.accounts, view.users) if weights.fairshare else {}

    def of_queue(self, queue: WaitingQueue) -> Ints:
        """Return the priorities of the queue, row by row."""
        table = queue.table
        found: Ints = -table["nice"]
        if self._weighted and len(table):
            found = (
                np.floor(
                    self._priority_without_age(queue) + self._ages(table["eligible_unix"]) + ROUNDING
                ).astype(np.int64)
                + found
            )
        return np.where(table["is_ranked"], table["rank"], found)

    def explain(self, job: PendingJob) -> Factors:
        """Return the priority of a job and the weighted factors that add up to it."""
        default = self._settings.default_mem_per_cpu_bytes
        counts = requested_tres(job.resources, self._settings.billing_weights, default_mem_per_cpu=default)
        job_size, tres = self._parts(counts)
        found = Factors(
            job_id=job.id,
            priority=0,
            age=float(self._ages(np.array([job.eligible_at_unix]))[0]),
            fairshare=self._fairshare(job.account, job.user),
            job_size=job_size,
            partition=self._partition(job.partition),
            qos=self._of_qos(job.qos),
            tres=tres,
            nice=job.nice,
            set_by_hand=job.priority is not None,
        )
        total = found.fairshare + found.job_size + found.partition + found.qos + sum(tres.values())
        own = math.floor(total + found.age + ROUNDING) - job.nice
        return msgspec.structs.replace(found, priority=own if job.priority is None else job.priority)

    def _priority_without_age(self, queue: WaitingQueue) -> Floats:
        """Return, by row, the sum of all parts of the priority except age, as in `explain`."""
        table = queue.table
        fairshares = np.array([self._fairshare(account, user) for account, user, _ in queue.persons.keys])
        parts = np.array([self._partition(named) for named in queue.partitions.keys])
        qos = np.array([self._of_qos(name) for name in queue.qos.keys])
        sizes, tres = np.array(self._parts_of_requests(queue)).reshape(-1, 2).T
        class_id, request = table["class"], queue.by_class["request"][table["class"]]
        partition = queue.by_class["partition"][class_id]
        found: Floats = (
            fairshares[table["person"]]
            + sizes[request]
            + parts[partition]
            + qos[table["qos"]]
            + tres[request]
        )
        return found

    def _parts_of_requests(self, queue: WaitingQueue) -> list[tuple[float, float]]:
        """Return the parts for the size and the TRES of each request. The queue keeps them from pass to pass."""
        if queue.request_parts[0] is not self._nodes:
            queue.request_parts = self._nodes, []
        found = queue.request_parts[1]
        for _, counts in queue.requests[len(found) :]:
            size, tres = self._parts(counts)
            found.append((size, sum(tres.values())))
        return found

    def _ages(self, eligible_unix: Floats) -> Floats:
        waited = np.maximum(0.0, self._now - eligible_unix)
        ages: Floats = self._settings.weights.age * np.minimum(1.0, waited / self._settings.max_age_s)
        return ages

    def _fairshare(self, account: str, user: str) -> float:
        return self._settings.weights.fairshare * self._shares.get((account, user), 0.0)

    def _partition(self, named: str) -> float:
        """Return the partition part. If the job names several partitions, the one with the largest factor
        counts.
        """
        names = partition_names(named, self._settings)
        factors = [self._partitions[name].priority_job_factor for name in names if name in self._partitions]
        return self._settings.weights.partition * (max(factors, default=0) / (self._top_partition or 1))

    def _of_qos(self, name: str) -> float:
        return self._settings.weights.qos * (self._qos.get(name, 0) / self._top_qos if self._top_qos else 0.0)

    def _parts(self, counts: Tres) -> tuple[float, dict[str, float]]:
        """Return the parts for the job size and for each TRES."""
        weights, total = self._settings.weights, self._total

        def part(name: str) -> float:
            return min(1.0, counts.get(name, 0) / total[name])

        size = (part("node") + part("cpu")) / 2 if total["cpu"] else 0.0
        tres = {name: weight * part(name) for name, weight in weights.tres.items() if total.get(name)}
        return weights.job_size * ((1.0 - size) if self._settings.favor_small else size), tres

    @cached_property
    def _total(self) -> Tres:
        return {
            "cpu": sum(node.cpus for node in self._nodes),
            "node": len(self._nodes),
            "gres/gpu": sum(len(node.gpus) for node in self._nodes),
            "mem": sum(node.mem_bytes for node in self._nodes) >> 20,
        }


def in_order(
    table: QueueTable,
    queue: WaitingQueue,
    view: PlannerView,
    *,
    has_claim: Mask,
    priorities: Ints,
    order_keys: Floats,
    guard_keys: Floats | None,
) -> Ints:
    """Return the positions of these rows in the order in which jobs are tried.

    The sort keys are partition tier, right to preempt, priority, queue order, eligible time and id. Jobs that
    may preempt come before jobs that may not. Jobs for which others were just preempted (`has_claim`) come
    first. Otherwise another job could take the resources freed for them, and they would preempt more jobs. Guarded
    jobs come next (see `wait_guard`).
    """
    keys: list[Ints | Floats] = [table["id"], table["eligible_unix"], order_keys, -priorities]
    rights = {qos.name: max(1, qos.priority) for qos in view.qos if qos.preempts}
    if rights:
        of_qos: Ints = np.array([rights.get(name, 0) for name in queue.qos.keys], dtype=np.int64)
        keys.append(-of_qos[table["qos"]])
    tiers = {part.name: part.priority_tier for part in view.partitions}
    if tiers:
        named = [tier(each, tiers, queue.settings) for each in queue.partitions.keys]
        keys.append(-np.array(named, dtype=np.int64)[queue.by_class["partition"]][table["class"]])
    if guard_keys is not None:
        keys.append(guard_keys)
    keys.append(np.where(has_claim, 0, 1))
    keys[2:] = [key for key in keys[2:] if len(key) and (key != key[0]).any()]
    order: Ints = np.lexsort(keys)
    return order
