"""The knobs of the policy, fixed for a pass. Names follow slurm.conf where it has them. Pure data."""

from __future__ import annotations

import msgspec

MOST_PROTECTED = 1000
"""Reservations of waiting jobs in one pass, over all kinds of nodes; bounds its time."""


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """Multifactor priority: each factor is in [0, 1] and counts this much (PriorityWeight*)."""

    age: int = 0
    fairshare: int = 0
    job_size: int = 0
    partition: int = 0
    qos: int = 0
    tres: dict[str, float] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How to plan."""

    weights: Weights = Weights()
    max_age_s: float = 7 * 86_400.0
    """Age counts fully after this (PriorityMaxAge)."""
    favor_small: bool = False
    """The size factor favours small jobs instead of large ones (PriorityFavorSmall)."""
    billing_weights: dict[str, float] = {}
    """TRES -> its price, for fairshare and the billing TRES (TRESBillingWeights). Empty: a CPU costs 1."""

    backfill: str = "easy"
    """none (strict order), easy (the first `reservations` blocked jobs are protected), conservative (all of them)."""
    queue_order: str = "response"
    """Among jobs of equal priority: submission, or response (who waits longest for what the job is worth; turns.py)."""
    overdue_share: float = 0.5
    """With response: nobody passes a job any more when its wait is going to come to so much of the longest wait lately.
    Half: later there is too little time left to keep the longest wait from growing; earlier nothing is left to order."""
    overdue_reservations: int = 2
    """With response: so many have a reservation while so many have waited that long, and as long as they will run."""
    reservation_holds: str = "nodes"
    """nodes, or start: only that the job can start by then on any nodes, as in textbook EASY with one reservation."""
    reservations: int = 1
    """With easy: how many blocked jobs get a reservation that nothing may delay."""
    backfill_order: str = "shortest"
    """Behind the reservations: priority, or shortest (by predicted run time, else limit) first."""
    default_time_s: int | None = None
    """Given to jobs without a limit when they are planned; None: they count as endless."""
    default_mem_per_cpu_bytes: int = 0
    """Memory given to a job that asks for none; 0: memory is not counted for it."""
    default_partition: str = ""
    max_starts: int = 1000
    """Starts in one pass; the next pass goes on. Bounds the pass and the transaction that follows."""
    max_backfill_tests: int = 10_000
    """Placements tried behind the reservations in one pass; jobs of an equal request cost one."""
    max_forecasts: int = 64
    """Blocked jobs for which a pass works out the expected start; further back it would say little."""

    preempt_by: str = "qos"
    """off, qos (QoS name what they preempt), or partition (by priority_tier)."""
    preempt_mode: str = "requeue"
    """What is done to a victim where neither its QoS nor its partition says: requeue, suspend or cancel."""
    suspend_keeps_gpus: bool = True
    """A suspended job keeps its GPUs (its memory there cannot be taken away); False: they are given to the preemptor."""
    preempt_exempt_s: int = 0
    grace_s: int = 30
    reclaim: bool = True
    """Jobs within their account's quota may preempt jobs of accounts that run beyond theirs."""
    kill_invalid_dependency: bool = True
    """A job whose dependency can never hold ends; else it waits as DependencyNeverSatisfied."""
    enforce_limits: bool = True

    def most_protected(self) -> int:
        """How many blocked jobs of a pool have a place kept."""
        if self.backfill == "conservative":
            return MOST_PROTECTED
        return 1 if self.backfill == "none" else self.reservations
