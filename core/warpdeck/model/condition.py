"""Records of whether a node accepted jobs, as a history over time."""

from __future__ import annotations

import msgspec

from .health import GpuDrain
from .ids import NodeName


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Reasons that keep jobs off a node or off its GPUs, valid from `at_unix` until the node's next
    `Condition`.
    """

    node: NodeName
    at_unix: float
    drained: bool = False
    reason: str = ""
    """The reason for the drain."""
    drained_by: str = ""
    """The user who drained the node; "" if the controller did."""
    down: bool = False
    """True if the node did not respond."""
    down_reason: str = ""
    """The latest reason why the node is down. It can change while the condition lasts: a connection breaks
    first, and only the next attempt to connect reports the cause.
    """
    gpu_drains: tuple[GpuDrain, ...] = ()
