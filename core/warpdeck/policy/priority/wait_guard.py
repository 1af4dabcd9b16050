"""The bound on waits: a job that has waited longer than `wait_bound_s` is *guarded*.

Guarded jobs are tried before all others, the oldest first, whatever their priority, partition or size. Only jobs for
which others were just preempted come before them. A guarded job that does not fit gets a reservation of the earliest
interval in which it fits, on particular nodes. So from the pass in which a job becomes guarded, its reserved start
only moves to an earlier time, as long as no node fails and no older guarded job takes other nodes than it had
reserved. A wide job is treated in the same way: the machine drains for it.

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
    if settings.wait_bound_s is None or settings.backfill == "conservative" or not len(table):
        return None
    eligible_unix: Floats = table["eligible_unix"]
    guarded = rows_of(eligible_unix < now - settings.wait_bound_s)
    if not len(guarded):
        return None
    oldest = guarded[np.lexsort((table["id"][guarded], eligible_unix[guarded]))][:MAX_GUARDED]
    keys: Floats = np.full(len(table), NOT_GUARDED)
    keys[oldest] = np.arange(len(oldest))
    return keys
