"""Nodes and running jobs as arrays with one row per node, updated from view to view.

Only rows that changed are rebuilt. A pass works on copies. Rows with a job past its end, a job without a
limit, or a shared GPU depend on the current time, so they are computed again for each pass.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import numpy as np

from warpdeck.model import Resources
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import NodeView, PendingJob, PlannerView, RunningJob
from warpdeck.policy.placement.block_reason import BlockReason
from warpdeck.policy.placement.request_class import RequestClass
from warpdeck.policy.resources.cluster import Cluster, Floats, Ints
from warpdeck.policy.resources.demand import ANYBODY
from warpdeck.policy.resources.gpus import GpuTable, Held, are_unsteady
from warpdeck.policy.resources.row_diff import NEW, old_positions
from warpdeck.policy.resources.timeline import ENDLESS_S, OVERRUN_S, Hold, Timeline, ends_of
from warpdeck.policy.resources.user_exclusivity import RunningUsers, UsersOnNodes

NO_PARTS: Ints = np.zeros((4, 0), dtype=np.int64)
MAX_REQUEST_CLASSES = 20_000
"""Maximum number of request classes kept from pass to pass. A typical site has a few hundred."""


class ClusterTable:
    """The nodes and running jobs of the current view as arrays. An instance belongs to one `PassCache` or to
    one pass.
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self.settings = settings
        self.nodes: tuple[NodeView, ...] = ()
        self.running: Sequence[RunningJob] = ()
        self.cluster = Cluster(())
        self.ends_unix: Floats = np.zeros(0)
        """For each running job, the Unix time at which it is expected to end; infinite without a limit."""
        self.parts: Ints = NO_PARTS
        """Resources held by running jobs: (position of the job, row of the node, CPUs, GPUs) for each of
        their nodes.
        """
        self._tables: tuple[PartitionView, ...] = ()
        self._held: dict[int, list[Held]] = {}
        self._base = Timeline(self.cluster, -np.inf)
        self._unsteady: set[int] = set()
        """Rows that are recomputed for each pass."""
        self._request_classes: dict[tuple[int, str, str | None], tuple[Resources, RequestClass]] = {}
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
        """Users with exclusive requests or jobs (--exclusive=user); None if no job or partition is exclusive."""
        self._excluding_jobs = 0
        """Number of running jobs that are exclusive to their user."""
        self._running_users: tuple[Sequence[RunningJob], tuple[PartitionView, ...], RunningUsers] | None = (
            None
        )
        """The users on each node, together with the objects from which they were computed."""
        self.generation = 0
        """How often all request classes were discarded and numbered anew."""

    def follow(self, view: PlannerView) -> None:
        """Update the table to a new view."""
        rows = self._follow_nodes(view.nodes)
        if rows is None:
            self._begin(view)
        elif rows or view.running is not self.running:
            self._lay(rows | self._follow_running(view.running))
        if view.partitions != self._tables or len(self._request_classes) > MAX_REQUEST_CLASSES:
            self._discard_request_classes()
        self._tables = view.partitions

    @property
    def owners(self) -> frozenset[str] | None:
        """Users with exclusive requests or jobs (--exclusive=user); None if no job or partition is exclusive."""
        return self._owners

    def set_owners(self, owners: frozenset[str] | None) -> None:
        """Set the users that get request classes of their own. A change discards all request classes."""
        if owners != self._owners:
            self._owners = owners
            self._discard_request_classes()

    def exclusivity_key(self, job: PendingJob) -> str | None:
        """Return the name that represents the job's user in comparisons with other users.

        None if no job or partition is exclusive to one user.
        """
        if self._owners is None:
            return None
        return job.owner if job.owner in self._owners else ANYBODY

    @property
    def excludes_users(self) -> bool:
        """True if a running job is exclusive to its user."""
        return self._excluding_jobs > 0

    def timeline(self, now: float, gpu_table: GpuTable) -> Timeline:
        """Return the free resources from `now` on, as a copy that the caller may modify. `gpu_table` must
        belong to the same time.
        """
        made = self._base.copy_at(now)
        rows = sorted(self._unsteady.union(made.overrun_rows()))
        if rows:
            made.lay(np.array(rows), [*self._holds(rows, now), *gpu_table.shared_holds()])
        made.shared = gpu_table.shared
        if self._owners is not None:
            made.users_on_nodes = UsersOnNodes(
                self.running_users(), len(self.cluster), now, endless_s=ENDLESS_S, overrun_s=OVERRUN_S
            )
        return made

    def running_users(self) -> RunningUsers:
        """Return the users whose jobs run on each node."""
        kept = self._running_users
        if kept is None or kept[0] is not self.running or kept[1] is not self._tables:
            made = RunningUsers(self.running, self.parts, {part.name: part for part in self._tables})
            kept = self._running_users = self.running, self._tables, made
        return kept[2]

    def gpu_table(self, now: float) -> GpuTable:
        """Return the GPU table for a pass at time `now`."""
        return GpuTable(self.cluster, self._held, now, rows=self._unsteady)

    def jobs_on(self, rows: Iterable[int]) -> list[RunningJob]:
        """Return the jobs that hold resources on these rows, sorted by id."""
        found = {held.job.id: held.job for row in rows for held in self._held.get(row, ())}
        return [found[number] for number in sorted(found)]

    def request_class(self, job: PendingJob, partition: PartitionView | None) -> RequestClass:
        """Return the request class of a job.

        Equal requests get the same request class. If it matters which users share a node, equal requests of
        different users get different request classes.
        """
        asked, name = job.resources, "" if partition is None else partition.name
        user = None if self._owners is None else self._exclusivity_key_in(job, partition)
        known = self._request_classes.get((id(asked), name, user))
        if known is not None:
            return known[1]
        found = self._by_value.get((asked, name, user))
        if found is None:
            found = self._new_request_class(asked, partition, user)
        self._request_classes[id(asked), name, user] = asked, found
        return found

    def _new_request_class(
        self, asked: Resources, partition: PartitionView | None, user: str | None
    ) -> RequestClass:
        name, number = "" if partition is None else partition.name, len(self._by_value)
        if user is not None:
            base = self._by_value.get((asked, name, None)) or self._new_request_class(asked, partition, None)
            number = len(self._by_value)
            made = base.of_user(user, number)
            self._per_user.setdefault(base.number, []).append(made)
            self._lower_bounds.append(self._lower_bounds[base.number])
        else:
            default = self.settings.default_mem_per_cpu_bytes
            made = RequestClass(
                self.cluster, asked, partition, default_mem_per_cpu_bytes=default, number=number
            )
            self._lower_bounds.append(made.lower_bound())
        self._by_value[asked, name, user] = made
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

    def _discard_request_classes(self) -> None:
        self._request_classes, self._by_value, self._unplaceable, self._per_user = {}, {}, {}, {}
        self._lower_bounds, self._lower_bound_rows = [], np.zeros((0, 4), dtype=np.int64)
        self.generation += 1

    def _begin(self, view: PlannerView) -> None:
        self.nodes, self.cluster = view.nodes, Cluster(view.nodes)
        self._held, self._unsteady = {}, set()
        self._discard_request_classes()
        self._base = Timeline(self.cluster, -np.inf)
        self.running, self.ends_unix, self.parts, self._excluding_jobs = (), np.zeros(0), NO_PARTS, 0
        self._lay(self._follow_running(view.running))

    def _follow_nodes(self, nodes: tuple[NodeView, ...]) -> set[int] | None:
        """Return the rows of the nodes that have changed, or None if there are other nodes than before."""
        if nodes is self.nodes:
            return set()
        if len(nodes) != len(self.nodes):
            return None
        pairs = zip(self.nodes, nodes, strict=True)
        rows = [row for row, (before, after) in enumerate(pairs) if before is not after]
        if not all(self.cluster.keeps_its_place(row, nodes[row]) for row in rows):
            return None
        self.cluster.renew(nodes, rows)
        self.nodes = nodes
        return set(rows)

    def _follow_running(self, running: Sequence[RunningJob]) -> set[int]:
        """Update the running jobs, and return the rows of the nodes on which the set of jobs has changed."""
        if running is self.running:
            return set()
        before = old_positions(self.running, running, _id)
        gone = np.ones(len(self.running), dtype=np.bool_)
        gone[before[before != NEW]] = False
        new = np.flatnonzero(before == NEW).tolist()
        changed = {row for at in np.flatnonzero(gone).tolist() for row in self._forget(self.running[at])}
        parts = self._note(new, running)
        changed.update(part[1] for part in parts)
        after: Ints = np.full(len(self.running), NEW, dtype=np.int64)
        after[before[before != NEW]] = np.flatnonzero(before != NEW)
        kept = self.parts[:, after[self.parts[0]] != NEW]
        kept[0] = after[kept[0]]
        self.parts = np.concatenate((kept, np.array(parts, dtype=np.int64).reshape(-1, 4).T), axis=1)
        ends = self.ends_unix[before] if len(self.ends_unix) else np.zeros(len(running))
        ends[new] = [_likely_end(running[at]) for at in new]
        self.running, self.ends_unix = running, ends
        return changed

    def _forget(self, job: RunningJob) -> Iterator[int]:
        self._excluding_jobs -= job.excludes_users
        for share in job.allocation.shares:
            row = self.cluster.row.get(share.node)
            if row is not None:
                self._held[row] = [held for held in self._held[row] if held.job is not job]
                yield row

    def _note(self, places: Iterable[int], running: Sequence[RunningJob]) -> list[tuple[int, int, int, int]]:
        """Record the resources that the jobs at these positions hold, and return the rows to add to `parts`."""
        parts = []
        row_of, held_by = self.cluster.row.get, self._held
        for at in places:
            job = running[at]
            self._excluding_jobs += job.excludes_users
            for share in job.allocation.shares:
                row = row_of(share.node)
                if row is not None:
                    held_by.setdefault(row, []).append(Held(job, share))
                    parts.append((at, row, share.cpus, len(share.gpus)))
        return parts

    def _lay(self, rows: set[int]) -> None:
        """Enter the resources held on these rows into the base timeline."""
        ordered = sorted(rows)
        for row in ordered:
            there = self._held.get(row, [])
            if len(there) > 1:
                there.sort(key=_BY_JOB)
            if are_unsteady(there):
                self._unsteady.add(row)
            else:
                self._unsteady.discard(row)
        steady = [row for row in ordered if row not in self._unsteady]
        self._base.lay(np.array(ordered, dtype=np.int64), self._holds(steady, 0.0))

    def _holds(self, rows: Iterable[int], now: float) -> list[Hold]:
        held_by, holds = self._held.get, self.cluster.holds
        return [(row, ends_of(job, now), holds(share)) for row in rows for job, share in held_by(row, ())]


_BY_JOB = attrgetter("job.id")


def _id(job: RunningJob) -> int:
    return job.id


def _likely_end(job: RunningJob) -> float:
    ends = job.ends_by_unix if job.expects_end_unix is None else job.expects_end_unix
    return np.inf if ends is None else ends
