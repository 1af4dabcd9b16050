"""Timeline: the free resources of every node from now on, one step function per node, all nodes in one array.

`times[row, k]` is the start of step k of a node. `free[column, row, k]` is the free amount from then until
step k + 1. Unused steps start at infinity. Running jobs free their resources at their time limits;
reservations and starts take resources for an interval. Every query of a pass ("does it fit from now until its
limit", "when does it first fit") takes a few array operations, and a start changes one row. A query costs
O(rows x steps) in time and memory.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from warpdeck.policy.input.view import RunningJob

from .cluster import CPUS, GPUS, MEM, Cluster, Floats, Ints, Mask, rows_of
from .demand import WHOLE_NODE, NodeRequirement, Owner
from .shared_gpus import SharedGpu
from .user_exclusivity import Occupancy, UsersOnNodes

ENDLESS_S = 10 * 365 * 86_400.0
"""Assumed duration of a job without a limit. A job that could start only after that has no expected start."""
OVERRUN_S = 1.0
"""Assumed remaining time of a job that should have ended already. For this time it holds its resources."""
MAX_CELLS = 4_000_000
"""Maximum of rows x steps. Beyond it, neighboring job ends on one node are merged into the last of them."""
MIN_STEPS = 16
SPARE_STEPS = 4
"""Extra steps of a row beyond those in use, for the intervals that a pass takes."""
MAX_START_TIMES = 64
"""Maximum number of start times that are tried for a gang with constraints, such as a single switch. If none
works, the gang has no expected start.
"""

Result = TypeVar("Result")
"""The result of the function `choose` that the caller passes to `earliest`."""
Hold = tuple[int, float, tuple[int, ...]]
"""(row, end time, amounts by column): the resources that a running job holds on one node."""


def ends_of(job: RunningJob, now: float) -> float:
    """Return the time at which a running job is certain to have freed its resources."""
    return now + ENDLESS_S if job.ends_by_unix is None else job.ends_by_unix


class Timeline:
    """Free resources of all nodes over time. `lay` enters running jobs; `take` adds reservations and
    starts.
    """

    def __init__(self, cluster: Cluster, now: float) -> None:
        """Create a timeline on which all resources are free forever."""
        self.cluster = cluster
        self.now = now
        rows = len(cluster)
        self._used: Ints = np.zeros(rows, dtype=np.int64)
        """Number of steps in use after the first."""
        self.times: Floats = np.full((rows, SPARE_STEPS), np.inf)
        self.times[:, 0] = now
        self.free: Ints = np.repeat(cluster.capacity[:, :, None], SPARE_STEPS, axis=2)
        self.free_now: Ints = cluster.capacity.copy()
        """The free amounts of the first step, stored contiguously, because most queries need only them."""
        self.shared: Mapping[int, Mapping[int, SharedGpu]] = {}
        """row -> GPU index -> GPU that is already shared. Its column of whole GPUs counts it as taken until
        its last sharer ends.
        """
        self.users_on_nodes: UsersOnNodes | None = None
        """The users on each node; None if no job or partition is exclusive to one user."""

    def copy_at(self, now: float) -> Timeline:
        """Return a copy that begins at another time and that the caller may modify. See `overrun_rows`."""
        made = Timeline.__new__(Timeline)
        made.cluster, made.now, made.shared, made.users_on_nodes = self.cluster, now, self.shared, None
        made._used, made.free_now = self._used.copy(), self.free_now.copy()
        made.times, made.free = self.times.copy(), self.free.copy()
        made.times[:, 0] = now
        return made

    def overrun_rows(self) -> list[int]:
        """Return the rows of a copy with steps before its start or beyond the planning horizon."""
        last = self.times[np.arange(len(self.times)), self._used]
        off = (self.times[:, 1] <= self.now) | (last > self.now + ENDLESS_S)
        found: list[int] = rows_of(off).tolist()
        return found

    @property
    def cells(self) -> int:
        """Rows x steps: the cost of one query of all nodes."""
        return len(self.cluster) * (int(self._used.max(initial=0)) + SPARE_STEPS)

    def lay(self, rows: Ints, holds: Sequence[Hold]) -> None:
        """Reset these rows (in ascending order) and enter everything that is held on them."""
        self.times[rows, 1:] = np.inf
        self.free[:, rows] = self.cluster.capacity[:, rows, None]
        self._used[rows] = 0
        if holds:
            self._hold(holds)
        self.free_now[:, rows] = self.free[:, rows, 0]

    def _hold(self, holds: Sequence[Hold]) -> None:
        rows = np.array([hold[0] for hold in holds], dtype=np.int64)
        ends = np.array([hold[1] for hold in holds])
        ends = np.where(ends <= self.now, self.now + OVERRUN_S, ends)
        amounts = np.array([hold[2] for hold in holds], dtype=np.int64).T
        order = np.lexsort((ends, rows))
        rows, ends, amounts = rows[order], ends[order], amounts[:, order]
        # Ends at the same time must share one step. Otherwise a step of length zero would show too little free.
        new_row = np.concatenate(([True], rows[1:] != rows[:-1]))
        at_unix: Ints = np.cumsum(new_row | np.concatenate(([True], ends[1:] != ends[:-1])), dtype=np.int64)
        before: Ints = at_unix[new_row][np.cumsum(new_row) - 1]
        position: Ints = np.add(at_unix - before, 1)
        held: Ints = rows[new_row]
        counts: Ints = np.zeros(len(self.cluster), dtype=np.int64)
        np.maximum.at(counts, rows, position)
        most = max(MIN_STEPS, MAX_CELLS // max(1, len(self.cluster)))
        if counts.max() + 1 > most:
            position = 1 + (position - 1) * (most - 1) // np.maximum(counts[rows], most - 1)
        self._widen_to(int(position.max()) + SPARE_STEPS)
        freed = np.zeros((self.cluster.columns, len(held), self.times.shape[1]), dtype=np.int64)
        local: Ints = np.cumsum(new_row) - 1
        for column in range(self.cluster.columns):
            np.add.at(freed[column], (local, position), amounts[column])
        freed[:, :, 0] = self.cluster.capacity[:, held] - freed.sum(axis=2)
        self.free[:, held] = np.cumsum(freed, axis=2)
        self.times[rows, position] = ends
        np.maximum.at(self._used, rows, position)

    def fitting_now(self, need: NodeRequirement, duration_s: float, mask: Mask) -> Ints:
        """Return the rows of the mask that meet the requirement from now on for the duration, in ascending
        order.
        """
        rows = self._fitting_at_once(need, mask)
        if not len(rows):
            return rows
        until = self.now + duration_s
        line_rows, fits = self._lines(need, rows)
        later = self.times[line_rows] < until
        later[:, 0] = True
        found = line_rows[~(~fits & later).any(axis=1)]
        if len(found) and need.gpu_share_pct < 100:
            return np.unique(found)
        return self._of_steady_types(need, found, until)

    def longest_now(self, requirements: Sequence[tuple[NodeRequirement, int]], mask: Mask) -> float:
        """Return for how many seconds rows of the mask can meet the gang's requirements from now on; 0 if
        they cannot.
        """
        longest, total = np.inf, 0
        for need, count in requirements:
            total += count
            line_rows, fits = self._lines(need, self._fitting_at_once(need, mask))
            broken = np.where(fits, np.inf, self.times[line_rows]).min(axis=1, initial=np.inf) - self.now
            windows: Floats = np.zeros(len(self.cluster))
            np.maximum.at(windows, line_rows, broken)
            if len(windows) < total:
                return 0.0
            longest = min(longest, float(np.sort(windows)[-total]))
        return longest

    def earliest(
        self,
        requirements: Sequence[tuple[NodeRequirement, int]],
        duration_s: float,
        mask: Mask,
        *,
        choose: Callable[[list[Ints], float], Result | None],
    ) -> tuple[float, Result] | None:
        """Return the earliest time at which the gang fits for its whole duration, and the result of `choose`
        for it.

        `choose` gets, for each requirement, the rows that meet it, and the time. `requirements` lists (need,
        number of nodes), larger requirements first; a node that meets a requirement also meets the following
        ones. None if the gang does not fit in the known future.
        """
        found = [self._windows(need, duration_s, mask) for need, _ in requirements]
        if any(not len(starts) for _, starts, _ in found):
            return None
        mixes = any(self._mixes_types(need) for need, _ in requirements)
        for at in self._start_times(found, [count for _, count in requirements], mixes=mixes):
            fitting = [np.unique(rows[(starts <= at) & (at <= last)]) for rows, starts, last in found]
            steady = [
                self._of_steady_types(need, rows, at + duration_s, start=at)
                for (need, _), rows in zip(requirements, fitting, strict=True)
            ]
            result = choose(steady, at)
            if result is not None:
                return at, result
        return None

    def _start_times(
        self, found: list[tuple[Ints, Floats, Floats]], counts: list[int], *, mixes: bool
    ) -> Iterator[float]:
        """Iterate over the first start times at which each requirement has enough rows, after deducting the
        rows for larger requirements.

        With `mixes`, the set of free GPUs may change within a window, so each step of it is a possible start.
        """
        if counts == [1] and not mixes:
            yield float(found[0][1].min())
            return
        times = np.concatenate([starts for _, starts, _ in found])
        if mixes:
            steps = self.times[np.unique(np.concatenate([rows for rows, _, _ in found]))].ravel()
            times = np.concatenate([times, steps[np.isfinite(steps)]])
        times = np.unique(times)
        possible = np.ones(len(times), dtype=np.bool_)
        total = 0
        for (_, starts, last), count in zip(found, counts, strict=True):
            total += count
            begun = np.searchsorted(np.sort(starts), times, side="right")
            over = np.searchsorted(np.sort(last), times, side="left")
            possible &= begun - over >= total
        yield from times[possible][:MAX_START_TIMES].tolist()

    def _windows(self, need: NodeRequirement, duration_s: float, mask: Mask) -> tuple[Ints, Floats, Floats]:
        """Return (row, first start, last start) of every window in which the requirement can be met for the
        duration.
        """
        rows, fits = self._lines(need, rows_of(self.enough(need, self.cluster.capacity) & mask))
        times = self._some(self.times, rows)
        used = np.isfinite(times)
        until = np.where(fits | ~used, np.inf, times)
        until = np.minimum.accumulate(until[:, ::-1], axis=1)[:, ::-1]
        fits &= used
        begins = fits.copy()
        begins[:, 1:] &= ~fits[:, :-1]
        at_row, at_step = np.nonzero(begins)
        starts, ends = times[at_row, at_step], until[at_row, at_step]
        long_enough = ends - starts >= duration_s
        return rows[at_row[long_enough]], starts[long_enough], ends[long_enough] - duration_s

    def _some(self, of: Floats, rows: Ints) -> Floats:
        """Return the rows of a table, or the table itself without a copy if these are all rows."""
        every = len(rows) == len(self.cluster) and not self.shared
        return of if every else of[rows]

    def take(self, row: int, start: float, end: float, amounts: Ints) -> None:
        """Take amounts of one node for an interval."""
        first = self._breakpoint(row, start)
        last = self._breakpoint(row, end)
        self.free[:, row, first:last] -= amounts[:, None]
        if first == 0 < last:
            self.free_now[:, row] -= amounts

    def limit(self, row: int, start: float, end: float, most: Ints) -> None:
        """Limit the free amounts of one node in an interval to `most`."""
        first, last = self._breakpoint(row, start), self._breakpoint(row, end)
        self.free[:, row, first:last] = np.minimum(self.free[:, row, first:last], most[:, None])
        if first == 0 < last:
            self.free_now[:, row] = self.free[:, row, 0]

    def renew(self, row: int, start: float, amounts: Ints) -> None:
        """Set the free amounts of one node from `start` on, regardless of earlier changes."""
        first = self._breakpoint(row, start)
        self.free[:, row, first:] = amounts[:, None]

    def add_user(self, row: int, start: float, end: float, owner: Owner | None) -> None:
        """Record that a job of this owner is on the node in an interval."""
        if self.users_on_nodes is not None and owner is not None:
            self.users_on_nodes.add(Occupancy(row, owner, start, end))

    def remove_user(self, row: int, start: float, end: float, owner: Owner | None) -> None:
        """Undo `add_user`."""
        if self.users_on_nodes is not None and owner is not None:
            self.users_on_nodes.remove(Occupancy(row, owner, start, end))

    def at(self, rows: Ints, at_unix: float) -> Ints:
        """Return the free amounts of these rows at one point in time, by column and row."""
        step = (self.times[rows] <= at_unix).sum(axis=1) - 1
        return self.free[:, rows, step]

    def reshare(
        self, row: int, gpu: SharedGpu, change: Callable[[], None], *, times_unix: Sequence[float]
    ) -> None:
        """Change the sharers or bookings of a GPU, and update the counts of free whole GPUs.

        `times_unix` are the start and end times of the change. While a GPU is shared, it does not count as a
        whole GPU.
        """
        for at_unix in times_unix:
            self._breakpoint(row, at_unix)
        before = gpu.is_shared(self.times[row])
        change()
        more: Ints = gpu.is_shared(self.times[row]).astype(np.int64) - before
        for column in self.cluster.counted_in(gpu.gpu_type):
            self.free[column, row] -= more
            self.free_now[column, row] -= more[0]

    def _breakpoint(self, row: int, at_unix: float) -> int:
        """Return the index of the step that begins at that time, inserting one if needed."""
        if at_unix <= self.now:
            return 0
        if at_unix == np.inf:
            return int(self.times.shape[1])
        times = self.times[row]
        index = int(np.searchsorted(times, at_unix, side="left"))
        if index < len(times) and times[index] == at_unix:
            return index
        if self._used[row] + 2 >= self.times.shape[1]:
            self._widen_to(2 * self.times.shape[1])
            times = self.times[row]
        times[index + 1 :] = times[index:-1].copy()
        times[index] = at_unix
        free = self.free[:, row]
        free[:, index + 1 :] = free[:, index:-1].copy()
        free[:, index] = free[:, index - 1]
        self._used[row] += 1
        return index

    def _widen_to(self, steps: int) -> None:
        more = steps - self.times.shape[1]
        if more > 0:
            self.times = np.pad(self.times, ((0, 0), (0, more)), constant_values=np.inf)
            self.free = np.pad(self.free, ((0, 0), (0, 0), (0, more)), mode="edge")

    def least(self, row: int, start: float, end: float) -> Ints:
        """Return, by column, the smallest free amount of a node in an interval."""
        times = self.times[row]
        first = max(0, int((times <= start).sum()) - 1)
        last = max(first + 1, int((times < end).sum()))
        least: Ints = self.free[:, row, first:last].min(axis=1)
        return least

    def least_on(self, rows: Ints, until: float) -> Ints:
        """Return, by column and row, the smallest free amount from now until `until`."""
        within = self.times[rows] < until
        within[:, 0] = True
        most = np.iinfo(np.int64).max
        least: Ints = np.where(within, self.free[:, rows], most).min(axis=2)
        return least

    def shared_lines(self, need: NodeRequirement, row: int) -> Iterator[tuple[SharedGpu, Mask]]:
        """Iterate over the shared GPUs of a node that may take the part, with a mask of the steps in which it
        fits.

        The mask includes CPUs and memory. A part stays on its GPU, so the GPU must not be reserved as a whole
        for another job after the other sharers have left.
        """
        if row not in self.shared:
            return
        base = self._enough_rows(msgspec.structs.replace(need, gpus=0), np.array([row]))[0]
        times = self.times[row]
        for gpu in self.shared[row].values():
            if need.gpu_type in ("", gpu.gpu_type):
                whole = self.free[self.cluster.type_columns.get(gpu.gpu_type, GPUS), row] >= 1
                yield gpu, base & gpu.fits_part(need.gpu_share_pct, times, whole=whole)

    def _lines(self, need: NodeRequirement, rows: Ints) -> tuple[Ints, Mask]:
        """Return (row, mask of the steps in which the requirement is met). A part of a GPU gets one line for
        each GPU that it could use.
        """
        if need.gpu_share_pct >= 100 or not need.gpus:
            return rows, self._enough_rows(need, rows)
        base = self._enough_rows(msgspec.structs.replace(need, gpus=0), rows)
        columns = self.cluster.columns_of(need.gpu_type)
        lines = [(rows, base & (self.free[column][rows] >= 1)) for column in columns]
        for row in rows.tolist() if self.shared else ():
            lines += [(np.array([row]), fits[None, :]) for _, fits in self.shared_lines(need, row)]
        return np.concatenate([line[0] for line in lines]), np.concatenate([line[1] for line in lines])

    def _fitting_at_once(self, need: NodeRequirement, mask: Mask) -> Ints:
        """Return the rows on which the requirement is met now. Rows with shared GPUs are always included; the
        caller examines them further.
        """
        if need.gpu_share_pct >= 100:
            return rows_of(self.enough(need, self.free_now) & mask)
        able = self.enough(need, self.free_now)
        able[list(self.shared)] = True
        return rows_of(able & mask)

    def _mixes_types(self, need: NodeRequirement) -> bool:
        """Return whether the requirement may be given GPUs of several types."""
        any_type = need.gpus > 0 and not need.gpu_type and need.gpu_share_pct >= 100
        return any_type and bool(self.cluster.type_columns)

    def _of_steady_types(
        self, need: NodeRequirement, rows: Ints, until: float, *, start: float | None = None
    ) -> Ints:
        """Return the rows on which the same GPUs stay free until the end.

        On nodes with several GPU types, a request for any type could otherwise use different GPUs at
        different times.
        """
        columns = list(self.cluster.type_columns.values())
        if not self._mixes_types(need) or not len(rows):
            return rows
        times = self.times[rows]
        within = times < until
        within[:, 0] = True
        if start is not None and start > self.now:
            first = (times <= start).sum(axis=1) - 1
            within &= np.arange(times.shape[1]) >= first[:, None]
        most = np.iinfo(np.int64).max
        steady: Ints = np.zeros(len(rows), dtype=np.int64)
        for column in columns:
            steady += np.maximum(0, np.where(within, self.free[column, rows], most).min(axis=1))
        found: Ints = rows[steady >= need.gpus]
        return found

    def _enough_rows(self, need: NodeRequirement, rows: Ints) -> Mask:
        """Return, by row and step, whether the requirement is met."""
        every = len(rows) == len(self.cluster)
        met = self.enough(need, self.free) if every else self.enough(need, self.free[:, rows], rows)
        if self.users_on_nodes is not None and need.owner is not None:
            met &= ~self.users_on_nodes.conflicts(need.owner, rows, self.times[rows])
        return met

    def enough(self, need: NodeRequirement, free: Ints, rows: Ints | None = None) -> Mask:
        """Return whether these free amounts meet the requirement. `free` is (column, row) or (column, row,
        step).
        """
        cpus: Ints | int = need.cpus
        mem_bytes: Ints | int = need.mem_bytes
        if need.exclusive or need.mem_bytes == WHOLE_NODE:
            total = self.cluster.capacity if rows is None else self.cluster.capacity[:, rows]
            total = total[:, :, None] if free.ndim == 3 else total
            cpus = np.maximum(total[CPUS], cpus) if need.exclusive else cpus
            mem_bytes = total[MEM] if mem_bytes == WHOLE_NODE else mem_bytes
        mask: Mask = np.asarray(free[CPUS] >= cpus)
        mask &= free[MEM] >= mem_bytes
        if need.gpus:
            mask &= free[self.cluster.type_columns.get(need.gpu_type, GPUS)] >= need.gpus
        return mask
