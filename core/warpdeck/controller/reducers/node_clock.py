"""Converts times that nodes report to the controller's clock, which accounting and limits use.

The clock of a node may be wrong or may jump. Small differences are not corrected, so that the duration of a
job is measured by one clock. For a node with a large clock error, the error that its health check reports is
subtracted. A time in the future becomes the present. If a job seems to have started long before it was
eligible, or to have ended long before its start, the present is used as well.
"""

from __future__ import annotations

from warpdeck.controller.state.transaction import Transaction
from warpdeck.model import Job, NodeName


def moment(txn: Transaction, name: NodeName, at_unix: float) -> float:
    """Return the reported time on the controller's clock; the present if the node reports no time."""
    health = txn.state.node_status.health.get(name)
    here = at_unix if health is None else at_unix - health.clock_off_s
    is_known = at_unix and here <= txn.now + txn.state.site.health.max_clock_skew_s
    return here if is_known else txn.now


def start_of(txn: Transaction, job: Job, name: NodeName, at_unix: float) -> float:
    """Return the time at which the job started on the node, on the controller's clock."""
    here = moment(txn, name, at_unix)
    return here if here >= job.eligible_at_unix - txn.state.site.health.max_clock_skew_s else txn.now


def end_of(txn: Transaction, job: Job, *, ended_at: float) -> float:
    """Return the time at which the job ended, which is never before its start."""
    if job.start_at_unix is None:
        return ended_at
    if ended_at < job.start_at_unix - txn.state.site.health.max_clock_skew_s:
        return txn.now
    return max(ended_at, job.start_at_unix)
