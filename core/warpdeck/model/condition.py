"""Whether a node took jobs, over time."""

from __future__ import annotations

import msgspec

from .health import GpuDrain
from .ids import NodeName


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """What kept jobs off a node and off its GPUs from that moment on, until its next condition."""

    node: NodeName
    at_unix: float
    drained: bool = False
    reason: str = ""
    """Why it was drained."""
    down: bool = False
    """It did not answer."""
    down_reason: str = ""
    """Of a condition the last word: a link breaks, and only the next attempt says why."""
    gpu_drains: tuple[GpuDrain, ...] = ()
