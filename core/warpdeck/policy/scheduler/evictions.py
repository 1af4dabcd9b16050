"""Preemption on behalf of one job, or of all components of a heterogeneous job together.

As in Slurm, each component may preempt the jobs over which it has a claim. Unlike in Slurm, no job is
preempted for one component unless all components can be placed at the same time. Resources that are freed for
one component count as free for the next one, but parts of GPUs do not.

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
from warpdeck.policy.placement.request_shape import Placement, RequestClass
from warpdeck.policy.preemption.preemption import ROOM_KEPT_S, Claimant, Preemption, claimant
from warpdeck.policy.reservations.partial_reservation import outside_of_parts
from warpdeck.policy.reservations.resource_pool import ResourcePool
from warpdeck.policy.resources.tres import MIB, billing

from .pass_context import PassContext


class ComponentRequest(NamedTuple):
    """A component, with the request class and duration for which it needs resources."""

    job: PendingJob
    field: ResourcePool
    shape: RequestClass
    duration_s: float


class _Try:
    """A trial placement of components, with the jobs that would have to be preempted for it."""

    def __init__(self) -> None:
        self.kept: list[tuple[ComponentRequest, Placement, list[Taken]]] = []
        self.told: list[Preempt] = []


class Evictions:
    """The evictions of one pass.

    `preempts` receives the decisions. `promise` is called with each start that they make certain.
    """

    def __init__(
        self,
        context: PassContext,
        *,
        preempts: list[Preempt],
        promise: Callable[[PendingJob, ResourcePool, Placement, float], None],
    ) -> None:
        self._context = context
        self._preempts = preempts
        self._promise = promise
        self._preemption = Preemption(
            context.rules, context.fields[""].timeline, outside_of_parts(context.view), context.now
        )
        self._no_victims: set[Claimant] = set()

    def claimant(self, job: PendingJob) -> Claimant:
        """Return a key. Jobs with the same key may preempt the same jobs."""
        return claimant(job, tenant=self._context.fields[""].cluster_table.tenant_of(job))

    def may_preempt(self, job: PendingJob) -> bool:
        """Return whether there might be a job that it could preempt."""
        if not self._context.rules.active or job.reservation or self.claimant(job) in self._no_victims:
            return False
        return self._context.rules.may_preempt(job, self._context.terms.tres(job))

    def make_room(
        self, job: PendingJob, obstacle: BlockReason, field: ResourcePool, shape: RequestClass
    ) -> bool:
        """Preempt jobs for this one if that helps. Return whether it was done."""
        found = self._find(job, field, shape, obstacle.duration_s)
        if found is None:
            self._no_victims.add(self.claimant(job))
            return False
        spot, told = found
        if self._would_break_a_limit(job, field, shape, spot):
            return False
        self._preempts.extend(told)
        self._preemption.tell(told)
        ready = self._context.now + max(each.grace_s for each in told)
        field.clear(spot, ready, obstacle.duration_s)
        self._promise(job, field, spot, ready)
        return True

    def make_room_together(self, leader: PendingJob, parts: Sequence[ComponentRequest]) -> bool:
        """Preempt jobs so that all components fit at the same time. If that is impossible, preempt none and
        return False.
        """
        before, made = self._context.ledger.mark(), _Try()
        is_whole = all(self._keep(part, made) for part in parts)
        for part, _, taken in reversed(made.kept):
            part.field.release(taken)
        self._preemption.vacate(made.told, back=True)
        if not is_whole or not made.told:
            self._context.ledger.undo(before)
            return False
        self._carry_out(leader, made)
        return True

    def _keep(self, part: ComponentRequest, made: _Try) -> bool:
        """Reserve a placement for this component besides the components that already have one."""
        job = in_partition(part.job, part.shape.partition)
        spot = part.field.find_now(part.shape, part.duration_s)
        if spot is None and self.may_preempt(job):
            found = self._find(job, part.field, part.shape, part.duration_s)
            if found is not None:
                spot = found[0]
                made.told += found[1]
                self._preemption.vacate(found[1])
        limit_s = self._context.terms.limit_s(job, part.shape.partition)
        if spot is None or self._would_break_a_limit(job, part.field, part.shape, spot):
            return False
        if self._context.terms.bars(job, part.shape.partition, limit_s) is not None:
            return False
        made.kept.append((part, spot, part.field.clear(spot, self._context.now, part.duration_s)))
        self._context.ledger.take(job, self._given(job, part.field, spot), limit_s)
        return True

    def _carry_out(self, leader: PendingJob, made: _Try) -> None:
        grace_s = max(each.grace_s for each in made.told)
        ready, until_unix = self._context.now + grace_s, self._context.now + grace_s + ROOM_KEPT_S
        rooms: dict[JobId, PreemptedClaim] = {}
        for part, spot, _ in made.kept:
            part.field.clear(spot, ready, part.duration_s)
            self._promise(part.job, part.field, spot, ready)
            rooms[part.job.id] = PreemptedClaim(nodes=part.field.names(spot), until_unix=until_unix)
        own = rooms.pop(leader.id)
        told = [
            msgspec.structs.replace(
                each, for_job_id=leader.id, room=own, rooms_beside=tuple(sorted(rooms.items()))
            )
            for each in made.told
        ]
        self._preempts.extend(told)
        self._preemption.tell(told)

    def _find(
        self, job: PendingJob, field: ResourcePool, shape: RequestClass, duration_s: float
    ) -> tuple[Placement, list[Preempt]] | None:
        given = partial(self._given, job, field)
        return self._preemption.find(job, self._context.terms.tres(job), shape, duration_s, given=given)

    def _would_break_a_limit(
        self, job: PendingJob, field: ResourcePool, shape: RequestClass, spot: Placement
    ) -> bool:
        """Return whether the job would exceed a limit there, so that other jobs would be preempted in
        vain.
        """
        ledger = self._context.ledger
        if not ledger.limits_anything:
            return False
        amounts = [field.amounts(row, need) for row, need in spot]
        most = {
            "cpu": max(cpus for cpus, _, _ in amounts),
            "mem": max(mem for _, mem, _ in amounts) // MIB,
            "gres/gpu": max(gpus for _, _, gpus in amounts),
        }
        limit_s = self._context.terms.limit_s(job, shape.partition)
        return ledger.check(job, self._given(job, field, spot), limit_s, per_node=most) is not None

    def _given(self, job: PendingJob, field: ResourcePool, spot: Placement) -> Tres:
        """Return the most that the job would count there."""
        given, amounts = dict(self._context.terms.tres(job)), [field.amounts(row, need) for row, need in spot]
        given["node"] = len(spot)
        given["cpu"] = sum(cpus for cpus, _, _ in amounts)
        given["mem"] = sum(mem for _, mem, _ in amounts) // MIB
        given["gres/gpu"] = sum(gpus for _, _, gpus in amounts)
        given["billing"] = billing(given, self._context.settings.billing_weights)
        return given
