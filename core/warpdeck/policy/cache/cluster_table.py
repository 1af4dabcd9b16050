"""Nodes and running jobs as arrays with one row per node, updated from view to view.

Only rows that changed are rebuilt. A pass works on copies. Rows with a job past its end, a job without a
limit, or a shared GPU depend on the current time, so they are computed again for each pass.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import numpy as np

from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import NodeView, PlannerView, RunningJob
from warpdeck.policy.resources.cluster import Cluster, Floats, Ints, rows_of
from warpdeck.policy.resources.gpus import GpuTable, Held, are_unsteady
from warpdeck.policy.resources.row_diff import NEW, old_positions
from warpdeck.policy.resources.timeline import ENDLESS_S, OVERRUN_S, Hold, Timeline, ends_of
from warpdeck.policy.resources.user_exclusivity import RunningUsers, UsersOnNodes

from .request_classes import RequestClassTable

NO_PARTS: Ints = np.zeros((4, 0), dtype=np.int64)


class ClusterTable:
    """The nodes and running jobs of the current view as arrays. An instance belongs to one `PassCache` or to
    one pass.
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self.settings = settings
        self.nodes: tuple[NodeView, ...] = ()
        self.running: Sequence[RunningJob] = ()
        self.cluster = Cluster(())
        self.classes = RequestClassTable(
            self.cluster, default_mem_per_cpu_bytes=settings.default_mem_per_cpu_bytes
        )
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
        self._excluding_jobs = 0
        """Number of running jobs that are exclusive to their user."""
        self._suspended_jobs = 0
        self._running_users: tuple[Sequence[RunningJob], tuple[PartitionView, ...], RunningUsers] | None = (
            None
        )
        """The users on each node, together with the objects from which they were computed."""

    def follow(self, view: PlannerView) -> None:
        """Update the table to a new view."""
        rows = self._follow_nodes(view.nodes)
        if rows is None:
            self._begin(view)
        elif rows or view.running is not self.running:
            self._lay(rows | self._follow_running(view.running))
        if view.partitions != self._tables or self.classes.is_overgrown:
            self.classes.discard()
        self._tables = view.partitions

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
        if self.classes.owners is not None:
            made.users_on_nodes = UsersOnNodes(
                self.running_users(), len(self.cluster), now, endless_s=ENDLESS_S, overrun_s=OVERRUN_S
            )
        return made

    @property
    def free_now(self) -> Ints | None:
        """The resources that are free now, by column and row, which the caller must not modify.

        None if they depend on the time, because a running job has no limit or shares a GPU.
        """
        return None if self._unsteady else self._base.free_now

    @property
    def has_suspended(self) -> bool:
        """True if a running job is suspended."""
        return self._suspended_jobs > 0

    def running_users(self) -> RunningUsers:
        """Return the users with running jobs on each node."""
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

    def _begin(self, view: PlannerView) -> None:
        self.nodes, self.cluster = view.nodes, Cluster(view.nodes)
        self._held, self._unsteady = {}, set()
        self.classes.set_cluster(self.cluster)
        self._base = Timeline(self.cluster, -np.inf)
        self.running, self.ends_unix, self.parts = (), np.zeros(0), NO_PARTS
        self._excluding_jobs = self._suspended_jobs = 0
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
        new = rows_of(before == NEW).tolist()
        changed = {row for at in rows_of(gone).tolist() for row in self._forget(self.running[at])}
        parts = self._record_holdings(new, running)
        changed.update(part[1] for part in parts)
        after: Ints = np.full(len(self.running), NEW, dtype=np.int64)
        after[before[before != NEW]] = rows_of(before != NEW)
        kept = self.parts[:, after[self.parts[0]] != NEW]
        kept[0] = after[kept[0]]
        self.parts = np.concatenate((kept, np.array(parts, dtype=np.int64).reshape(-1, 4).T), axis=1)
        ends = self.ends_unix[before] if len(self.ends_unix) else np.zeros(len(running))
        ends[new] = [_expected_end(running[at]) for at in new]
        self.running, self.ends_unix = running, ends
        return changed

    def _forget(self, job: RunningJob) -> Iterator[int]:
        self._excluding_jobs -= job.excludes_users
        self._suspended_jobs -= job.suspended
        for share in job.allocation.shares:
            row = self.cluster.row.get(share.node)
            if row is not None:
                self._held[row] = [held for held in self._held[row] if held.job is not job]
                yield row

    def _record_holdings(
        self, positions: Iterable[int], running: Sequence[RunningJob]
    ) -> list[tuple[int, int, int, int]]:
        """Record the resources that the jobs at these positions hold, and return the rows to add to `parts`."""
        parts = []
        row_of, held_by = self.cluster.row.get, self._held
        for at in positions:
            job = running[at]
            self._excluding_jobs += job.excludes_users
            self._suspended_jobs += job.suspended
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
            held_here = self._held.get(row, [])
            if len(held_here) > 1:
                held_here.sort(key=_BY_JOB)
            if are_unsteady(held_here):
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


def _expected_end(job: RunningJob) -> float:
    ends = job.ends_by_unix if job.expects_end_unix is None else job.expects_end_unix
    return np.inf if ends is None else ends
