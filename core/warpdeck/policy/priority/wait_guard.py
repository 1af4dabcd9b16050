"""The bound on waits: a job that has waited longer than `wait_bound_s` is *guarded*.

Guarded jobs are tried before all others, the oldest first, whatever their priority, partition or size. Only jobs for
which others were just preempted come before them. A guarded job that does not fit gets a reservation of the earliest
interval in which it fits, on particular nodes. So from the pass in which a job becomes guarded, its reserved start
only moves to an earlier time, as long as no node fails and no older guarded job takes other nodes than it had
reserved. A wide job is treated in the same way: the machine drains for it.

With `keep_reserved`, jobs that already have a reserved start are guarded too, and come first, in the order of these
times. So a change of the order takes no reserved start back.

With conservative backfill no job is guarded, because all jobs have reservations that nobody delays.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from warpdeck.policy.cache.waiting_queue import QueueTable
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.resources.cluster import Floats, rows_of

MAX_GUARDED = 64
"""Maximum number of guarded jobs, the oldest. Each costs the search for a reservation in every pass."""
NOT_GUARDED = np.inf


def guard_keys(table: QueueTable, now: float, settings: PlannerSettings) -> Floats | None:
    """Return a sort key of each job in `table`: its rank among the guarded jobs, or NOT_GUARDED.

    None if no job is guarded.
    """
    bound_s = np.inf if settings.wait_bound_s is None else settings.wait_bound_s
    if (bound_s == np.inf and not settings.keep_reserved) or settings.backfill == "conservative":
        return None
    eligible_unix: Floats = table["eligible_unix"]
    is_guarded = eligible_unix < now - bound_s
    reserved_unix: Floats = np.full(len(table), np.inf)
    if settings.keep_reserved:
        reserved_unix = table["reserved_unix"]
        is_guarded |= reserved_unix < np.inf
    guarded = rows_of(is_guarded)
    if not len(guarded):
        return None
    by = (table["id"][guarded], eligible_unix[guarded], reserved_unix[guarded])
    oldest = guarded[np.lexsort(by)][:MAX_GUARDED]
    keys: Floats = np.full(len(table), NOT_GUARDED)
    keys[oldest] = np.arange(len(oldest))
    return keys
