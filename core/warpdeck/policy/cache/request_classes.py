"""The request classes of the waiting jobs, kept from pass to pass.

Jobs with equal requests in the same partition share one request class. The module is pure: it reads no clock
and does no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpdeck.model import Resources
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import PendingJob
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.resources.cluster import Cluster, Ints
from warpdeck.policy.resources.demand import ANYBODY

MAX_REQUEST_CLASSES = 20_000
"""Maximum number of request classes kept from pass to pass. A typical site has a few hundred."""


class RequestClassTable:
    """The request classes on the nodes of one cluster."""

    def __init__(self, cluster: Cluster, *, default_mem_per_cpu_bytes: int) -> None:
        self._cluster = cluster
        self._default_mem_per_cpu_bytes = default_mem_per_cpu_bytes
        self._by_request: dict[tuple[int, str, str | None], tuple[Resources, RequestClass]] = {}
        """Request classes by the identity of the request. The entry holds the request too, because the id of
        a deleted object can be reused.
        """
        self._by_value: dict[tuple[Resources, str, str | None], RequestClass] = {}
        self._per_user: dict[int, list[RequestClass]] = {}
        """User-specific request classes, by the number of the request class that applies to all users."""
        self._unplaceable: dict[tuple[int, float], BlockReason] = {}
        self._lower_bounds: list[tuple[int, int, int, int]] = []
        self._lower_bound_rows: Ints = np.zeros((0, 4), dtype=np.int64)
        self._owners: frozenset[str] | None = None
        self.generation = 0
        """Number of times that all request classes were discarded and numbered again."""

    @property
    def owners(self) -> frozenset[str] | None:
        """Users with exclusive requests or jobs (--exclusive=user); None if no job or partition is exclusive."""
        return self._owners

    @property
    def is_overgrown(self) -> bool:
        """True if there are too many request classes to keep them."""
        return len(self._by_request) > MAX_REQUEST_CLASSES

    def set_owners(self, owners: frozenset[str] | None) -> None:
        """Set the users that get request classes of their own. A change discards all request classes."""
        if owners != self._owners:
            self._owners = owners
            self.discard()

    def set_cluster(self, cluster: Cluster) -> None:
        """Continue with other nodes. This discards all request classes."""
        self._cluster = cluster
        self.discard()

    def discard(self) -> None:
        """Discard all request classes."""
        self._by_request, self._by_value, self._unplaceable, self._per_user = {}, {}, {}, {}
        self._lower_bounds, self._lower_bound_rows = [], np.zeros((0, 4), dtype=np.int64)
        self.generation += 1

    def exclusivity_key(self, job: PendingJob) -> str | None:
        """Return the name that represents the job's user in comparisons with other users.

        None if no job or partition is exclusive to one user.
        """
        if self._owners is None:
            return None
        return job.owner if job.owner in self._owners else ANYBODY

    def of(self, job: PendingJob, partition: PartitionView | None) -> RequestClass:
        """Return the request class of a job.

        Equal requests get the same request class. If it matters which users share a node, equal requests of
        different users get different request classes.
        """
        resources, name = job.resources, "" if partition is None else partition.name
        user = None if self._owners is None else self._exclusivity_key_in(job, partition)
        known = self._by_request.get((id(resources), name, user))
        if known is not None:
            return known[1]
        found = self._by_value.get((resources, name, user))
        if found is None:
            found = self._new(resources, partition, user)
        self._by_request[id(resources), name, user] = resources, found
        return found

    def _new(self, resources: Resources, partition: PartitionView | None, user: str | None) -> RequestClass:
        name, number = "" if partition is None else partition.name, len(self._by_value)
        if user is not None:
            base = self._by_value.get((resources, name, None)) or self._new(resources, partition, None)
            number = len(self._by_value)
            made = base.of_user(user, number)
            self._per_user.setdefault(base.number, []).append(made)
            self._lower_bounds.append(self._lower_bounds[base.number])
        else:
            default = self._default_mem_per_cpu_bytes
            made = RequestClass(
                self._cluster, resources, partition, default_mem_per_cpu_bytes=default, number=number
            )
            self._lower_bounds.append(made.lower_bound())
        self._by_value[resources, name, user] = made
        return made

    def per_user(self, base: RequestClass) -> Sequence[RequestClass]:
        """Return the user-specific variants of this request class."""
        return self._per_user.get(base.number, ())

    def _exclusivity_key_in(self, job: PendingJob, partition: PartitionView | None) -> str | None:
        """Return the user name for the job's request class in this partition, or None.

        A job with trial changes may ask for exclusive nodes even if no real job does.
        """
        is_exclusive = job.resources.share_with == "user" or (
            partition is not None and partition.exclusive_user
        )
        return job.owner if is_exclusive else self.exclusivity_key(job)

    def unplaceable(self, request_class: RequestClass, duration_s: float, reservation: str) -> BlockReason:
        """Return the block reason for jobs of this request class that fit nowhere for this duration."""
        key = (id(request_class), duration_s)
        found = self._unplaceable.get(key)
        if found is None:
            found = BlockReason(
                "Resources", request_class=request_class, duration_s=duration_s, reservation=reservation
            )
            self._unplaceable[key] = found
        return found

    def lower_bounds(self) -> Ints:
        """Return `RequestClass.lower_bound` of each request class, indexed by request class number."""
        known = len(self._lower_bound_rows)
        if known != len(self._lower_bounds):
            more = np.array(self._lower_bounds[known:], dtype=np.int64)
            self._lower_bound_rows = np.concatenate((self._lower_bound_rows, more))
        return self._lower_bound_rows
