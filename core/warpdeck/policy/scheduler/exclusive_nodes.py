"""TRES of jobs that get whole nodes, before their nodes are known.

Slurm charges a job with --exclusive for all of its nodes. The nodes are known only when the job starts, and
are then counted exactly. Until then the job counts the smallest nodes that it may get, which is never too
much.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpdeck.policy.input.site import PartitionView, Tres
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.reservations.resource_pool import ResourcePool
from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Cluster
from warpdeck.policy.resources.tres import MIB, billing


class WholeNodes:
    """TRES of jobs with whole nodes in one pass. Jobs with equal requests share the result."""

    def __init__(self, pool: ResourcePool, weights: Mapping[str, float]) -> None:
        self._pool = pool
        self._weights = weights
        self._known: dict[tuple[object, ...], Tres] = {}

    def tres(self, job: PendingJob, requested: Tres, partitions: Sequence[PartitionView | None]) -> Tres:
        """Return the least TRES that the job counts in any of the partitions."""
        if not (job.resources.exclusive or any(part is not None and part.exclusive for part in partitions)):
            return requested
        key = (id(job.resources), job.partition, job.licenses)
        found = self._known.get(key)
        if found is None:
            request_classes = [self._pool.request_class(job, partition) for partition in partitions]
            each = [
                _minimum_tres(request_class, self._pool.cluster, requested, self._weights)
                for request_class in request_classes
            ]
            found = {name: min(one.get(name, 0) for one in each) for name in each[0]}
            self._known[key] = found
        return found


def _minimum_tres(
    request_class: RequestClass, cluster: Cluster, requested: Tres, weights: Mapping[str, float]
) -> Tres:
    """Return the least TRES that the job holds wherever it runs.

    For a job that shares its nodes or fits nowhere, this is `requested`.
    """
    if not request_class.gangs:
        return requested
    gang = request_class.gangs[0]
    largest, smallest = gang.requirements[0][0], gang.requirements[-1][0]
    if not largest.exclusive:
        return requested
    whole = cluster.capacity[:, request_class.usable() & cluster.takes_jobs]
    whole = whole[:, (whole[CPUS] >= smallest.cpus) & (whole[GPUS] >= smallest.gpus)]
    if whole.shape[1] < gang.nodes:
        return requested
    whole.sort(axis=1)
    least = whole[:, : gang.nodes].sum(axis=1)
    found = dict(requested)
    found["cpu"] = max(requested["cpu"], int(least[CPUS]))
    found["gres/gpu"] = max(requested["gres/gpu"], int(least[GPUS]))
    if largest.all_memory:
        found["mem"] = max(requested["mem"], int(least[MEM]) // MIB)
    if request_class.requested.gpus.type and not cluster.type_columns:
        found[f"gres/gpu:{request_class.requested.gpus.type.lower()}"] = found["gres/gpu"]
    found["billing"] = billing(found, weights)
    return found
