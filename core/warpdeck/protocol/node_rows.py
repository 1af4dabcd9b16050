"""Answers about nodes, their GPUs and their health. They are the format of `--json` and of the TUI's tables.

Times are Unix seconds, sizes are bytes. None means unknown or not applicable.
"""

from __future__ import annotations

import msgspec

from warpdeck.model import GpuLinks


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process on a GPU. `job` is "" if it belongs to no job."""

    pid: int
    user: str
    command: str
    mem_bytes: int
    job: str = ""


class SharerRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that holds a share of a GPU and of its memory."""

    job: str
    share_pct: int
    user: str = ""


class GpuRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A GPU with its last reading.

    `job` is the label of the job that holds it. `blocked` is the reason why no job may use it.
    """

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
    """All jobs on a GPU that is shared."""
    isolation: str = ""
    """Mechanism that isolates the sharing jobs: "mig" or "mps". With "" their use is only monitored."""
    blocked: str = ""
    processes: list[ProcessRow] = []
    error: str = ""
    island: int = -1
    """Number of the GPU's NVLink group.

    GPUs of a node with the same number are connected by NVLink; -1 means no NVLink.
    """
    numa_node: int = -1
    """NUMA node to which the GPU's PCIe bus is attached; -1 if unknown."""
    links: GpuLinks = GpuLinks()
    """PCIe and NVLink links of the GPU, and the traffic on them."""


class FacilityRow(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that the node imposes on jobs (end, memory, ...), with its strength and mechanism.

    The strength is enforced, watched, advised or missing.
    """

    name: str
    strength: str
    how: str = ""


class CheckRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Last result of a health check.

    `verdict` is ok, warn or fail. `gpu` is None for the node, or for all of its GPUs.
    """

    check: str
    verdict: str
    message: str = ""
    gpu: int | None = None


class NodeHealthRow(msgspec.Struct, frozen=True, kw_only=True):
    """Health checks of a node and the resulting `state` and `reason`, as in NodeRow.

    `error` is the reason why the node could not be asked.
    """

    name: str
    state: str
    reason: str = ""
    checks: list[CheckRow] = []
    error: str = ""
    at: float | None = None


class NodeRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A node. `state` is sinfo's: idle, mixed, allocated, drained, draining, down (link lost), connecting."""

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
    """Number of cores per socket."""
    threads: int = 0
    """Number of threads per core."""
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
    """Time at which the node's agent started (Unix seconds)."""
    containment: str = ""
    facilities: list[FacilityRow] = []
    containers: list[str] = []
    """Container runtimes that the node has."""
    weight: int = 1
    """Scheduling weight; nodes of lower weight are used first."""
    comment: str = ""
    extra: str = ""
    """Note for people and tools, from the site's configuration."""
    address: str = ""
    """Address at which other nodes reach this node."""
    reason_at: float | None = None
    reason_user: str = ""
    """The user who gave the reason; "" if the controller did."""
    features: list[str] = []
    """Features that --constraint may request, from the site's configuration."""
    gpu_error: str = ""
    health: list[CheckRow] = []
    """Health problems, and drained GPUs."""
    jobs: list[str] = []
    owner: str = ""
    """User whose jobs have the node exclusively, as long as one of these jobs requires it."""
    at: float | None = None
    """Time of the last reading."""


class PastNodeRow(NodeRow, frozen=True, kw_only=True, gc=False):
    """A node at a past time. `state` "absent" means that it was not a node yet.

    Its jobs are those that ran at that time. Drains and downs come from the recorded history, readings from
    its agent. Readings are means over `step_s` seconds from `begin` on. The processes are those of no job,
    one for each user (pid 0).
    """

    begin: float | None = None
    step_s: float | None = None
    since: float | None = None
    """Time from which on the agent has measurements, if it reported one."""
    unknown: str = ""
    """Sentence that explains why there are no readings; "" if there are readings."""
    untold: list[str] = []
    """Facts about the node that are not known for that time, other than the readings."""


class NodeEventRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A change of a node, or the start of a large job.

    `kind` is drain, resume, down, up, gpu_drain, gpu_resume or job. `text` is the reason, or the name of the job.
    """

    at: float
    kind: str
    node: str
    """Name of the node; for a job, the list of its nodes."""
    text: str = ""
    job: str = ""
    """Label of the job, if the event is its start."""
    user: str = ""
    """The job's user, or the user who drained the node."""
    gpus: int = 0
    """Number of the job's GPUs, or of the drained GPUs."""


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a node that Slurm's commands print, for a Nodes request with `facts`.

    They are cheap to compute and contain no GPU readings.
    """

    name: str
    hostname: str
    address: str
    base: str
    """One of idle, mixed, allocated, down or unknown (not connected yet), independent of the flags below."""
    state: str
    """State as in NodeRow."""
    drained: bool
    responding: bool
    maintenance: bool
    """Whether the node is in a maintenance reservation."""
    reserved: bool
    """Whether the node is in a reservation, which may be one for maintenance."""
    completing: bool
    """Whether jobs on the node are completing."""
    reason: str
    reason_at: float | None
    reason_user: str
    cpus: int
    sockets: int
    cores: int
    """Number of cores per socket."""
    threads: int
    """Number of threads per core."""
    cpus_used: int
    cpu_pct: float | None
    mem_bytes: int
    tmp_disk_bytes: int
    mem_alloc_bytes: int
    mem_used_bytes: int | None
    gpus: dict[str, int]
    """Number of GPUs by type."""
    gpus_used: dict[str, list[int]]
    """Indices of the allocated GPUs by type."""
    features: list[str]
    weight: int
    comment: str
    extra: str
    kernel: str
    arch: str
    booted: float | None
    agent_start: float | None
    partitions: list[str]
    owner: str
    """User whose jobs have the node exclusively, as in NodeRow."""
    at: float | None
    """Time of the last reading."""
