"""Which GPUs of a node: those that are joined, and parts of GPUs that are shared. Pure.

Whole GPUs: of one NVLink island if one has enough, else of one NUMA node, the smallest that has; lowest index first. A part
of a GPU goes on the shared GPU that is fullest and still has room, so that whole GPUs stay whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from warpdeck.model import Share

from .cluster import GPUS, Cluster, Ints
from .timeline import Hold, Timeline
from .view import GpuView

Sharers = list[tuple[float, int]]
"""(when it ends, percent) of each job on a shared GPU."""


class GpuBoard:
    """GPU by GPU, who holds what now; worked out for a node when it is asked about."""

    def __init__(self, cluster: Cluster, held: Iterable[tuple[Share, float]]) -> None:
        self._cluster = cluster
        self._held: dict[int, list[Share]] = {}
        self._free: dict[int, dict[int, GpuView]] = {}
        self.shared: dict[int, dict[int, Sharers]] = {}
        """row -> GPU index -> its sharers."""
        for share, ends in held:
            row = cluster.row.get(share.node) if share.gpus else None
            if row is None:
                continue
            self._held.setdefault(row, []).append(share)
            if share.gpu_share_pct < 100:
                board = self.shared.setdefault(row, {})
                for index in share.gpus:
                    board.setdefault(index, []).append((ends, share.gpu_share_pct))

    def shared_holds(self) -> list[Hold]:
        """A shared GPU is no whole GPU until the last of its sharers ends."""
        found: list[Hold] = []
        for row, board in self.shared.items():
            usable = {gpu.index for gpu in self._cluster.usable_gpus(row)}
            for index, sharers in board.items():
                if index in usable:
                    amounts = tuple(int(amount) for amount in self._one_gpu(row, index))
                    found.append((row, max(ends for ends, _ in sharers), amounts))
        return found

    def pick(self, row: int, count: int, gpu_type: str) -> list[GpuView]:
        """So many wholly free GPUs; the caller knows that there are enough."""
        free = [gpu for _, gpu in sorted(self._free_at(row).items()) if gpu_type in ("", gpu.type.lower())]
        return pick_gpus(free, count)

    def free_indices(self, row: int) -> set[int]:
        """The wholly free GPUs of a node."""
        return set(self._free_at(row))

    def take(self, row: int, indices: Iterable[int]) -> None:
        """These GPUs are wholly taken now."""
        free = self._free_at(row)
        for index in indices:
            free.pop(index, None)

    def pick_part(self, row: int, pct: int, gpu_type: str) -> GpuView:
        """The GPU on which a part goes; the caller knows that one has room."""
        best: tuple[int, GpuView] | None = None
        sharers = self.shared.get(row, {})
        for gpu in self._cluster.usable_gpus(row):
            if gpu.index in sharers and gpu_type in ("", gpu.type.lower()):
                left = 100 - sum(part for _, part in sharers[gpu.index])
                if left >= pct and (best is None or left < best[0]):
                    best = (left, gpu)
        return best[1] if best is not None else self.pick(row, 1, gpu_type)[0]

    def share_from_now(self, timeline: Timeline, row: int, gpu: GpuView, pct: int, ends: float) -> None:
        """A part of a GPU is taken now, and the timeline knows until when the GPU is not whole."""
        sharers = self.shared.setdefault(row, {}).setdefault(gpu.index, [])
        whole_at = max((until for until, _ in sharers), default=timeline.now)
        sharers.append((ends, pct))
        self.take(row, (gpu.index,))
        if ends > whole_at:
            timeline.take(row, whole_at, ends, self._one_gpu(row, gpu.index))
        self.show_parts(timeline, row)

    def show_parts(self, timeline: Timeline, row: int) -> None:
        """Writes the largest free part on the node's shared GPUs into each step of the timeline."""
        if timeline.partial is None:
            timeline.partial = np.zeros(timeline.times.shape, dtype=np.int64)
        best = np.zeros(timeline.times.shape[1], dtype=np.int64)
        for sharers in self.shared.get(row, {}).values():
            until = np.array([ends for ends, _ in sharers])
            parts = np.array([pct for _, pct in sharers])
            there = until[None, :] > timeline.times[row][:, None]
            left = 100 - (there * parts).sum(axis=1)
            best = np.maximum(best, np.where(there.any(axis=1), left, 0))
        timeline.partial[row] = best

    def _free_at(self, row: int) -> dict[int, GpuView]:
        free = self._free.get(row)
        if free is None:
            taken = {index for share in self._held.get(row, ()) for index in share.gpus}
            taken.update(self.shared.get(row, ()))
            free = {gpu.index: gpu for gpu in self._cluster.usable_gpus(row) if gpu.index not in taken}
            self._free[row] = free
        return free

    def _one_gpu(self, row: int, index: int) -> Ints:
        amounts = np.zeros(self._cluster.columns, dtype=np.int64)
        amounts[GPUS] = 1
        for gpu in self._cluster.nodes[row].gpus:
            column = self._cluster.type_columns.get(gpu.type.lower())
            if gpu.index == index and column is not None:
                amounts[column] = 1
        return amounts


def pick_gpus(free: Sequence[GpuView], count: int) -> list[GpuView]:
    """So many of the free GPUs, as close together as they can be had."""
    if count == 0:
        return []
    for place in (_island, _numa):
        groups: dict[int, list[GpuView]] = {}
        for gpu in free:
            groups.setdefault(place(gpu), []).append(gpu)
        fitting = [group for where, group in groups.items() if where >= 0 and len(group) >= count]
        if fitting:
            return min(fitting, key=lambda group: (len(group), group[0].index))[:count]
    return list(free[:count])


def _island(gpu: GpuView) -> int:
    return gpu.island


def _numa(gpu: GpuView) -> int:
    return gpu.numa_node
