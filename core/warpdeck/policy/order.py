"""Who comes first: an explicit priority, then nice, then age, then id. Pure."""

from __future__ import annotations

from .view import PendingJob


def queue_order(job: PendingJob) -> tuple[int, int, float, int]:
    """The sort key of a waiting job; smaller comes first."""
    return (-(job.priority or 0), job.nice, job.eligible_at_unix, job.id)
