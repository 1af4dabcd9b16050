"""What is free on every node from now on: one step function a node, all nodes in one array. Pure.

`times[row, k]` is when step k of a node begins, `free[column, row, k]` what is free from then until step k + 1; unused
steps begin at infinity. Running jobs free at their limits, reservations and starts take for an interval. Everything a
pass asks ("does it fit from now until its limit", "when does it first fit") is a few array operations; a start changes
one row. Time and memory: O(rows x steps) a question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from warpdeck.policy.input.view import RunningJob

from .cluster import CPUS, GPUS, MEM, Cluster, Floats, Ints, Mask
from .demand import WHOLE_NODE, Need, Tenant
from .shared_gpus import SharedGpu
from .user_exclusivity import Stay, Tenants

ENDLESS_S = 10 * 365 * 86_400.0
"""A job without a limit is planned to take this long; what could only start after that has no expected start."""
OVERDUE_S = 1.0
"""What should have ended already is taken to end so soon: it holds what it has, and nothing is promised for this moment."""
MAX_CELLS = 4_000_000
"""Bounds rows x steps. Beyond it, ends of one node that lie close together are planned as one, at the last of them."""
MIN_STEPS = 16
SPARE_STEPS = 4
"""Steps of a row beyond those in use: what a pass takes needs some."""
MAX_MOMENTS = 64
"""Moments at which a gang is tried for the place it needs (one switch, say); with none found it has no expected start."""

Place = TypeVar("Place")
"""What a caller makes of the rows that fit."""
Hold = tuple[int, float, tuple[int, ...]]
"""(row, when it frees, amounts by column): what a running job holds on one node."""


def ends_of(job: RunningJob, now: float) -> float:
    """When a running job frees what it holds, as far as is promised."""
    return now + ENDLESS_S if job.ends_by_unix is None else job.ends_by_unix


class Timeline:
    """The future of all nodes. `lay` puts down what runs; `take` adds reservations and starts."""

    def __init__(self, cluster: Cluster, now: float) -> None:
        """All that there is, free for good."""
        self.cluster = cluster
        self.now = now
        rows = len(cluster)
        self._used: Ints = np.zeros(rows, dtype=np.int64)
        """Number of steps in use after the first."""
        self.times: Floats = np.full((rows, SPARE_STEPS), np.inf)
        self.times[:, 0] = now
        self.free: Ints = np.repeat(cluster.capacity[:, :, None], SPARE_STEPS, axis=2)
        self.free_now: Ints = cluster.capacity.copy()
        """The first step, close together in memory: most questions end with it."""
        self.shared: Mapping[int, Mapping[int, SharedGpu]] = {}
        """row -> index -> GPU that is shared already. In the columns of whole GPUs it is taken until its last sharer ends."""
        self.tenants: Tenants | None = None
        """Who is where; None where it matters to nobody."""

    def copy_at(self, now: float) -> Timeline:
        """The same from another moment on, of which the caller may take. See `overdue_rows`."""
        made = Timeline.__new__(Timeline)
        made.cluster, made.now, made.shared, made.tenants = self.cluster, now, self.shared, None
        made._used, made.free_now = self._used.copy(), self.free_now.copy()
        made.times, made.free = self.times.copy(), self.free.copy()
        made.times[:, 0] = now
        return made

    def overdue_rows(self) -> list[int]:
        """The rows of a copy on which steps lie before its first moment, or beyond all that is planned."""
        last = self.times[np.arange(len(self.times)), self._used]
        off = (self.times[:, 1] <= self.now) | (last > self.now + ENDLESS_S)
        found: list[int] = np.flatnonzero(off).tolist()
        return found

    @property
    def cells(self) -> int:
        """Rows x steps: what a look at everything costs."""
        return len(self.cluster) * (int(self._used.max(initial=0)) + SPARE_STEPS)

    def lay(self, rows: Ints, holds: Sequence[Hold]) -> None:
        """Begins these rows (ascending) anew, with all that is held of them."""
        self.times[rows, 1:] = np.inf
        self.free[:, rows] = self.cluster.capacity[:, rows, None]
        self._used[rows] = 0
        if holds:
            self._hold(holds)
        self.free_now[:, rows] = self.free[:, rows, 0]

    def _hold(self, holds: Sequence[Hold]) -> None:
        rows = np.array([hold[0] for hold in holds], dtype=np.int64)
        ends = np.array([hold[1] for hold in holds])
        ends = np.where(ends <= self.now, self.now + OVERDUE_S, ends)
        amounts = np.array([hold[2] for hold in holds], dtype=np.int64).T
        order = np.lexsort((ends, rows))
        rows, ends, amounts = rows[order], ends[order], amounts[:, order]
        # Ends of one moment are one step: in a step without length what frees later in the same moment would be missing.
        new_row = np.concatenate(([True], rows[1:] != rows[:-1]))
        moment: Ints = np.cumsum(new_row | np.concatenate(([True], ends[1:] != ends[:-1])), dtype=np.int64)
        before: Ints = moment[new_row][np.cumsum(new_row) - 1]
        position: Ints = np.add(moment - before, 1)
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

    def fitting_now(self, need: Need, duration_s: float, mask: Mask) -> Ints:
        """The rows of the mask on which the need is met from now until then, ascending."""
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

    def longest_now(self, wanted: Sequence[tuple[Need, int]], mask: Mask) -> float:
        """For how many seconds, at the most, rows of the mask meet the gang's needs from now on; 0 if they do not."""
        longest, total = np.inf, 0
        for need, count in wanted:
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
        wanted: Sequence[tuple[Need, int]],
        duration_s: float,
        mask: Mask,
        *,
        choose: Callable[[list[Ints], float], Place | None],
    ) -> tuple[float, Place] | None:
        """When the gang first fits for its whole duration, and what is chosen of the rows that meet each need then.

        `wanted`: (need, on how many nodes), larger needs first, each meeting the next. None: not in the known future.
        """
        found = [self._windows(need, duration_s, mask) for need, _ in wanted]
        if any(not len(starts) for _, starts, _ in found):
            return None
        mixes = any(self._mixes_types(need) for need, _ in wanted)
        for at in self._moments(found, [count for _, count in wanted], mixes=mixes):
            fitting = [np.unique(rows[(starts <= at) & (at <= last)]) for rows, starts, last in found]
            steady = [
                self._of_steady_types(need, rows, at + duration_s, start=at)
                for (need, _), rows in zip(wanted, fitting, strict=True)
            ]
            place = choose(steady, at)
            if place is not None:
                return at, place
        return None

    def _moments(
        self, found: list[tuple[Ints, Floats, Floats]], counts: list[int], *, mixes: bool
    ) -> Iterator[float]:
        """The first starts at which each need has enough rows, those of larger needs counted off.

        `mixes`: which GPUs are the free ones may change within a stretch, so that each step of it is a start.
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
        yield from times[possible][:MAX_MOMENTS].tolist()

    def _windows(self, need: Need, duration_s: float, mask: Mask) -> tuple[Ints, Floats, Floats]:
        """(row, first start, last start) of every stretch in which the need can be met for the duration."""
        rows, fits = self._lines(need, np.flatnonzero(self.enough(need, self.cluster.capacity) & mask))
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
        """The rows of a table; the table itself if these are all, each once."""
        every = len(rows) == len(self.cluster) and not self.shared
        return of if every else of[rows]

    def take(self, row: int, start: float, end: float, amounts: Ints) -> None:
        """Takes amounts on one node for an interval."""
        first = self._breakpoint(row, start)
        last = self._breakpoint(row, end)
        self.free[:, row, first:last] -= amounts[:, None]
        if first == 0 < last:
            self.free_now[:, row] -= amounts

    def limit(self, row: int, start: float, end: float, most: Ints) -> None:
        """No more than this is free on one node in an interval."""
        first, last = self._breakpoint(row, start), self._breakpoint(row, end)
        self.free[:, row, first:last] = np.minimum(self.free[:, row, first:last], most[:, None])
        if first == 0 < last:
            self.free_now[:, row] = self.free[:, row, 0]

    def renew(self, row: int, start: float, amounts: Ints) -> None:
        """From then on so much is free on one node, whatever was taken of it."""
        first = self._breakpoint(row, start)
        self.free[:, row, first:] = amounts[:, None]

    def settle(self, row: int, start: float, end: float, tenant: Tenant | None) -> None:
        """Somebody is on the node in an interval for which something of it was taken."""
        if self.tenants is not None and tenant is not None:
            self.tenants.add(Stay(row, tenant, start, end))

    def unsettle(self, row: int, start: float, end: float, tenant: Tenant | None) -> None:
        """Takes back a `settle`."""
        if self.tenants is not None and tenant is not None:
            self.tenants.remove(Stay(row, tenant, start, end))

    def at(self, rows: Ints, moment: float) -> Ints:
        """What is free on the rows at a moment, by column and row."""
        step = (self.times[rows] <= moment).sum(axis=1) - 1
        return self.free[:, rows, step]

    def reshare(
        self, row: int, gpu: SharedGpu, change: Callable[[], None], *, moments: Sequence[float]
    ) -> None:
        """Changes who shares a GPU, or books it, from or until these moments: where it is shared it is no whole GPU."""
        for moment in moments:
            self._breakpoint(row, moment)
        before = gpu.is_shared(self.times[row])
        change()
        more: Ints = gpu.is_shared(self.times[row]).astype(np.int64) - before
        for column in self.cluster.counted_in(gpu.gpu_type):
            self.free[column, row] -= more
            self.free_now[column, row] -= more[0]

    def _breakpoint(self, row: int, moment: float) -> int:
        """The index of the step that begins at that moment, made if there is none."""
        if moment <= self.now:
            return 0
        if moment == np.inf:
            return int(self.times.shape[1])
        times = self.times[row]
        index = int(np.searchsorted(times, moment, side="left"))
        if index < len(times) and times[index] == moment:
            return index
        if self._used[row] + 2 >= self.times.shape[1]:
            self._widen_to(2 * self.times.shape[1])
            times = self.times[row]
        times[index + 1 :] = times[index:-1].copy()
        times[index] = moment
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
        """By column, the least that is free on a node in an interval."""
        times = self.times[row]
        first = max(0, int((times <= start).sum()) - 1)
        last = max(first + 1, int((times < end).sum()))
        least: Ints = self.free[:, row, first:last].min(axis=1)
        return least

    def least_on(self, rows: Ints, until: float) -> Ints:
        """By column and row, the least that is free from now until then."""
        within = self.times[rows] < until
        within[:, 0] = True
        most = np.iinfo(np.int64).max
        least: Ints = np.where(within, self.free[:, rows], most).min(axis=2)
        return least

    def shared_lines(self, need: Need, row: int) -> Iterator[tuple[SharedGpu, Mask]]:
        """The shared GPUs of a node that may take the part, and by step whether they have it, CPUs and memory included.

        A part stays on its GPU: when the others have left, the GPU must not be promised to somebody as a whole one.
        """
        if row not in self.shared:
            return
        base = self._enough_rows(msgspec.structs.replace(need, gpus=0), np.array([row]))[0]
        times = self.times[row]
        for gpu in self.shared[row].values():
            if need.gpu_type in ("", gpu.gpu_type):
                whole = self.free[self.cluster.type_columns.get(gpu.gpu_type, GPUS), row] >= 1
                yield gpu, base & gpu.has_room(need.gpu_share_pct, times, whole=whole)

    def _lines(self, need: Need, rows: Ints) -> tuple[Ints, Mask]:
        """(row, by step whether the need is met). Of a part of a GPU: a line for each GPU that it could be on."""
        if need.gpu_share_pct >= 100 or not need.gpus:
            return rows, self._enough_rows(need, rows)
        base = self._enough_rows(msgspec.structs.replace(need, gpus=0), rows)
        columns = self.cluster.columns_of(need.gpu_type)
        lines = [(rows, base & (self.free[column][rows] >= 1)) for column in columns]
        for row in rows.tolist() if self.shared else ():
            lines += [(np.array([row]), fits[None, :]) for _, fits in self.shared_lines(need, row)]
        return np.concatenate([line[0] for line in lines]), np.concatenate([line[1] for line in lines])

    def _fitting_at_once(self, need: Need, mask: Mask) -> Ints:
        """The rows on which the need is met in this moment, those with shared GPUs to be looked at closer."""
        if need.gpu_share_pct >= 100:
            return np.flatnonzero(self.enough(need, self.free_now) & mask)
        able = self.enough(need, self.free_now)
        able[list(self.shared)] = True
        return np.flatnonzero(able & mask)

    def _mixes_types(self, need: Need) -> bool:
        """Whether it may be given GPUs of several types."""
        any_type = need.gpus > 0 and not need.gpu_type and need.gpu_share_pct >= 100
        return any_type and bool(self.cluster.type_columns)

    def _of_steady_types(self, need: Need, rows: Ints, until: float, *, start: float | None = None) -> Ints:
        """On nodes of mixed types, GPUs of any type must be the same ones until the end, not now these and now those."""
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

    def _enough_rows(self, need: Need, rows: Ints) -> Mask:
        """By row and step, whether the need is met."""
        every = len(rows) == len(self.cluster)
        met = self.enough(need, self.free) if every else self.enough(need, self.free[:, rows], rows)
        if self.tenants is not None and need.tenant is not None:
            met &= ~self.tenants.barred(need.tenant, rows, self.times[rows])
        return met

    def enough(self, need: Need, free: Ints, rows: Ints | None = None) -> Mask:
        """Whether so much free meets the need; `free` is (column, row) or (column, row, step)."""
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
