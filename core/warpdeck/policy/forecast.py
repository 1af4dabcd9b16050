"""When will it start? The queue is played forward in order: jobs end at their limits, and each waiting job starts as
soon as it fits. Without backfill, so it is an honest late estimate for jobs far behind, and exact for the head. Pure.

A job without a limit is taken to end after ENDLESS_S; what could only start then has no expected start.
"""

from __future__ import annotations

import heapq

from warpdeck.model import Allocation, JobId, NodeName

from .placement import Rooms, candidates, place, take
from .settings import Settings
from .view import PendingJob, RunningJob, View

ENDLESS_S = 10 * 365 * 86_400.0
MAX_FORECAST = 64
"""Jobs whose start is estimated in a pass; further back an estimate would say little."""


class Forecast:
    """The cluster's future: what frees when. `rooms` is what is free at `at_unix`."""

    def __init__(self, view: View, rooms: Rooms, started: list[RunningJob], *, now: float) -> None:
        self.rooms: Rooms = {name: room.copy() for name, room in rooms.items()}
        self.at_unix = now
        self._now = now
        self._ends: list[tuple[float, JobId, int, Allocation]] = []
        for job in (*view.running, *started):
            ends = job.ends_by_unix if job.ends_by_unix is not None else now + ENDLESS_S
            self._push(max(ends, now), job.id, job.allocation)

    def start_of(
        self, job: PendingJob, *, nodes: frozenset[NodeName] | None, settings: Settings
    ) -> tuple[float, Allocation] | None:
        """Plays forward until the job fits; (time, allocation), or None if it never does. The job is then taken to run."""
        while True:
            found = place(
                candidates(self.rooms, job.resources, nodes),
                job.resources,
                default_mem_per_cpu_bytes=settings.default_mem_per_cpu_bytes,
            )
            if found is not None:
                break
            if not self._ends:
                return None
            self._advance()
        take(self.rooms, found)
        limit = job.time_limit_s if job.time_limit_s is not None else settings.default_time_s
        self._push(self.at_unix + (ENDLESS_S if limit is None else limit), job.id, found)
        return self.at_unix, found

    def is_known(self, at_unix: float) -> bool:
        """Whether that time rests on limits alone, not on an endless job's end."""
        return at_unix < self._now + ENDLESS_S

    def _push(self, at_unix: float, job_id: JobId, allocation: Allocation) -> None:
        heapq.heappush(self._ends, (at_unix, job_id, len(self._ends), allocation))

    def _advance(self) -> None:
        """To the next moment at which something ends."""
        self.at_unix, _, _, allocation = heapq.heappop(self._ends)
        self._give(allocation)
        while self._ends and self._ends[0][0] <= self.at_unix:
            self._give(heapq.heappop(self._ends)[3])

    def _give(self, allocation: Allocation) -> None:
        for share in allocation.shares:
            if share.node in self.rooms:
                self.rooms[share.node].give(share)
