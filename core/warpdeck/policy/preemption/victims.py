"""Search for nodes on which a gang would fit after preemption, and for the fewest jobs that must leave.

A node fits if the requirement is met from now until the job's end. The resources that victims would hold
until their own ends count as free. A shared GPU is whole again when the last of its sharers has left.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from warpdeck.model import JobId
from warpdeck.policy.input.view import RunningJob
from warpdeck.policy.placement.gangs import Gang
from warpdeck.policy.placement.placement import choose, whole_amounts
from warpdeck.policy.placement.request_class import Placement
from warpdeck.policy.resources.cluster import CPUS, GPUS, MEM, Ints, Mask
from warpdeck.policy.resources.demand import NodeRequirement
from warpdeck.policy.resources.timeline import ENDLESS_S, Timeline

ENOUGH_NODES = 100
"""Number of suitable nodes after which the search stops, to bound its time on large clusters. Among these
nodes, those with the least lost work are taken.
"""


class PreemptionCandidate(NamedTuple):
    """A job that may be preempted, and the resources that it frees on one node.

    `parts` are (index, percent) of shared GPUs. If `leaves` is False, the job is only suspended and remains
    on the node. Then jobs that exclude its user cannot start there.
    """

    victim: RunningJob
    amounts: Ints
    parts: tuple[tuple[int, int], ...] = ()
    leaves: bool = True


class FreeUntil:
    """Free resources of one node until a job's end, while candidate victims are removed and added again."""

    def __init__(self, timeline: Timeline, row: int, *, until: float) -> None:
        self._timeline = timeline
        self._row = row
        steps = max(1, int((timeline.times[row] < until).sum()))
        self._times = timeline.times[row, :steps]
        self._free: Ints = timeline.free[:, row, :steps].copy()
        self._shared = {index: gpu.copy() for index, gpu in timeline.shared.get(row, {}).items()}
        self._gone: set[JobId] = set()

    def leave(self, candidate: PreemptionCandidate, *, back: bool = False) -> None:
        """Remove the victim from the node; with `back`, add it again. After the victim's own end, its
        resources are free in any case.
        """
        ends = ends_of_victim(candidate.victim, self._timeline.now)
        held = self._times < ends
        held[0] = True
        if candidate.leaves:
            (self._gone.discard if back else self._gone.add)(candidate.victim.id)
        sign = -1 if back else 1
        self._free += sign * candidate.amounts[:, None] * held
        for index, pct in candidate.parts:
            gpu = self._shared.get(index)
            if gpu is None:
                continue
            before = gpu.is_shared(self._times)
            gpu.sharers.append((ends, pct)) if back else gpu.sharers.remove((ends, pct))
            whole_again = before.astype(np.int64) - gpu.is_shared(self._times)
            self._free[self._timeline.cluster.counted_in(gpu.gpu_type)] += whole_again

    def meets(self, need: NodeRequirement) -> bool:
        """Return whether the requirement is met on this node."""
        if self._conflicts_with_user(need):
            return False
        amounts = whole_amounts(self._timeline.cluster, self._row, need)
        if need.gpu_share_pct < 100:
            return self._meets_part(need, amounts)
        requested = amounts > 0
        return bool((self._free[requested] >= amounts[requested][:, None]).all()) and self._has_steady_types(
            need
        )

    def _conflicts_with_user(self, need: NodeRequirement) -> bool:
        """Return whether another user's job on the node conflicts with the owner of this requirement."""
        users_on_nodes = self._timeline.users_on_nodes
        if users_on_nodes is None or need.owner is None:
            return False
        return bool(users_on_nodes.conflicts_without(need.owner, self._row, self._times, self._gone).any())

    def _meets_part(self, need: NodeRequirement, amounts: Ints) -> bool:
        if (self._free[CPUS] < amounts[CPUS]).any() or (
            amounts[MEM] and (self._free[MEM] < amounts[MEM]).any()
        ):
            return False
        cluster = self._timeline.cluster
        if any((self._free[column] >= 1).all() for column in cluster.columns_of(need.gpu_type)):
            return True
        for gpu in self._shared.values():
            whole = self._free[cluster.counted_in(gpu.gpu_type)[-1]] >= 1
            fits = gpu.fits_part(need.gpu_share_pct, self._times, whole=whole)
            if need.gpu_type in ("", gpu.gpu_type) and fits.all():
                return True
        return False

    def _has_steady_types(self, need: NodeRequirement) -> bool:
        """Return whether the same GPUs of any type stay free until the end."""
        columns = list(self._timeline.cluster.type_columns.values())
        if not columns or not need.gpus or need.gpu_type:
            return True
        return int(np.maximum(self._free[columns].min(axis=1), 0).sum()) >= need.gpus


def ends_of_victim(victim: RunningJob, now: float) -> float:
    """Return the time at which the victim would end without preemption, as in the timeline."""
    return now + ENDLESS_S if victim.ends_by_unix is None else victim.ends_by_unix


class VictimSearch:
    """Search among the nodes of a mask, with the jobs that may be preempted on each, weakest claim first."""

    def __init__(
        self,
        timeline: Timeline,
        mask: Mask,
        duration_s: float,
        candidates: Mapping[int, Sequence[PreemptionCandidate]],
        *,
        lost_work: Callable[[Iterable[RunningJob]], float],
    ) -> None:
        self._timeline = timeline
        self._mask = mask
        self._back_now: Ints = np.zeros(timeline.free.shape[:2], dtype=np.int64)
        for row, victims in candidates.items():
            for candidate in victims:
                self._back_now[:, row] += candidate.amounts
            for index in {index for candidate in victims for index, _ in candidate.parts}:
                gpu = timeline.shared.get(row, {}).get(index)  # `gpu` is None if the GPU is blocked.
                if gpu is not None:
                    # At most one whole GPU becomes free here.
                    self._back_now[timeline.cluster.counted_in(gpu.gpu_type), row] += 1
        self._until = timeline.now + duration_s
        self._candidates_by_row = candidates
        self._lost_work = lost_work

    def find(self, gang: Gang) -> tuple[Placement, set[JobId]] | None:
        """Return a placement of the gang, and the jobs that must leave for it.

        None if it fits nowhere, or if it fits without preemption.
        """
        fitting: list[Ints] = []
        leaving: dict[tuple[int, NodeRequirement], list[PreemptionCandidate]] = {}
        for need, _ in gang.requirements:
            fits: list[tuple[float, int]] = []
            for row in self._candidates(need):
                if len(fits) >= max(ENOUGH_NODES, 2 * gang.nodes) and not gang.is_picky:
                    break
                chosen = self._fewest(need, row)
                if chosen is not None:
                    fits.append((self._lost_work(candidate.victim for candidate in chosen), row))
                    leaving[row, need] = chosen
            fits.sort()
            kept = fits if gang.is_picky else fits[: gang.nodes]
            fitting.append(np.array([row for _, row in kept], dtype=np.int64))
        placement = choose(self._timeline, gang, fitting, self._timeline.now)
        if placement is None:
            return None
        gone = {
            candidate.victim.id: candidate.victim
            for row, need in placement
            for candidate in leaving[row, need]
        }
        # A victim frees its resources on all of its nodes. Another victim may then be allowed to stay.
        for victim in sorted(gone.values(), key=lambda victim: (victim.start_at_unix, victim.id)):
            others = gone.keys() - {victim.id}
            if all(self._is_met(need, row, others) for row, need in placement):
                del gone[victim.id]
        return (placement, set(gone)) if gone else None

    def _candidates(self, need: NodeRequirement) -> list[int]:
        """Return the rows that would suffice if all candidates left, most free resources first.

        On nodes with more free resources, fewer jobs must leave.
        """
        timeline = self._timeline
        free = timeline.free_now
        able = free + self._back_now
        if need.gpu_share_pct < 100:
            able[GPUS:, list(timeline.shared)] += 1  # An upper bound: the part may fit beside the sharers.
        rows = np.flatnonzero(timeline.enough(need, able) & self._mask)
        found: list[int] = rows[np.lexsort((rows, -free[CPUS, rows], -free[GPUS, rows]))].tolist()
        return found

    def _is_met(self, need: NodeRequirement, row: int, gone: Collection[JobId]) -> bool:
        free = FreeUntil(self._timeline, row, until=self._until)
        for candidate in self._candidates_by_row.get(row, ()):
            if candidate.victim.id in gone:
                free.leave(candidate)
        return free.meets(need)

    def _fewest(self, need: NodeRequirement, row: int) -> list[PreemptionCandidate] | None:
        """Return the smallest set of victims that must leave this node for the requirement, weakest claim
        first. None if even all of them are not enough.
        """
        free = FreeUntil(self._timeline, row, until=self._until)
        chosen: list[PreemptionCandidate] = []
        for candidate in self._candidates_by_row.get(row, ()):
            if free.meets(need):
                break
            free.leave(candidate)
            chosen.append(candidate)
        if not free.meets(need):
            return None
        for candidate in reversed(chosen):
            free.leave(candidate, back=True)
            if free.meets(need):
                chosen = [each for each in chosen if each is not candidate]
            else:
                free.leave(candidate)
        return chosen
