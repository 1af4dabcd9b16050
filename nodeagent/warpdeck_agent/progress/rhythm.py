"""Decides whether a launch is suspected to hang. Pure.

Data: an `Activity` per look at the launch's processes on this node: whether its output grew, how many bytes it read and
wrote, its CPU time, and the power of its GPUs. A `Rhythm` keeps the launch's own past.

Decision (`Rhythm.stall`): a launch is suspected if all of these hold:

- Its output grew at least MIN_GAPS times, so that it has shown a rhythm.
- It is quiet: its output does not grow, it reads and writes nothing, and it does not work as it usually does: the power of
  its GPUs is low, or it has no GPU and its CPU time is low.
- It has been quiet for LATE_FACTOR times the usual gap of its output, and QUIET_FACTOR times its longest recent quiet time,
  which may have been an evaluation, but at least for MIN_QUIET_S.

A launch that computes, reads data or writes a checkpoint without output is therefore never suspected. CPU time does not
count as work if the launch has GPUs, because a rank that waits in NCCL uses a whole core. A suspicion is no alarm: the
controller decides with the evidence of all ranks.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass
from typing import Deque, Optional

MIN_GAPS = 6
"""Number of gaps between growths of the output from which a launch has a rhythm."""
LATE_FACTOR = 3.0
"""A launch is late after this multiple of the usual gap of its output."""
QUIET_FACTOR = 1.5
"""The same for its longest quiet time, such as an evaluation by one rank while the others wait."""
MIN_QUIET_S = 20.0
"""Shortest time without activity, in seconds, after which a launch is suspected."""
RECENT_GAPS = 100
"""Number of the last gaps, and of the last quiet times, that are kept."""
IO_BYTES = 64 * 1024
"""Bytes in one look from which reading and writing counts as activity. Heartbeats of libraries move less."""
WORK_SHARE = 0.5
"""Fraction of the usual power or CPU time from which a launch counts as working."""
IDLE_CORES = 0.1
"""A launch without GPUs that uses less CPU time than this does not work."""


@dataclass(frozen=True)
class Activity:
    """The activity of a launch since the previous look, which was `passed_s` seconds ago."""

    at: float
    passed_s: float
    wrote_output: bool
    io_bytes: int
    cpu_s: float
    gpu_power_w: Optional[float] = None
    """The present power of its GPUs, None if it has none or it is not known."""


class Rhythm:
    """The past of one launch. All times are on one monotonic clock."""

    def __init__(self, begun_at: float) -> None:
        self._output_at = -math.inf
        self._active_at = begun_at
        self._gaps: Deque[float] = deque(maxlen=RECENT_GAPS)
        self._quiet: Deque[float] = deque(maxlen=RECENT_GAPS)
        """Quiet times of at least MIN_QUIET_S."""
        self._work: Deque[float] = deque(maxlen=RECENT_GAPS)
        self._has_power = False
        self._limit_s = math.inf
        self._usual_work = 0.0

    def add(self, activity: Activity) -> None:
        """Add the result of a look."""
        if (activity.gpu_power_w is not None) is not self._has_power:
            self._has_power = not self._has_power
            self._work.clear()
            self._usual_work = 0.0
        work = _work(activity)
        if activity.wrote_output:
            if math.isfinite(self._output_at):
                self._gaps.append(activity.at - self._output_at)
                self._work.append(work)
            self._output_at = activity.at
        if activity.wrote_output or activity.io_bytes >= IO_BYTES or self._works(work):
            if activity.at - self._active_at >= MIN_QUIET_S:
                self._quiet.append(activity.at - self._active_at)
            self._active_at = activity.at
        if activity.wrote_output:
            self._learn()

    def rest(self, at: float) -> None:
        """Count the time up to now as activity, for example because the launch is suspended."""
        self._active_at = at

    def stall(self, now: float) -> Optional[float]:
        """Return for how long the launch has been quiet, in seconds, if it is suspected to hang."""
        quiet_s = now - self._active_at
        return quiet_s if quiet_s >= self._limit_s else None

    def _learn(self) -> None:
        if len(self._gaps) >= MIN_GAPS:
            late_s = LATE_FACTOR * statistics.median(self._gaps)
            self._limit_s = max(late_s, QUIET_FACTOR * max(self._quiet, default=0.0), MIN_QUIET_S)
        if self._work:
            self._usual_work = sum(self._work) / len(self._work)

    def _works(self, work: float) -> bool:
        if self._has_power:
            return work >= WORK_SHARE * self._usual_work
        return work >= max(WORK_SHARE * self._usual_work, IDLE_CORES)


def _work(activity: Activity) -> float:
    """Return the power in watts, or else the number of busy cores."""
    if activity.gpu_power_w is not None:
        return activity.gpu_power_w
    return activity.cpu_s / max(activity.passed_s, 1e-3)
