"""Preemption on behalf of one job, or of all components of a heterogeneous job together.

As in Slurm, each component may preempt the jobs on which it has a claim. Unlike in Slurm, no job is preempted
for one component unless all components can be placed at the same time. Resources that are freed for one
component count as free for the next one, but parts of GPUs do not.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from warpdeck.model import JobId, PreemptedClaim
from warpdeck.policy.input.decisions import Preempt
from warpdeck.policy.input.site import Tres
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.limits.access import in_partition
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.placement.placement import Taken
from warpdeck.policy.placement.request_class import Placement, RequestClass
from warpdeck.policy.preemption.preemption import CLAIM_KEPT_S, Claimant, Preemption, claimant
from warpdeck.policy.reservations.partial_reservation import outside_of_parts
from warpdeck.policy.reservations.resource_pool import ResourcePool
from warpdeck.policy.resources.tres import MIB, billing

from .pass_context import PassContext


class ComponentRequest(NamedTuple):
    """A component, with the request class and duration for which it needs resources."""

    job: PendingJob
    pool: ResourcePool
    request_class: RequestClass
    duration_s: float


class _Trial:
    """A trial: the placements of components, and the jobs that would have to be preempted for them."""

    def __init__(self) -> None:
        self.kept: list[tuple[ComponentRequest, Placement, list[Taken]]] = []
        self.preempts: list[Preempt] = []


class Evictions:
    """The evictions of one pass.

    Each decision to preempt jobs is appended to `preempts`. The job for which they make way gets a reserved start, which is
    passed to `record_start`.
    """

    def __init__(
        self,
        context: PassContext,
        *,
        preempts: list[Preempt],
        record_start: Callable[[PendingJob, ResourcePool, Placement, float], None],
    ) -> None:
        self._context = context
        self._preempts = preempts
        self._record_start = record_start
        self._preemption = Preemption(
            context.rules, context.pools[""].timeline, outside_of_parts(context.view), context.now
        )
        self._no_victims: set[Claimant] = set()

    def claimant(self, job: PendingJob) -> Claimant:
        """Return the claimant key of the job. Jobs with the same key may preempt the same jobs."""
        return claimant(
            job, exclusivity_key=self._context.pools[""].cluster_table.classes.exclusivity_key(job)
        )

    def may_preempt(self, job: PendingJob) -> bool:
        """Return whether there might be a running job that this job could preempt."""
        if not self._context.rules.active or job.reservation or self.claimant(job) in self._no_victims:
            return False
        return self._context.rules.may_preempt(job, self._context.eligibility.tres(job))

    def preempt_for(
        self, job: PendingJob, block_reason: BlockReason, pool: ResourcePool, request_class: RequestClass
    ) -> bool:
        """Preempt other jobs for this job if that helps. Return whether jobs were preempted."""
        found = self._find(job, pool, request_class, block_reason.duration_s)
        if found is None:
            self._no_victims.add(self.claimant(job))
            return False
        placement, preempts = found
        if self._would_break_a_limit(job, pool, request_class, placement):
            return False
        self._preempts.extend(preempts)
        self._preemption.record(preempts)
        ready = self._context.now + max(each.grace_s for each in preempts)
        pool.reserve_after_preemption(placement, ready, block_reason.duration_s)
        self._record_start(job, pool, placement, ready)
        return True

    def preempt_for_all(self, leader: PendingJob, parts: Sequence[ComponentRequest]) -> bool:
        """Preempt jobs so that all components fit at the same time. If that is impossible, preempt no job and
        return False.
        """
        before, made = self._context.limit_usage.savepoint(), _Trial()
        is_whole = all(self._keep(part, made) for part in parts)
        for part, _, taken in reversed(made.kept):
            part.pool.release(taken)
        self._preemption.vacate(made.preempts, back=True)
        if not is_whole or not made.preempts:
            self._context.limit_usage.rollback(before)
            return False
        self._carry_out(leader, made)
        return True

    def _keep(self, part: ComponentRequest, made: _Trial) -> bool:
        """Reserve a placement for this component in addition to the placements of earlier components. Return
        whether there was one.
        """
        job = in_partition(part.job, part.request_class.partition)
        placement = part.pool.find_now(part.request_class, part.duration_s)
        if placement is None and self.may_preempt(job):
            found = self._find(job, part.pool, part.request_class, part.duration_s)
            if found is not None:
                placement = found[0]
                made.preempts += found[1]
                self._preemption.vacate(found[1])
        limit_s = self._context.eligibility.limit_s(job, part.request_class.partition)
        if placement is None or self._would_break_a_limit(job, part.pool, part.request_class, placement):
            return False
        if self._context.eligibility.blocking_rule(job, part.request_class.partition, limit_s) is not None:
            return False
        made.kept.append(
            (
                part,
                placement,
                part.pool.reserve_after_preemption(placement, self._context.now, part.duration_s),
            )
        )
        self._context.limit_usage.take(job, self._granted_tres(job, part.pool, placement), limit_s)
        return True

    def _carry_out(self, leader: PendingJob, made: _Trial) -> None:
        grace_s = max(each.grace_s for each in made.preempts)
        ready, until_unix = self._context.now + grace_s, self._context.now + grace_s + CLAIM_KEPT_S
        claims: dict[JobId, PreemptedClaim] = {}
        for part, placement, _ in made.kept:
            part.pool.reserve_after_preemption(placement, ready, part.duration_s)
            self._record_start(part.job, part.pool, placement, ready)
            claims[part.job.id] = PreemptedClaim(nodes=part.pool.names(placement), until_unix=until_unix)
        own = claims.pop(leader.id)
        preempts = [
            msgspec.structs.replace(
                each,
                for_job_id=leader.id,
                preempted_claim=own,
                component_claims=tuple(sorted(claims.items())),
            )
            for each in made.preempts
        ]
        self._preempts.extend(preempts)
        self._preemption.record(preempts)

    def _find(
        self, job: PendingJob, pool: ResourcePool, request_class: RequestClass, duration_s: float
    ) -> tuple[Placement, list[Preempt]] | None:
        granted = partial(self._granted_tres, job, pool)
        return self._preemption.find(
            job, self._context.eligibility.tres(job), request_class, duration_s, granted=granted
        )

    def _would_break_a_limit(
        self, job: PendingJob, pool: ResourcePool, request_class: RequestClass, placement: Placement
    ) -> bool:
        """Return whether the job would exceed a limit on this placement. Other jobs would then be preempted
        in vain.
        """
        limit_usage = self._context.limit_usage
        if not limit_usage.limits_anything:
            return False
        amounts = [pool.amounts(row, need) for row, need in placement]
        most = {
            "cpu": max(cpus for cpus, _, _ in amounts),
            "mem": max(mem for _, mem, _ in amounts) // MIB,
            "gres/gpu": max(gpus for _, _, gpus in amounts),
        }
        limit_s = self._context.eligibility.limit_s(job, request_class.partition)
        return (
            limit_usage.check(job, self._granted_tres(job, pool, placement), limit_s, per_node=most)
            is not None
        )

    def _granted_tres(self, job: PendingJob, pool: ResourcePool, placement: Placement) -> Tres:
        """Return the largest TRES that the job could count on this placement."""
        granted, amounts = (
            dict(self._context.eligibility.tres(job)),
            [pool.amounts(row, need) for row, need in placement],
        )
        granted["node"] = len(placement)
        granted["cpu"] = sum(cpus for cpus, _, _ in amounts)
        granted["mem"] = sum(mem for _, mem, _ in amounts) // MIB
        granted["gres/gpu"] = sum(gpus for _, _, gpus in amounts)
        granted["billing"] = billing(granted, self._context.settings.billing_weights)
        return granted
