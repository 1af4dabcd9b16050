"""The input of a scheduling pass, and what is derived from it once: pools, limits, conditions and claims.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import msgspec

from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.cache.waiting_queue import WaitingQueue
from warpdeck.policy.input.settings import Settings
from warpdeck.policy.input.view import PendingJob, View
from warpdeck.policy.limits.limits import LimitUsage
from warpdeck.policy.placement.request_shape import RequestClass
from warpdeck.policy.preemption.preemption import PreemptionRules
from warpdeck.policy.reservations.resource_pool import ResourcePool, open_fields

from .eligibility import Eligibility
from .exclusive_nodes import WholeNodes


class PassContext(msgspec.Struct, frozen=True, kw_only=True):
    """The view at time `now`, in Unix seconds, with the objects that all parts of a pass use.

    Starts take resources from `fields` and count in `ledger`. All other members stay as they are.
    """

    view: View
    now: float
    settings: Settings
    queue: WaitingQueue
    fields: dict[str, ResourcePool]
    """The resource pools by the name of their reservation; the general pool has the name ""."""
    ledger: LimitUsage
    terms: Eligibility
    rules: PreemptionRules

    def has_room(self, job: PendingJob) -> bool:
        """Return whether other jobs were just preempted for this job."""
        return job.room is not None and self.now < job.room.until_unix

    def freed_for(self, job: PendingJob, field: ResourcePool, shape: RequestClass) -> RequestClass | None:
        """Return the request class restricted to the nodes on which jobs were just preempted for this job;
        None if there are none.
        """
        if job.room is None or not self.has_room(job):
            return None
        return shape.within(field.cluster.named(frozenset(job.room.nodes)))


def open_context(memory: PassCache, view: View, now: float) -> PassContext:
    """Return the context of a pass. `memory` must already have been updated to the view."""
    settings = memory.settings
    fields = open_fields(view, now, memory)
    ledger = LimitUsage(view, now, settings, memory.uses)
    whole_nodes = WholeNodes(fields[""], settings.billing_weights)
    return PassContext(
        view=view,
        now=now,
        settings=settings,
        queue=memory.queue,
        fields=fields,
        ledger=ledger,
        terms=Eligibility(memory, view, now, ledger=ledger, whole_nodes=whole_nodes),
        rules=PreemptionRules(view, now, settings, ledger),
    )
