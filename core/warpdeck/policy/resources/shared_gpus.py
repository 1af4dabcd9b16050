"""GPUs that jobs share: the free percentage, and the time at which a GPU becomes whole again.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

import numpy as np

from .cluster import Floats, Ints, Mask


class SharedGpu:
    """A GPU with its sharers (end time, percent) and the booked parts (start, end, percent).

    Sharers only leave, so the part that they leave free grows with time.
    """

    def __init__(self, index: int, gpu_type: str) -> None:
        self.index = index
        self.gpu_type = gpu_type
        self.sharers: list[tuple[float, int]] = []
        self.booked: list[tuple[float, float, int]] = []

    def copy(self) -> SharedGpu:
        """Return a copy on which changes can be tried."""
        made = SharedGpu(self.index, self.gpu_type)
        made.sharers, made.booked = list(self.sharers), list(self.booked)
        return made

    @property
    def left_now(self) -> int:
        """Percentage that no job holds now. A job past its end time holds its part until the job is gone."""
        return 100 - sum(percent for _, percent in self.sharers)

    @property
    def whole_at(self) -> float:
        """The time at which the last sharer ends."""
        return max((ends for ends, _ in self.sharers), default=-np.inf)

    def left(self, times: Floats) -> Ints:
        """Return the percent that is neither held nor booked at the start of each step. The first step is
        now.
        """
        left: Ints = np.full(len(times), 100, dtype=np.int64)
        for ends, percent in self.sharers:
            left[times < ends] -= percent
        left[0] = self.left_now
        for begins, ends, percent in self.booked:
            left[(times >= begins) & (times < ends)] -= percent
        return left

    def is_shared(self, times: Floats) -> Mask:
        """Return a mask of the steps in which the GPU is not whole."""
        shared: Mask = times < self.whole_at
        shared[0] = bool(self.sharers)
        for begins, ends, _ in self.booked:
            shared |= (times >= begins) & (times < ends)
        return shared

    def fits_part(self, percent: int, times: Floats, *, whole: Mask) -> Mask:
        """Return, by step, whether the part fits on the GPU. `whole` is a mask of the steps in which a whole
        GPU of its type is free.
        """
        fits: Mask = np.where(self.is_shared(times), self.left(times) >= percent, whole)
        return fits

    def cut_short(self, sharer: tuple[float, int], ends: float) -> None:
        """End a sharer early, because its job was told to exit by then."""
        self.sharers.remove(sharer)
        self.sharers.append((min(ends, sharer[0]), sharer[1]))
