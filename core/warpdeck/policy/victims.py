"""On which nodes a gang would fit if others left, and the fewest of them who must. Pure.

A node fits if the need is met from now until the job's end, with what the victims would hold of it until their own ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from warpdeck.model import JobId

from .cluster import CPUS, GPUS, Ints, Mask
from .demand import Need
from .placement import Gang, Spot, choose, whole_amounts
from .timeline import ENDLESS_S, Timeline
from .view import RunningJob

ENOUGH_NODES = 100
"""Nodes that would do, of which the one is taken where least work is lost. Bounds the search on large clusters."""
Give = tuple[RunningJob, Ints]
"""A job that may be pushed aside, and what it gives back on one node."""


class Clearing:
    """The nodes of a mask with those who may be pushed off them, worst claim first."""

    def __init__(
        self,
        timeline: Timeline,
        mask: Mask,
        duration_s: float,
        gives: Mapping[int, Sequence[Give]],
        *,
        lost_work: Callable[[Iterable[RunningJob]], float],
    ) -> None:
        self._timeline = timeline
        self._mask = mask
        self._back_now: Ints = np.zeros(timeline.free.shape[:2], dtype=np.int64)
        for row, victims in gives.items():
            for _, amounts in victims:
                self._back_now[:, row] += amounts
        self._until = timeline.now + duration_s
        self._gives = gives
        self._lost_work = lost_work

    def find(self, gang: Gang, max_switches: int | None) -> tuple[Spot, set[JobId]] | None:
        """Where the gang goes, and who must leave; None if it fits nowhere, or fits with nobody leaving."""
        fitting: list[Ints] = []
        leaving: dict[tuple[int, Need], list[Give]] = {}
        for need, _ in gang.wanted:
            fits: list[tuple[float, int]] = []
            for row in self._candidates(need):
                if len(fits) >= max(ENOUGH_NODES, 2 * gang.nodes) and max_switches is None:
                    break
                chosen = self._fewest(need, row)
                if chosen is not None:
                    fits.append((self._lost_work(victim for victim, _ in chosen), row))
                    leaving[row, need] = chosen
            fits.sort()
            kept = fits if max_switches is not None else fits[: gang.nodes]
            fitting.append(np.array([row for _, row in kept], dtype=np.int64))
        spot = choose(self._timeline, gang, fitting, self._timeline.now, max_switches=max_switches)
        if spot is None:
            return None
        gone = {victim.id: victim for row, need in spot for victim, _ in leaving[row, need]}
        # One who leaves gives back what he holds on all nodes: another may stay for that.
        for victim in sorted(gone.values(), key=lambda victim: (victim.start_at_unix, victim.id)):
            others = gone.keys() - {victim.id}
            if all(self._is_met(need, row, others) for row, need in spot):
                del gone[victim.id]
        return (spot, set(gone)) if gone else None

    def _candidates(self, need: Need) -> list[int]:
        """The nodes that would do if all left who can be made to; those with most free first: there fewest must leave."""
        free = self._timeline.free_now
        rows = np.flatnonzero(self._timeline.enough(need, free + self._back_now) & self._mask)
        found: list[int] = rows[np.lexsort((rows, -free[CPUS, rows], -free[GPUS, rows]))].tolist()
        return found

    def _is_met(self, need: Need, row: int, gone: Collection[JobId]) -> bool:
        asked = whole_amounts(self._timeline.cluster, row, need) > 0
        missing = self._missing(need, row)
        for give in self._gives.get(row, ()):
            if give[0].id in gone:
                missing = missing - self._back(row, give)[asked]
        return bool((missing <= 0).all())

    def _missing(self, need: Need, row: int) -> Ints:
        """By column and step until the job's end, what is not free."""
        timeline = self._timeline
        wanted = whole_amounts(timeline.cluster, row, need)
        missing: Ints = wanted[:, None] - timeline.free[:, row, : self._steps(row)]
        asked = wanted > 0
        return missing[asked]

    def _back(self, row: int, give: Give) -> Ints:
        """By column and step, what the victim gives: after its own end it is free in any case."""
        victim, amounts = give
        ends = self._timeline.now + ENDLESS_S if victim.ends_by_unix is None else victim.ends_by_unix
        held = self._timeline.times[row, : self._steps(row)] < ends
        held[0] = True
        back: Ints = amounts[:, None] * held
        return back

    def _steps(self, row: int) -> int:
        return max(1, int((self._timeline.times[row] < self._until).sum()))

    def _fewest(self, need: Need, row: int) -> list[Give] | None:
        """The fewest, worst claim first, without whom the need is met on the node; None if it never is."""
        asked = whole_amounts(self._timeline.cluster, row, need) > 0
        missing = self._missing(need, row)
        chosen: list[tuple[Give, Ints]] = []
        for give in self._gives.get(row, ()):
            if (missing <= 0).all():
                break
            back = self._back(row, give)[asked]
            if (back[missing > 0] > 0).any():
                chosen.append((give, back))
                missing = missing - back
        if (missing > 0).any():
            return None
        for entry in list(reversed(chosen)):
            if (missing + entry[1] <= 0).all():
                chosen = [other for other in chosen if other is not entry]
                missing = missing + entry[1]
        return [give for give, _ in chosen]
