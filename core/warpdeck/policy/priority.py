"""Multifactor priority: who comes first, and each number that makes it so. Pure.

Source: slurm.schedmd.com/priority_multifactor.html. priority = sum of weight x factor - nice; every factor is in [0, 1]:
age (time eligible / max_age), fairshare (Fair Tree), job size (part of the cluster's CPUs), partition and QoS (their
priority over the largest), and weighted parts of each TRES. With all weights 0 the order is that of submission.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from warpdeck.model import JobId

from .access import partition_names, tier
from .cluster import Floats, Ints
from .fairshare import fairshare_by_user
from .settings import Settings, Weights
from .site import Tres
from .tres import asked_tres
from .view import PendingJob, View


class Factors(msgspec.Struct, frozen=True, kw_only=True):
    """A line of sprio: weighted parts of a job's priority, and their sum less nice."""

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


class Ranking:
    """The priorities of one pass. What jobs of one kind have in common is worked out once."""

    def __init__(self, view: View, now: float, settings: Settings) -> None:
        self._now = now
        self._settings = settings
        weights = settings.weights
        self._weighted = weights != Weights()
        self._partitions = {part.name: part for part in view.partitions}
        self._top_partition = max((part.priority_job_factor for part in view.partitions), default=0)
        self._qos = {qos.name: qos.priority for qos in view.qos}
        self._top_qos = max(self._qos.values(), default=0)
        self._total: Tres = {"cpu": sum(node.cpus for node in view.nodes)}
        self._total["node"] = len(view.nodes)
        self._total["gres/gpu"] = sum(len(node.gpus) for node in view.nodes)
        self._total["mem"] = sum(node.mem_bytes for node in view.nodes) >> 20
        self._shares = fairshare_by_user(view.accounts, view.users) if weights.fairshare else {}
        self._kinds: dict[tuple[object, ...], Factors] = {}

    def of(self, job: PendingJob) -> int:
        """The job's priority."""
        if job.priority is not None:
            return job.priority
        if not self._weighted:
            return -job.nice
        return round(self._kind(job).priority + self._age(job)) - job.nice

    def of_all(self, jobs: Iterable[PendingJob]) -> dict[JobId, int]:
        """The priorities of many jobs."""
        if self._weighted:
            return {job.id: self.of(job) for job in jobs}
        return {job.id: -job.nice if job.priority is None else job.priority for job in jobs}

    def explain(self, job: PendingJob) -> Factors:
        """The priority and its parts."""
        kind = self._kind(job)
        return msgspec.structs.replace(
            kind,
            job_id=job.id,
            priority=self.of(job),
            age=self._age(job),
            nice=job.nice,
            set_by_hand=job.priority is not None,
        )

    def _age(self, job: PendingJob) -> float:
        weight = self._settings.weights.age
        if not weight:
            return 0.0
        waited = max(0.0, self._now - job.eligible_at_unix)
        return weight * min(1.0, waited / self._settings.max_age_s)

    def _kind(self, job: PendingJob) -> Factors:
        key = (id(job.resources), job.partition, job.qos, job.account, job.user)
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = self._work_out(job)
        return found

    def _work_out(self, job: PendingJob) -> Factors:
        weights, settings = self._settings.weights, self._settings
        named = [
            self._partitions[name]
            for name in partition_names(job.partition, settings)
            if name in self._partitions
        ]
        factor = max((part.priority_job_factor for part in named), default=0) / (self._top_partition or 1)
        qos = self._qos.get(job.qos, 0) / self._top_qos if self._top_qos else 0.0
        share = self._shares.get((job.account, job.user), 0.0)
        asked = asked_tres(
            job.resources,
            settings.billing_weights,
            default_mem_per_cpu=settings.default_mem_per_cpu_bytes,
        )
        size = min(1.0, asked["cpu"] / self._total["cpu"]) if self._total["cpu"] else 0.0
        tres = {
            name: weight * min(1.0, asked.get(name, 0) / self._total[name])
            for name, weight in weights.tres.items()
            if self._total.get(name)
        }
        found = Factors(
            job_id=job.id,
            priority=0,
            fairshare=weights.fairshare * share,
            job_size=weights.job_size * ((1.0 - size) if settings.favor_small else size),
            partition=weights.partition * factor,
            qos=weights.qos * qos,
            tres=tres,
        )
        total = found.fairshare + found.job_size + found.partition + found.qos + sum(tres.values())
        return msgspec.structs.replace(found, priority=round(total))


def in_order(
    jobs: Sequence[PendingJob], view: View, settings: Settings, *, priorities: Sequence[int], turns: Floats
) -> Ints:
    """The places of the jobs by partition tier, right to preempt, priority, turn, time eligible and id.

    Who may push others aside goes before those who may not: else the room that is made for it would be theirs.
    """
    by_name = {part.name: part.priority_tier for part in view.partitions}
    tiers = {named: tier(named, by_name, settings) for named in {job.partition for job in jobs}}
    rights = {qos.name: max(1, qos.priority) for qos in view.qos if qos.preempts}
    keys: list[Ints | Floats] = [
        np.array([job.id for job in jobs], dtype=np.int64),
        np.array([job.eligible_at_unix for job in jobs], dtype=np.float64),
        turns,
        -np.array(priorities, dtype=np.int64),
    ]
    if rights:
        keys.append(-np.array([rights.get(job.qos, 0) for job in jobs], dtype=np.int64))
    if by_name:
        keys.append(-np.array([tiers[job.partition] for job in jobs], dtype=np.int64))
    keys[2:] = [key for key in keys[2:] if len(key) and (key != key[0]).any()]
    order: Ints = np.lexsort(keys)
    return order
