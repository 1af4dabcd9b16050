"""The checkpoints of a launch that returns to the queue at its time limit, and the decision at that limit.

A program announces a checkpoint by writing to or touching the file that WARPDECK_CHECKPOINT names, after the
checkpoint is complete. The file belongs to the user and lies in the launch's folder. The agent reads its modification
time, and nothing else of it; a time in the future is no checkpoint. The last times are kept in the agent's file
`checkpoints`, for its successor.

`goes_on_until` decides how long a launch may run beyond its limit, so that its next checkpoint is not lost. The time
to the next checkpoint is learned from the times of the last ones.

A program that is warned before its limit (--signal) may save its work and exit by itself. `left_for_limit` recognizes
this end, so that it is not taken for the end of the job.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import List, Sequence

from warpdeck_agent.storage.spool import LaunchFolder, Meta

FILE, SEEN = "checkpoint", "checkpoints"
"""The file that the user touches, and the agent's record of the times at which that was seen."""
VARIABLE = "WARPDECK_CHECKPOINT"
LOOK_S = 2.0
"""Interval in seconds at which the agent looks for a new checkpoint."""
LEARNED = 5
"""Number of the last intervals from which the next one is predicted. Older ones may be of another phase."""
KEPT = LEARNED + 1
"""Number of the last times that are kept."""
LATE_FACTOR = 1.25
"""A checkpoint may come later than predicted by this factor of the interval."""


def goes_on_until(limit_unix: float, times: Sequence[float], *, begun_unix: float, grace_s: float) -> float:
    """Return the time at which a launch is ended if no new checkpoint is seen before.

    It is the time limit itself, unless the next checkpoint is expected within `grace_s` after it.
    """
    if not times:
        return limit_unix
    points = [begun_unix, *times]
    gaps = [points[number] - points[number - 1] for number in range(1, len(points))][-LEARNED:]
    next_by = times[-1] + LATE_FACTOR * statistics.median(gaps)
    return next_by if limit_unix < next_by <= limit_unix + grace_s else limit_unix


class Checkpoints:
    """The checkpoints of one launch that were seen."""

    def __init__(self, folder: LaunchFolder, meta: Meta) -> None:
        self._folder = folder
        self._meta = meta
        self.times: List[float] = []
        if meta.requeues_at_limit:
            for line in folder.read_lines(SEEN):
                with contextlib.suppress(ValueError):
                    self.times.append(float(line))

    @property
    def last_unix(self) -> float:
        """The time of the last checkpoint that was seen, or 0."""
        return self.times[-1] if self.times else 0.0

    def look(self) -> float:
        """Look for a new checkpoint. Returns the time of the last one, or 0."""
        if self._meta.requeues_at_limit:
            touched = self._folder.touched_at(FILE)
            if max(self.last_unix, self._meta.started_at) < touched <= time.time():
                self.times = [*self.times, touched][-KEPT:]
                text = "".join(f"{each!r}\n" for each in self.times)
                with contextlib.suppress(OSError):  # on a full disk, only a later agent knows fewer of them
                    self._folder.write(SEEN, text, durable=False)
        return self.last_unix

    def left_for_limit(self) -> bool:
        """Return whether the launch saved its work after the warning before its limit, and then exited."""
        if not self._meta.requeues_at_limit:
            return False
        return 0 < self._folder.touched_at("warned") <= self.look()
