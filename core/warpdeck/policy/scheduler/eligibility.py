"""Conditions for starting a job: the TRES that it counts, its partitions and time limit, and the rules that
may forbid it.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import msgspec

from warpdeck.policy.cache.pass_cache import PassCache
from warpdeck.policy.input.site import PartitionView, ReservationView, Tres
from warpdeck.policy.input.view import PendingJob, PlannerView
from warpdeck.policy.limits.access import partition_names, partition_refusal, time_limit
from warpdeck.policy.limits.limits import LimitUsage
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.resources.tres import requested_per_node

from .exclusive_nodes import WholeNodes


class Eligibility:
    """The conditions for starting jobs in one pass. `limit_usage` counts the resources that the pass takes."""

    def __init__(
        self,
        cache: PassCache,
        view: PlannerView,
        now: float,
        *,
        limit_usage: LimitUsage,
        whole_nodes: WholeNodes,
    ) -> None:
        self._now = now
        self._settings = cache.settings
        self._queue = cache.queue
        self._limit_usage = limit_usage
        self._partitions = {part.name: part for part in view.partitions}
        self._reservations = {each.name: each for each in view.reservations}
        self._magnets = [each for each in view.reservations if each.magnetic and now < each.end_unix]
        self._requested_per_node: dict[int, Tres] = {}
        self._whole_nodes = whole_nodes

    def tres(self, job: PendingJob) -> Tres:
        """Return the TRES that the job counts against limits, as a lower bound."""
        requested = self._queue.tres(job)
        if not self._limit_usage.limits_anything:
            return requested
        return self._whole_nodes.tres(job, requested, self.partitions(job))

    def _per_node(self, job: PendingJob) -> Tres:
        """Return the most that the job requests of one node; {} if there is no limit per node."""
        if not self._limit_usage.limits_nodes:
            return {}
        found = self._requested_per_node.get(id(job.resources))
        if found is None:
            default = self._settings.default_mem_per_cpu_bytes
            found = requested_per_node(job.resources, default_mem_per_cpu=default)
            self._requested_per_node[id(job.resources)] = found
        return found

    def partitions(self, job: PendingJob) -> list[PartitionView | None]:
        """Return the partitions in which the job may run, higher tiers first, then in the order of the
        request.

        As in Slurm, higher tiers go first, because in a lower tier the job could be preempted at once. [None]
        if the site has no partitions.
        """
        return self.partitions_named(job.partition)

    def partitions_named(self, text: str) -> list[PartitionView | None]:
        """Return the partitions that --partition=TEXT names. A partition removed from the configuration is
        inactive; it never means all nodes.
        """
        if not self._partitions:
            return [None]
        names = partition_names(text, self._settings)
        known = [self._partitions[name] for name in names if name in self._partitions]
        known.sort(key=lambda each: -each.priority_tier)
        return [*known] or [PartitionView(name=name, state="INACTIVE") for name in names or ("(none)",)]

    def limit_s(self, job: PendingJob, partition: PartitionView | None) -> int | None:
        """Return the job's time limit or the default."""
        return time_limit(job, partition, self._settings, self._now)

    def blocking_rule(
        self, job: PendingJob, partition: PartitionView | None, limit_s: float | None
    ) -> BlockReason | None:
        """Return the rule that forbids the job to start in this partition now, whatever is free. None if
        there is no such rule.
        """
        closed = self.partition_rule(job, partition, limit_s)
        if closed is not None:
            return closed
        if job.reservation:
            refusal = self._reservation_refusal(job, self._reservations.get(job.reservation))
            if refusal is not None:
                return BlockReason(*refusal)
        return self.blocking_limit(job, limit_s)

    @property
    def has_magnetic(self) -> bool:
        """True if there are magnetic reservations. These also admit jobs that name no reservation."""
        return bool(self._magnets)

    def magnetic_variants(self, job: PendingJob) -> list[PendingJob]:
        """Return copies of the job, one for each magnetic reservation that admits it, earliest start
        first.
        """
        if job.reservation or not self._magnets:
            return []
        own = [each for each in self._magnets if each.admits(job.user, job.account)]
        own.sort(key=lambda each: (each.start_unix, each.name))
        return [msgspec.structs.replace(job, reservation=each.name) for each in own]

    def blocking_limit(self, job: PendingJob, limit_s: float | None) -> BlockReason | None:
        """Return the limit that the job would exceed, or None."""
        over = self._limit_usage.check(job, self.tres(job), limit_s, per_node=self._per_node(job))
        return None if over is None else BlockReason(over.code, over.sentence)

    def partition_rule(
        self, job: PendingJob, partition: PartitionView | None, limit_s: float | None
    ) -> BlockReason | None:
        """Return the rule of the partition that forbids the job, or None."""
        if partition is None:
            return None
        any_time = self._limit_usage.lifts_partition(job.qos)
        refusal = partition_refusal(job, partition, limit_s, any_time=any_time)
        return None if refusal is None else BlockReason(*refusal)

    def _reservation_refusal(
        self, job: PendingJob, requested: ReservationView | None
    ) -> tuple[str, str] | None:
        if requested is None or requested.end_unix <= self._now:
            return "ReservationDeleted", f"reservation {job.reservation} has ended or was deleted"
        if not requested.admits(job.user, job.account):
            return "Reservation", f"reservation {job.reservation} is not for {job.user}"
        if job.resources.gpus.share_pct is not None and any(part.gpus for part in requested.parts):
            return (
                "Reservation",
                f"reservation {job.reservation} contains whole GPUs; request whole GPUs, not a part of one",
            )
        return None
