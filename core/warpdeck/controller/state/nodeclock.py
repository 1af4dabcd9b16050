"""What nodes say of time, on the clock that accounts and limits are kept by: ours. A node's may be wrong, or jump.

Small differences stay as they are, so that what a job took is measured by one clock. A node that is known to be far off (its health
says by how much) is corrected; what it calls the future is now; and a job that seems to have begun long before it could, or to have
ended long before it began, did so now.
"""

from __future__ import annotations

from warpdeck.model import Job, NodeName

from .transaction import Transaction


def moment(txn: Transaction, name: NodeName, at_unix: float) -> float:
    """When it was here; now where the node does not say."""
    health = txn.state.node_status.health.get(name)
    here = at_unix if health is None else at_unix - health.clock_off_s
    is_known = at_unix and here <= txn.now + txn.state.site.health.max_clock_skew_s
    return here if is_known else txn.now


def start_of(txn: Transaction, job: Job, name: NodeName, at_unix: float) -> float:
    """When the job began there."""
    here = moment(txn, name, at_unix)
    return here if here >= job.eligible_at_unix - txn.state.site.health.max_clock_skew_s else txn.now


def end_of(txn: Transaction, job: Job, *, ended_at: float) -> float:
    """When the job ended: not before it began."""
    if job.start_at_unix is None:
        return ended_at
    if ended_at < job.start_at_unix - txn.state.site.health.max_clock_skew_s:
        return txn.now
    return max(ended_at, job.start_at_unix)
