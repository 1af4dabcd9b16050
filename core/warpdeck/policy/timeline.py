"""What is free on every node from now on: one step function a node, all nodes in one array. Pure.

`times[row, k]` is when step k of a node begins, `free[column, row, k]` what is free from then until step k + 1; unused
steps begin at infinity. Running jobs free at their limits, reservations and starts take for an interval. Everything a
pass asks ("does it fit from now until its limit", "when does it first fit") is a few array operations; a start changes
one row. Time and memory: O(rows x steps) a question.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .cluster import CPUS, GPUS, MEM, Cluster, Floats, Ints, Mask
from .demand import WHOLE_NODE, Need

ENDLESS_S = 10 * 365 * 86_400.0
"""A job without a limit is planned to take this long; what could only start after that has no expected start."""
MAX_CELLS = 4_000_000
"""Bounds rows x steps. Beyond it, ends of one node that lie close together are planned as one, at the last of them."""
MIN_STEPS = 16

Hold = tuple[int, float, tuple[int, ...]]
"""(row, when it frees, amounts by column): what a running job holds on one node."""


class Timeline:
    """The future of all nodes. Starts with what runs; `take` adds reservations and starts."""

    def __init__(self, cluster: Cluster, now: float, holds: Sequence[Hold]) -> None:
        self.cluster = cluster
        self.now = now
        rows = len(cluster)
        self._used: Ints = np.zeros(rows, dtype=np.int64)
        """Number of steps in use after the first."""
        if holds:
            self._build(holds)
        else:
            self.times: Floats = np.full((rows, 4), np.inf)
            self.free: Ints = np.repeat(cluster.capacity[:, :, None], 4, axis=2)
        self.times[:, 0] = now
        self.partial: Ints | None = None
        """Largest free part, in percent, of a GPU that is shared already, by row and step; None: nothing is shared."""

    def _build(self, holds: Sequence[Hold]) -> None:
        cluster = self.cluster
        rows = np.array([hold[0] for hold in holds], dtype=np.int64)
        ends = np.maximum(np.array([hold[1] for hold in holds]), self.now)
        amounts = np.array([hold[2] for hold in holds], dtype=np.int64).T
        order = np.lexsort((ends, rows))
        rows, ends, amounts = rows[order], ends[order], amounts[:, order]
        # Ends of one moment are one step: in a step without length what frees later in the same moment would be missing.
        new_row = np.concatenate(([True], rows[1:] != rows[:-1]))
        moment: Ints = np.cumsum(new_row | np.concatenate(([True], ends[1:] != ends[:-1])), dtype=np.int64)
        before: Ints = moment[new_row][np.cumsum(new_row) - 1]
        position: Ints = np.add(moment - before, 1)
        counts: Ints = np.zeros(len(cluster), dtype=np.int64)
        np.maximum.at(counts, rows, position)
        most = max(MIN_STEPS, MAX_CELLS // max(1, len(cluster)))
        if counts.max() + 1 > most:
            position = 1 + (position - 1) * (most - 1) // np.maximum(counts[rows], most - 1)
        width = int(position.max()) + 4
        free = np.zeros((cluster.columns, len(cluster), width), dtype=np.int64)
        for column in range(cluster.columns):
            np.add.at(free[column], (rows, position), amounts[column])
        free[:, :, 0] = cluster.capacity - free.sum(axis=2)
        self.free = np.cumsum(free, axis=2)
        self.times = np.full((len(cluster), width), np.inf)
        self.times[rows, position] = ends
        self._used = np.zeros(len(cluster), dtype=np.int64)
        np.maximum.at(self._used, rows, position)

    def fitting_now(self, need: Need, duration_s: float, mask: Mask) -> Ints:
        """The rows of the mask on which the need is met from now until then, ascending."""
        rows = np.flatnonzero(self._enough(need, self.free[:, :, 0], self._partial_at(slice(None), 0)) & mask)
        if not len(rows):
            return rows
        until = self.now + duration_s
        later = self.times[rows] < until
        short = ~self._enough_rows(need, rows) & later
        return rows[~short.any(axis=1)]

    def longest_now(self, need: Need, mask: Mask, count: int) -> float:
        """For how many seconds, at the most, `count` rows of the mask meet the need from now on; 0 if they do not."""
        rows = np.flatnonzero(self._enough(need, self.free[:, :, 0], self._partial_at(slice(None), 0)) & mask)
        if len(rows) < count:
            return 0.0
        broken = np.where(self._enough_rows(need, rows), np.inf, self.times[rows]).min(axis=1)
        windows = np.sort(broken - self.now)[::-1]
        return float(windows[count - 1])

    def earliest(
        self, wanted: Sequence[tuple[Need, int]], duration_s: float, mask: Mask
    ) -> tuple[float, list[Ints]] | None:
        """When the gang first fits for its whole duration, and for each need the rows that meet it then.

        `wanted`: (need, on how many nodes), larger needs first, each meeting the next. None: not in the known future.
        """
        found = [self._windows(need, duration_s, mask) for need, _ in wanted]
        if any(not len(starts) for _, starts, _ in found):
            return None
        at = self._first_moment(found, [count for _, count in wanted])
        if at is None:
            return None
        return at, [np.unique(rows[(starts <= at) & (at <= last)]) for rows, starts, last in found]

    def _first_moment(self, found: list[tuple[Ints, Floats, Floats]], counts: list[int]) -> float | None:
        """The first start at which each need has enough rows, those of larger needs counted off."""
        if counts == [1]:
            return float(found[0][1].min())
        times = np.unique(np.concatenate([starts for _, starts, _ in found]))
        possible = np.ones(len(times), dtype=np.bool_)
        total = 0
        for (_, starts, last), count in zip(found, counts, strict=True):
            total += count
            begun = np.searchsorted(np.sort(starts), times, side="right")
            over = np.searchsorted(np.sort(last), times, side="left")
            possible &= begun - over >= total
        index = int(np.argmax(possible))
        return float(times[index]) if possible[index] else None

    def _windows(self, need: Need, duration_s: float, mask: Mask) -> tuple[Ints, Floats, Floats]:
        """(row, first start, last start) of every stretch in which the need can be met for the duration."""
        able = self._enough(need, self.cluster.capacity, None) & mask
        rows = np.flatnonzero(able)
        times = self._some(self.times, rows)
        fits = self._enough_rows(need, rows)
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
        """The rows of a table; the table itself if these are all."""
        return of if len(rows) == len(self.cluster) else of[rows]

    def take(self, row: int, start: float, end: float, amounts: Ints) -> None:
        """Takes amounts on one node for an interval."""
        first = self._breakpoint(row, start)
        last = self._breakpoint(row, end)
        self.free[:, row, first:last] -= amounts[:, None]

    def at(self, rows: Ints, moment: float) -> Ints:
        """What is free on the rows at a moment, by column and row."""
        step = (self.times[rows] <= moment).sum(axis=1) - 1
        return self.free[:, rows, step]

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
            self._widen()
            times = self.times[row]
        times[index + 1 :] = times[index:-1].copy()
        times[index] = moment
        free = self.free[:, row]
        free[:, index + 1 :] = free[:, index:-1].copy()
        free[:, index] = free[:, index - 1]
        if self.partial is not None:
            partial = self.partial[row]
            partial[index + 1 :] = partial[index:-1].copy()
            partial[index] = partial[index - 1]
        self._used[row] += 1
        return index

    def _widen(self) -> None:
        more = max(8, self.times.shape[1])
        self.times = np.pad(self.times, ((0, 0), (0, more)), constant_values=np.inf)
        self.free = np.pad(self.free, ((0, 0), (0, 0), (0, more)), mode="edge")
        if self.partial is not None:
            self.partial = np.pad(self.partial, ((0, 0), (0, more)), mode="edge")

    def _partial_at(self, rows: slice | Ints, step: int) -> Ints | None:
        return None if self.partial is None else self.partial[rows, step]

    def _enough_rows(self, need: Need, rows: Ints) -> Mask:
        """By row and step, whether the need is met."""
        if len(rows) == len(self.cluster):
            return self._enough(need, self.free, self.partial)
        partial = None if self.partial is None else self.partial[rows]
        return self._enough(need, self.free[:, rows], partial, rows)

    def _enough(self, need: Need, free: Ints, partial: Ints | None, rows: Ints | None = None) -> Mask:
        """Whether so much free meets the need; `free` is (column, row) or (column, row, step)."""
        total = self.cluster.capacity if rows is None else self.cluster.capacity[:, rows]
        if free.ndim == 3:
            total = total[:, :, None]
        empty = need.exclusive
        cpus = np.maximum(total[CPUS], 1) if empty else need.cpus
        mask: Mask = np.asarray(free[CPUS] >= cpus)
        mask &= free[MEM] >= (total[MEM] if need.mem_bytes == WHOLE_NODE else need.mem_bytes)
        if not need.gpus:
            return mask
        if need.gpu_share_pct < 100:
            whole = free[GPUS] >= 1
            mask &= whole if partial is None else whole | (partial >= need.gpu_share_pct)
            return mask
        column = self.cluster.type_columns.get(need.gpu_type, GPUS)
        mask &= free[column] >= need.gpus
        return mask
