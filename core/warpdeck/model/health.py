"""Health of nodes and GPUs: results of checks, and GPUs that the checks took out of service."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .ids import GpuUuid


class CheckVerdict(StrEnum):
    """Result of a health check. WARN only informs people; FAIL takes the node or GPU out of service."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


CHECKS = {
    "xid": "errors that the GPU's driver reports",
    "ecc": "uncorrectable memory errors of a GPU",
    "row_remap": "memory rows of a GPU that could not be remapped",
    "gpu_lost": "a GPU that has fallen off the bus",
    "thermal": "a GPU that has been throttled for a long time because of heat",
    "gpu_memory": "GPU memory in use that belongs to no process",
    "gpus": "a GPU that was present at an earlier start of the agent and is missing now",
    "disk": "free space on the disks of the agent's folder and of /tmp",
    "agent": "the agent's own folder, which must exist and be writable",
    "mount": "network mounts that hang or are stale",
    "clock": "the difference between the clocks of the node and the controller",
    "program": "the site's own check program",
}
"""Names of the health checks, with a description of each check."""

CLEARING = frozenset({"thermal", "gpu_memory", "gpus", "disk", "agent", "mount", "clock", "program"})
"""Checks for which a drain ends automatically when they succeed again. After a drain by any other check, an
admin must resume the node.
"""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The latest result of one health check.

    An empty `uuid` means that the result applies to the node as a whole. The result of a successful check may
    cover several GPUs.
    """

    name: str
    verdict: CheckVerdict
    message: str = ""
    gpu: int = -1
    uuid: str = ""


class GpuDrain(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that is drained, so no job can use it. An empty `check` means that an admin drained it."""

    uuid: GpuUuid
    reason: str
    check: str = ""
    at_unix: float = 0.0
    user: str = ""
    """The user who drained it; "" if a check did, or if it was drained before this was recorded."""


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
