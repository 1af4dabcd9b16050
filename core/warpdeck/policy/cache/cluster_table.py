"""The nodes and what runs on them, as arrays that follow the view: only rows of which something changed are made anew. Pure.

A pass works on copies. What depends on the time (a job that should have ended, one without a limit, a GPU that is shared) is
worked out for each pass, on the rows that have such.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import numpy as np

from warpdeck.model import Resources
from warpdeck.policy.input.settings import Settings
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import NodeView, PendingJob, RunningJob, View
from warpdeck.policy.placement.block_reason import Obstacle
from warpdeck.policy.placement.request_shape import Shape
from warpdeck.policy.resources.cluster import Cluster, Floats, Ints
from warpdeck.policy.resources.demand import ANYBODY
from warpdeck.policy.resources.gpus import GpuBoard, Held, are_unsteady
from warpdeck.policy.resources.row_diff import NEW, came_from
from warpdeck.policy.resources.timeline import ENDLESS_S, OVERDUE_S, Hold, Timeline, ends_of
from warpdeck.policy.resources.user_exclusivity import Running, Tenants

NO_PARTS: Ints = np.zeros((4, 0), dtype=np.int64)
MAX_SHAPES = 20_000
"""Kinds of request remembered from pass to pass; a site has some hundred."""


class Ground:
    """Follows the nodes and the running jobs of views. One belongs to one memory, or to one pass."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.nodes: tuple[NodeView, ...] = ()
        self.running: Sequence[RunningJob] = ()
        self.cluster = Cluster(())
        self.ends_unix: Floats = np.zeros(0)
        """By running job when it is likely to end; infinite without a limit."""
        self.parts: Ints = NO_PARTS
        """What running jobs hold: (place of the job, row of the node, CPUs, GPUs) for each of their nodes."""
        self._tables: tuple[PartitionView, ...] = ()
        self._held: dict[int, list[Held]] = {}
        self._base = Timeline(self.cluster, -np.inf)
        self._unsteady: set[int] = set()
        """Rows that are laid out anew for each pass."""
        self._shapes: dict[tuple[int, str, str | None], tuple[Resources, Shape]] = {}
        """By the identity of the request, which is kept with the shape: else another could take its place."""
        self._by_value: dict[tuple[Resources, str, str | None], Shape] = {}
        self._owned: dict[int, list[Shape]] = {}
        """By the number of the shape that is whosever it is."""
        self._misfits: dict[tuple[int, float], Obstacle] = {}
        self._least: list[tuple[int, int, int, int]] = []
        self._least_rows: Ints = np.zeros((0, 4), dtype=np.int64)
        self._owners: frozenset[str] | None = None
        """The users to whom it matters whose jobs are on their nodes; None where it can matter to nobody."""
        self._apart = 0
        """How many of the running jobs want no other user's on their nodes."""
        self._tenants: tuple[Sequence[RunningJob], tuple[PartitionView, ...], Running] | None = None
        """Who runs where, and what that was made from."""
        self.shapes_begun = 0
        """How often shapes were forgotten, and numbered anew."""

    def follow(self, view: View) -> None:
        """This is what there is now."""
        rows = self._follow_nodes(view.nodes)
        if rows is None:
            self._begin(view)
        elif rows or view.running is not self.running:
            self._lay(rows | self._follow_running(view.running))
        if view.partitions != self._tables or len(self._shapes) > MAX_SHAPES:
            self._forget_shapes()
        self._tables = view.partitions

    @property
    def owners(self) -> frozenset[str] | None:
        """The users to whom it matters whose jobs are on their nodes; None where it can matter to nobody."""
        return self._owners

    def set_owners(self, owners: frozenset[str] | None) -> None:
        """Requests of theirs are kinds of their own."""
        if owners != self._owners:
            self._owners = owners
            self._forget_shapes()

    def tenant_of(self, job: PendingJob) -> str | None:
        """As whom the job meets others on its nodes; None where that does not matter."""
        if self._owners is None:
            return None
        return job.owner if job.owner in self._owners else ANYBODY

    @property
    def users_apart(self) -> bool:
        """Whether a running job wants no other user's on its nodes."""
        return self._apart > 0

    def timeline(self, now: float, board: GpuBoard) -> Timeline:
        """What is free from now on, of which the caller may take; `board` is of the same moment."""
        made = self._base.copy_at(now)
        rows = sorted(self._unsteady.union(made.overdue_rows()))
        if rows:
            made.lay(np.array(rows), [*self._holds(rows, now), *board.shared_holds()])
        made.shared = board.shared
        if self._owners is not None:
            made.tenants = Tenants(
                self.who_runs(), len(self.cluster), now, endless_s=ENDLESS_S, overdue_s=OVERDUE_S
            )
        return made

    def who_runs(self) -> Running:
        """Whose jobs are where."""
        kept = self._tenants
        if kept is None or kept[0] is not self.running or kept[1] is not self._tables:
            made = Running(self.running, self.parts, {part.name: part for part in self._tables})
            kept = self._tenants = self.running, self._tables, made
        return kept[2]

    def board(self, now: float) -> GpuBoard:
        """Who holds which GPU."""
        return GpuBoard(self.cluster, self._held, now, rows=self._unsteady)

    def jobs_on(self, rows: Iterable[int]) -> list[RunningJob]:
        """The jobs that hold something of these rows, by id."""
        found = {held.job.id: held.job for row in rows for held in self._held.get(row, ())}
        return [found[number] for number in sorted(found)]

    def shape(self, job: PendingJob, partition: PartitionView | None) -> Shape:
        """The kind of the job's request; equal requests get the same one, of one user where it matters whose they are."""
        asked, name = job.resources, "" if partition is None else partition.name
        user = None if self._owners is None else self._tenant_in(job, partition)
        known = self._shapes.get((id(asked), name, user))
        if known is not None:
            return known[1]
        found = self._by_value.get((asked, name, user))
        if found is None:
            found = self._new_shape(asked, partition, user)
        self._shapes[id(asked), name, user] = asked, found
        return found

    def _new_shape(self, asked: Resources, partition: PartitionView | None, user: str | None) -> Shape:
        name, number = "" if partition is None else partition.name, len(self._by_value)
        if user is not None:
            of_all = self._by_value.get((asked, name, None)) or self._new_shape(asked, partition, None)
            number = len(self._by_value)
            made = of_all.of_user(user, number)
            self._owned.setdefault(of_all.number, []).append(made)
            self._least.append(self._least[of_all.number])
        else:
            default = self.settings.default_mem_per_cpu_bytes
            made = Shape(self.cluster, asked, partition, default_mem_per_cpu_bytes=default, number=number)
            self._least.append(made.least())
        self._by_value[asked, name, user] = made
        return made

    def owned(self, of_all: Shape) -> Sequence[Shape]:
        """The same request of each of those to whom it matters on whose nodes they are."""
        return self._owned.get(of_all.number, ())

    def _tenant_in(self, job: PendingJob, partition: PartitionView | None) -> str | None:
        """One that is tried as another than it is may want it of whom nobody else does."""
        apart = job.resources.share_with == "user" or (partition is not None and partition.exclusive_user)
        return job.owner if apart else self.tenant_of(job)

    def misfit(self, shape: Shape, duration_s: float, reservation: str) -> Obstacle:
        """What those meet for whom there is no room for so long."""
        key = (id(shape), duration_s)
        found = self._misfits.get(key)
        if found is None:
            found = Obstacle("Resources", shape=shape, duration_s=duration_s, reservation=reservation)
            self._misfits[key] = found
        return found

    def least(self) -> Ints:
        """By shape number what it asks for at the least: Shape.least."""
        known = len(self._least_rows)
        if known != len(self._least):
            more = np.array(self._least[known:], dtype=np.int64)
            self._least_rows = np.concatenate((self._least_rows, more))
        return self._least_rows

    def _forget_shapes(self) -> None:
        self._shapes, self._by_value, self._misfits, self._owned = {}, {}, {}, {}
        self._least, self._least_rows = [], np.zeros((0, 4), dtype=np.int64)
        self.shapes_begun += 1

    def _begin(self, view: View) -> None:
        self.nodes, self.cluster = view.nodes, Cluster(view.nodes)
        self._held, self._unsteady = {}, set()
        self._forget_shapes()
        self._base = Timeline(self.cluster, -np.inf)
        self.running, self.ends_unix, self.parts, self._apart = (), np.zeros(0), NO_PARTS, 0
        self._lay(self._follow_running(view.running))

    def _follow_nodes(self, nodes: tuple[NodeView, ...]) -> set[int] | None:
        """The rows that are other than they were; None if the cluster is another."""
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
        """The rows on which others run now."""
        if running is self.running:
            return set()
        before = came_from(self.running, running, _id)
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
        self._apart -= job.users_apart
        for share in job.allocation.shares:
            row = self.cluster.row.get(share.node)
            if row is not None:
                self._held[row] = [held for held in self._held[row] if held.job is not job]
                yield row

    def _note(self, places: Iterable[int], running: Sequence[RunningJob]) -> list[tuple[int, int, int, int]]:
        """Notes what the jobs at these places hold: the `parts` of them."""
        parts = []
        row_of, held_by = self.cluster.row.get, self._held
        for at in places:
            job = running[at]
            self._apart += job.users_apart
            for share in job.allocation.shares:
                row = row_of(share.node)
                if row is not None:
                    held_by.setdefault(row, []).append(Held(job, share))
                    parts.append((at, row, share.cpus, len(share.gpus)))
        return parts

    def _lay(self, rows: set[int]) -> None:
        """Lays out in the base what is held of these rows."""
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
