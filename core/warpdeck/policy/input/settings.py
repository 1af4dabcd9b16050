"""Settings of the policy, constant during a pass. Names follow slurm.conf if it has a corresponding
parameter.
"""

from __future__ import annotations

import msgspec

MAX_PROTECTED = 1000
"""Maximum number of reservations for pending jobs in one pass, over all pools. It bounds the duration of the
pass.
"""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of the multifactor priority (PriorityWeight*). Each factor is in [0, 1] and is multiplied by
    its weight.
    """

    age: int = 0
    fairshare: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    tres: dict[str, float] = {}


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the planner, named after slurm.conf parameters if possible."""

    weights: Weights = Weights()
    max_age_s: float = 7 * 86_400.0
    """Time after which the age factor is 1, in seconds (PriorityMaxAge)."""
    favor_small: bool = False
    """True if the size factor favors small jobs instead of large ones (PriorityFavorSmall)."""
    billing_weights: dict[str, float] = {}
    """TRES -> price, for fairshare and the billing TRES (TRESBillingWeights). If empty, a CPU costs 1."""

    backfill: str = "easy"
    """"none" (strict order), "easy" (the first `reservations` blocked jobs are protected) or "conservative"
    (all of them).
    """
    queue_order: str = "response"
    """Order of jobs with equal priority: "submission", or "response" (highest response ratio first; see
    `policy.priority.queue_order`).
    """
    overdue_share: float = 0.5
    """A share of the longest recent wait, for "response". No job may overtake a job with an expected
    wait of this share or more.

    Half is a compromise. A larger share leaves too little time to keep the longest wait from growing. A
    smaller share makes nearly all jobs overdue, so that nothing is left to order.
    """
    overdue_reservations: int = 2
    """Maximum number of reservations for starved jobs, for "response" (see `policy.priority.queue_order`)."""
    wait_bound_s: float | None = None
    """A job that has waited longer goes before all others and gets a reservation (see
    `policy.priority.wait_guard`). None means no bound.
    """
    keep_reserved: bool = False
    """True if a job with a reserved start from an earlier pass keeps it, although another order is in force
    now (see `policy.priority.wait_guard`).
    """
    reservation_holds: str = "nodes"
    """"nodes" reserves particular nodes. "start" only guarantees that the job can start by the reserved time
    on any nodes, as in textbook EASY with one reservation.
    """
    reservations: int = 1
    """With "easy": number of blocked jobs that get a reservation that no other job may delay."""
    backfill_order: str = "shortest"
    """Order of backfill: "priority", or "shortest" first (by predicted run time, else by time limit)."""
    default_time_s: int | None = None
    """Time limit with which jobs without a limit are planned. None plans them as endless."""
    default_mem_per_cpu_bytes: int = 0
    """Memory per CPU for a job that requests no memory. With 0, the memory of these jobs is not counted."""
    default_partition: str = ""
    max_starts: int = 1000
    """Maximum number of starts in one pass; the next pass continues. It bounds the pass and the transaction
    that follows it.
    """
    max_backfill_tests: int = 10_000
    """Maximum number of placements that backfill tries in one pass. Jobs with equal requests count as one."""
    max_forecasts: int = 64
    """Number of blocked jobs for which a pass computes an expected start. Forecasts for jobs further back
    would be of little value.
    """

    preempt_by: str = "qos"
    """"off", "qos" (each QoS lists the QoS that it preempts) or "partition" (by priority_tier)."""
    preempt_mode: str = "requeue"
    """Preemption mode if neither the victim's QoS nor its partition sets one: requeue, suspend or cancel."""
    suspend_keeps_gpus: bool = True
    """True if a suspended job keeps its GPUs, because its GPU memory cannot be taken away. False gives them
    to the preempting job.
    """
    preempt_exempt_s: int = 0
    grace_s: int = 30
    reclaim: bool = True
    """True if jobs within their account's quota may preempt jobs of accounts that exceed theirs."""
    kill_invalid_dependency: bool = True
    """True if a job ends when its dependency can never be satisfied. Otherwise it stays pending with
    DependencyNeverSatisfied.
    """
    enforce_limits: bool = True

    def most_protected(self) -> int:
        """Return how many blocked jobs of a pool get a reservation."""
        if self.backfill == "conservative":
            return MAX_PROTECTED
        return 1 if self.backfill == "none" else self.reservations
