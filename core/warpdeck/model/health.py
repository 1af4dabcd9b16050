"""Health of nodes and GPUs: results of checks, and GPUs that the checks took out of service."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .ids import GpuUuid


class Verdict(StrEnum):
    """Result of a health check. WARN only informs people; FAIL takes the node or GPU out of service."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


CHECKS = {
    "xid": "errors that the GPU's driver tells",
    "ecc": "memory errors of a GPU that could not be corrected",
    "row_remap": "rows of a GPU's memory that could not be replaced",
    "gpu_lost": "a GPU that has fallen off the bus",
    "thermal": "a GPU that is throttled by heat for long",
    "gpu_memory": "memory of a GPU that no process holds",
    "gpus": "a GPU that was there at an earlier start and is not now",
    "disk": "room on the disks of the agent's folder and of /tmp",
    "agent": "the agent's own folder: whether it is there and can be written",
    "mount": "network mounts that hang or are stale",
    "clock": "the node's clock beside the controller's",
    "program": "the site's own program",
}
"""Health checks: their names and what each of them examines."""

CLEARING = frozenset({"thermal", "gpu_memory", "gpus", "disk", "agent", "mount", "clock", "program"})
"""Checks that end their drain by themselves when they succeed again. After any other check, an admin has to
resume the node.
"""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The latest result of one health check.

    An empty `uuid` means that the result concerns the node as a whole. The result of a check that succeeded
    may cover several GPUs.
    """

    name: str
    verdict: Verdict
    message: str = ""
    gpu: int = -1
    uuid: str = ""


class GpuDrain(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that is drained, so no job can use it. An empty `check` means that an admin drained it."""

    uuid: GpuUuid
    reason: str
    check: str = ""
    at_unix: float = 0.0


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The last known health of a node."""

    at_unix: float
    checks: tuple[Check, ...] = ()
    last_xids: dict[str, int] = {}
    """GPU UUID -> number of the last Xid error that the GPU reported."""
    clock_off_s: float = 0.0
    """Seconds by which the node's clock is ahead of the controller's; 0 if the difference is within the
    site's tolerance.
    """
