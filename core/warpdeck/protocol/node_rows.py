"""What the controller shows of nodes, their GPUs and their health: the shape of `--json` and of the TUI's tables.

Times are unix seconds, sizes bytes; None is unknown or not applicable.
"""

from __future__ import annotations

import msgspec

from warpdeck.model import GpuLinks


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process on a GPU; job "" is a stranger."""

    pid: int
    user: str
    command: str
    mem_bytes: int
    job: str = ""


class SharerRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that holds a part of a GPU and of its memory."""

    job: str
    share_pct: int
    user: str = ""


class GpuRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A GPU with its last reading. `job`: label of the job that holds it; `blocked`: why none may."""

    index: int
    uuid: str
    name: str
    type: str
    mem_bytes: int
    util_pct: int | None = None
    mem_used_bytes: int | None = None
    power_w: float | None = None
    temp_c: int | None = None
    job: str = ""
    job_user: str = ""
    sharers: list[SharerRow] = []
    """Of a GPU that is shared: all of its jobs."""
    isolation: str = ""
    """What keeps sharers apart: mig, mps; "": nothing, their use is only watched."""
    blocked: str = ""
    processes: list[ProcessRow] = []
    error: str = ""
    island: int = -1
    """GPUs of a node with the same number are joined by NVLink; -1: by none."""
    numa_node: int = -1
    """At which its PCIe bus hangs; -1: not known."""
    links: GpuLinks = GpuLinks()
    """Its PCIe and NVLink, and what goes over them."""


class FacilityRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the node holds jobs to (end, memory, ...), how strongly (enforced, watched, advised, missing), and by what."""

    name: str
    strength: str
    how: str = ""


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A health check's last word. `verdict`: ok, warn, fail. `gpu` None: about the node, or about all GPUs."""

    check: str
    verdict: str
    message: str = ""
    gpu: int | None = None


class NodeHealthRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node's checks, and what follows from them: `state` and `reason` as in NodeRow. `error`: why it could not be asked."""

    name: str
    state: str
    reason: str = ""
    checks: list[CheckRow] = []
    error: str = ""
    at: float | None = None


class NodeRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node. `state` in sinfo's words: idle, mixed, allocated, drained, draining, down (link lost), connecting."""

    name: str
    target: str = ""
    state: str = "connecting"
    reason: str = ""
    hostname: str = ""
    cpus: int = 0
    cpus_used: int = 0
    cpu_pct: float | None = None
    sockets: int = 0
    cores: int = 0
    """Of each socket."""
    threads: int = 0
    """Of each core."""
    mem_bytes: int = 0
    tmp_disk_bytes: int = 0
    mem_alloc_bytes: int = 0
    mem_used_bytes: int | None = None
    gpus: list[GpuRow] = []
    driver: str = ""
    kernel: str = ""
    arch: str = ""
    booted: float | None = None
    agent_start: float | None = None
    """When its agent began."""
    containment: str = ""
    facilities: list[FacilityRow] = []
    containers: list[str] = []
    """The container runtimes that it has."""
    weight: int = 1
    """Nodes of less weight are used first."""
    comment: str = ""
    extra: str = ""
    """What the site's configuration says to people and tools."""
    address: str = ""
    """At which other nodes reach it."""
    reason_at: float | None = None
    features: list[str] = []
    """What --constraint may ask for, as the site's configuration says."""
    gpu_error: str = ""
    health: list[CheckRow] = []
    """What is not well, and GPUs that are drained."""
    jobs: list[str] = []
    owner: str = ""
    """The user whose jobs alone may be there, as long as one of them wants it so."""
    at: float | None = None
    """When it was last read."""


class PastNodeRow(NodeRow, frozen=True, kw_only=True, gc=False):
    """A node as it was (`state` "absent": it was none yet): who held it by the jobs that ran then, drains and downs as they were
    written down, readings as its agent kept them.

    Readings are means over `step_s` seconds from `begin` on. Of processes there are those of no job, one for each user (pid 0).
    """

    begin: float | None = None
    step_s: float | None = None
    since: float | None = None
    """From when on the agent knows anything, where it told."""
    unknown: str = ""
    """Why there are no readings, in a sentence; "" where there are."""
    untold: list[str] = []
    """What else is not known of it."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What Slurm's commands print of a node: cheap, and without its GPUs' readings. For a request for nodes with `facts`."""

    name: str
    hostname: str
    address: str
    base: str
    """idle, mixed, allocated, down or unknown (not connected yet), whatever the flags below say."""
    drained: bool
    responding: bool
    maintenance: bool
    """In a reservation for maintenance."""
    reserved: bool
    completing: bool
    """Jobs of it are ending."""
    reason: str
    reason_at: float | None
    cpus: int
    sockets: int
    cores: int
    """Of each socket."""
    threads: int
    """Of each core."""
    cpus_used: int
    cpu_pct: float | None
    mem_bytes: int
    tmp_disk_bytes: int
    mem_alloc_bytes: int
    mem_used_bytes: int | None
    gpus: dict[str, int]
    """Type -> how many."""
    gpus_used: dict[str, list[int]]
    """Type -> indices of those that jobs hold."""
    features: list[str]
    weight: int
    comment: str
    extra: str
    kernel: str
    arch: str
    booted: float | None
    agent_start: float | None
    partitions: list[str]
