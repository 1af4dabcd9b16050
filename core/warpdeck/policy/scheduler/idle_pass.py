"""A cheap test for passes that can start nothing, because too little is free for every waiting job.

On a full cluster most events are submissions and ends after which nothing fits. Neither the order of the queue nor
a reservation matters then. The test uses only data that the cache keeps from pass to pass, and it may answer False
for a pass that starts nothing.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.input.view import PlannerView
from warpdeck.policy.preemption.preemption import may_preempt_at_all
from warpdeck.policy.reservations.resource_pool import screen
from warpdeck.policy.resources.cluster import CPUS


def starts_nothing(cache: PassCache, view: PlannerView, now: float) -> bool:
    """Return True if a pass over the view would start, preempt, resume and reserve nothing that is reported.

    `cache` must already have been updated to the view.
    """
    cluster_table, queue, unplaceable = cache.cluster_table, cache.queue, cache.unplaceable_classes
    free_now = cluster_table.free_now
    if free_now is None or view.reservations or cluster_table.has_suspended:
        return False
    if cache.settings.backfill == "conservative" or may_preempt_at_all(view, cache.settings):
        return False
    free_cpus = int(np.maximum(free_now[CPUS], 0).sum())
    blocked = queue.by_class["cpus"] > free_cpus
    class_ids = queue.table["class"]
    if blocked[class_ids].all():
        return True
    known = unplaceable.blocked_now(screen(free_now, cluster_table.classes.lower_bounds()))
    blocked[: len(known)] |= known
    return bool(blocked[class_ids].all())
