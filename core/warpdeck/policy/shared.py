"""A GPU that jobs share: how much of it is free, and from when it is a whole GPU again. Pure."""

from __future__ import annotations

import numpy as np

from .cluster import Floats, Ints, Mask


class SharedGpu:
    """A GPU with its sharers, each (when it ends, percent). Sharers only leave: what is free of it grows with time."""

    def __init__(self, index: int, gpu_type: str) -> None:
        self.index = index
        self.gpu_type = gpu_type
        self.sharers: list[tuple[float, int]] = []

    @property
    def left_now(self) -> int:
        """Percent that nobody holds now. One whose time is over holds its part until it is gone."""
        return 100 - sum(percent for _, percent in self.sharers)

    @property
    def whole_at(self) -> float:
        """When the last sharer ends."""
        return max(ends for ends, _ in self.sharers)

    def left(self, times: Floats) -> Ints:
        """Percent that nobody holds at the beginning of each step; the first step is now."""
        left: Ints = np.full(len(times), 100, dtype=np.int64)
        for ends, percent in self.sharers:
            left[times < ends] -= percent
        left[0] = self.left_now
        return left

    def is_shared(self, times: Floats) -> Mask:
        """In which steps it has sharers."""
        shared: Mask = times < self.whole_at
        shared[0] = True
        return shared
