"""The input of a scheduling pass, and the objects derived from it once: pools, limits, eligibility and
preemption rules.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import msgspec

from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.cache.waiting_queue import WaitingQueue
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.limits.limits import LimitUsage
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.preemption.preemption import PreemptionRules
from warpdeck.policy.reservations.resource_pool import ResourcePool, open_pools

from .eligibility import Eligibility
from .exclusive_nodes import WholeNodes


class PassContext(msgspec.Struct, frozen=True, kw_only=True):
    """The view at time `now`, in Unix seconds, with the objects that all parts of a pass use.

    Starts take resources from `pools` and count in `limit_usage`. All other members stay as they are.
    """

    view: PlannerView
    now: float
    settings: PlannerSettings
    queue: WaitingQueue
    pools: dict[str, ResourcePool]
    """The resource pools by the name of their reservation; the general pool has the name ""."""
    limit_usage: LimitUsage
    eligibility: Eligibility
    rules: PreemptionRules

    def has_claim(self, job: PendingJob) -> bool:
        """Return whether other jobs were just preempted for this job."""
        return job.preempted_claim is not None and self.now < job.preempted_claim.until_unix

    def freed_for(
        self, job: PendingJob, pool: ResourcePool, request_class: RequestClass
    ) -> RequestClass | None:
        """Return the request class restricted to the nodes on which jobs were just preempted for this job;
        None if there are none.
        """
        if job.preempted_claim is None or not self.has_claim(job):
            return None
        return request_class.within(pool.cluster.named(frozenset(job.preempted_claim.nodes)))


def open_context(cache: PassCache, view: PlannerView, now: float) -> PassContext:
    """Return the context of a pass. `cache` must already have been updated to the view."""
    settings = cache.settings
    pools = open_pools(view, now, cache)
    limit_usage = LimitUsage(view, now, settings, cache.usage_by_scope)
    whole_nodes = WholeNodes(pools[""], settings.billing_weights)
    return PassContext(
        view=view,
        now=now,
        settings=settings,
        queue=cache.queue,
        pools=pools,
        limit_usage=limit_usage,
        eligibility=Eligibility(cache, view, now, limit_usage=limit_usage, whole_nodes=whole_nodes),
        rules=PreemptionRules(view, now, settings, limit_usage),
    )
