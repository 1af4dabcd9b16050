"""Choice of the GPUs of a node: connected GPUs, and parts of shared GPUs.

Whole GPUs are taken from one NVLink island if one has enough, else from one NUMA node. The smallest
sufficient group is used, lowest index first. A part of a GPU is placed on the fullest shared GPU that has
room, so that whole GPUs stay whole.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from warpdeck.model import NodeName, Share
from warpdeck.policy.input.view import GpuView, RunningJob

from .cluster import Cluster, Ints
from .demand import NodeRequirement
from .shared_gpus import SharedGpu
from .timeline import Hold, Timeline, ends_of


class Held(NamedTuple):
    """The resources that a running job holds on one node."""

    job: RunningJob
    share: Share


_ENDS = attrgetter("job.ends_by_unix")
_PART = attrgetter("share.gpu_share_pct")


def are_unsteady(there: Sequence[Held]) -> bool:
    """Return whether a job in the list has no time limit or shares a GPU. Its entries then depend on the
    current time.
    """
    return None in map(_ENDS, there) or min(map(_PART, there), default=100) < 100


class GpuTable:
    """State of each GPU: whether a job holds it now, and who shares it. The data of a node are computed on
    first use.
    """

    def __init__(
        self,
        cluster: Cluster,
        held: Mapping[int, Sequence[Held]],
        now: float,
        *,
        rows: Iterable[int] = (),
    ) -> None:
        """Create the table. `held` is by row. Only GPUs on `rows` can be shared."""
        self._cluster = cluster
        self._held = held
        self._free: dict[int, dict[int, GpuView]] = {}
        self.shared: dict[int, dict[int, SharedGpu]] = {}
        """row -> GPU index -> shared GPU with its sharers. Contains only GPUs that can be given to jobs."""
        for row in sorted(rows):
            for job, share in held.get(row, ()):
                for gpu in cluster.usable_gpus(row) if share.gpu_share_pct < 100 else ():
                    if gpu.index in share.gpus:
                        sharer = (ends_of(job, now), share.gpu_share_pct)
                        self._shared_gpu(row, gpu).sharers.append(sharer)

    def shared_holds(self) -> list[Hold]:
        """Return the holds of shared GPUs: each counts as taken, as a whole GPU, until the last of its
        sharers ends.
        """
        return [
            (row, gpu.whole_at, tuple(int(amount) for amount in self._one_gpu(gpu)))
            for row, shared in self.shared.items()
            for gpu in shared.values()
        ]

    def pick(
        self, row: int, count: int, gpu_type: str, *, most: Mapping[str, int] | None = None
    ) -> list[GpuView]:
        """Return this many completely free GPUs, at most `most` of each type. The caller ensures that there
        are enough.
        """
        free = [gpu for _, gpu in sorted(self._free_at(row).items()) if gpu_type in ("", gpu.type.lower())]
        if most is not None:
            left = dict(most)
            free = [gpu for gpu in free if _one_more(left, gpu.type.lower())]
        return pick_gpus(free, count)

    def free_gpus(self, row: int) -> list[GpuView]:
        """Return the completely free GPUs of a node, sorted by index."""
        return [gpu for _, gpu in sorted(self._free_at(row).items())]

    def free_indices(self, row: int) -> set[int]:
        """Return the indices of the completely free GPUs of a node."""
        return set(self._free_at(row))

    def take(self, row: int, indices: Iterable[int]) -> None:
        """Mark these GPUs as taken."""
        free = self._free_at(row)
        for index in indices:
            free.pop(index, None)

    def fitting_shared_gpu(
        self, timeline: Timeline, row: int, need: NodeRequirement, ends: float
    ) -> GpuView | None:
        """Return the fullest shared GPU that has room for the part until `ends` and is not reserved as a
        whole GPU.
        """
        within = timeline.times[row] < ends
        within[0] = True
        fitting = [gpu for gpu, fits in timeline.shared_lines(need, row) if fits[within].all()]
        if not fitting:
            return None
        best = min(fitting, key=lambda gpu: (gpu.left_now, gpu.index))
        return next(gpu for gpu in self._cluster.nodes[row].gpus if gpu.index == best.index)

    def free_on(self, node: str) -> set[int]:
        """Return the indices of the completely free GPUs of the node with this name."""
        return set(self._free_at(self._cluster.row[NodeName(node)]))

    def give_back(self, row: int, indices: Iterable[int]) -> None:
        """Undo a `take`."""
        free = self._free_at(row)
        free.update((gpu.index, gpu) for gpu in self._cluster.usable_gpus(row) if gpu.index in set(indices))

    def share_from_now(self, timeline: Timeline, row: int, gpu: GpuView, pct: int, ends: float) -> None:
        """Take a part of a GPU from now until `ends`. Until then the timeline does not count it as a whole
        GPU.
        """
        shared = self._shared_gpu(row, gpu)
        self.take(row, (gpu.index,))
        timeline.reshare(row, shared, partial(shared.sharers.append, (ends, pct)), times_unix=(ends,))

    def hold(
        self, timeline: Timeline, row: int, share: Share, *, besides: Sequence[int] = (), ends: float
    ) -> None:
        """Take the GPUs of a share from now on. `besides` are GPUs that the job already held."""
        if share.gpu_share_pct == 100:
            self.take(row, share.gpus)
            return
        for gpu in self._cluster.nodes[row].gpus:
            if gpu.index in share.gpus and gpu.index not in besides:
                self.share_from_now(timeline, row, gpu, share.gpu_share_pct, ends)

    def unhold(self, timeline: Timeline, row: int, share: Share, *, ends: float) -> None:
        """Undo a `hold`."""
        for gpu in self._cluster.nodes[row].gpus:
            if gpu.index not in share.gpus:
                continue
            if share.gpu_share_pct < 100:
                shared = self._shared_gpu(row, gpu)
                part = (ends, share.gpu_share_pct)
                timeline.reshare(row, shared, partial(shared.sharers.remove, part), times_unix=())
                if shared.sharers or shared.booked:
                    continue
            self._free_at(row)[gpu.index] = gpu

    def part_fits(self, timeline: Timeline, row: int, gpu: GpuView, pct: int, ends: float) -> bool:
        """Return whether this particular GPU has room for the part until `ends`."""
        column = self._cluster.counted_in(gpu.type.lower())[-1]
        times = timeline.times[row]
        whole = timeline.free[column, row] >= 1
        shared = self.shared.get(row, {}).get(gpu.index)
        if shared is None and gpu.index not in self._free_at(row):
            return False
        fits = whole if shared is None else shared.fits_part(pct, times, whole=whole)
        within = times < ends
        within[0] = True
        return bool(fits[within].all())

    def _shared_gpu(self, row: int, gpu: GpuView) -> SharedGpu:
        shared = self.shared.setdefault(row, {})
        return shared.setdefault(gpu.index, SharedGpu(gpu.index, gpu.type.lower()))

    def _free_at(self, row: int) -> dict[int, GpuView]:
        free = self._free.get(row)
        if free is None:
            taken = {index for held in self._held.get(row, ()) for index in held.share.gpus}
            taken.update(self.shared.get(row, ()))
            free = {gpu.index: gpu for gpu in self._cluster.usable_gpus(row) if gpu.index not in taken}
            self._free[row] = free
        return free

    def _one_gpu(self, gpu: SharedGpu) -> Ints:
        amounts = np.zeros(self._cluster.columns, dtype=np.int64)
        amounts[self._cluster.counted_in(gpu.gpu_type)] = 1
        return amounts


def _one_more(left: dict[str, int], gpu_type: str) -> bool:
    left[gpu_type] = left.get(gpu_type, 0) - 1
    return left[gpu_type] >= 0


def pick_gpus(free: Sequence[GpuView], count: int) -> list[GpuView]:
    """Return this many of the free GPUs, as close together as possible."""
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
