"""The health of nodes and their GPUs: checks, and what they took out of service."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .ids import GpuUuid


class Verdict(StrEnum):
    """What a check found. WARN is for people to know; FAIL takes what it is about out of service."""

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
"""Name -> what it looks at."""

CLEARING = frozenset({"thermal", "gpu_memory", "gpus", "disk", "agent", "mount", "clock", "program"})
"""Checks whose drain ends by itself when they are well again. After any other an admin has to look."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The last word of a check. `uuid` "" is about the node as a whole; a check that is well may speak of several GPUs."""

    name: str
    verdict: Verdict
    message: str = ""
    gpu: int = -1
    uuid: str = ""


class GpuDrain(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that no job may have. `check` "": an admin said so."""

    uuid: GpuUuid
    reason: str
    check: str = ""
    at_unix: float = 0.0


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """What was last known of a node."""

    at_unix: float
    checks: tuple[Check, ...] = ()
    last_xids: dict[str, int] = {}
    """GPU -> the last Xid that it told."""
    clock_off_s: float = 0.0
    """How far its clock is ahead of the controller's; 0 where that is no more than the site allows."""
