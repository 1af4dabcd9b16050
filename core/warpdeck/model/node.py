"""Nodes and GPUs as the scheduler knows them, and their latest measurements."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .health import GpuDrain
from .ids import GpuUuid, JobId, NodeName


class Link(StrEnum):
    """The state of the connection to a node's agent."""

    CONNECTING = "connecting"
    UP = "up"
    LOST = "lost"


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU. `type` is the short name that --gres=gpu:TYPE matches (a100, h100, ...)."""

    index: int
    uuid: GpuUuid
    name: str
    type: str
    mem_bytes: int
    numa_node: int = -1
    island: int = -1
    """GPUs of one node with the same number are connected by NVLink; -1 means that the GPU has no NVLink
    connection.
    """
    isolation: str = ""
    """How jobs that share the GPU are isolated: "mig", "mps", or "" if only the agent monitors them."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process that uses a GPU.

    `job_id` 0 means that the process belongs to no job of ours. `pid` 0 stands for all processes of one user
    in a past minute.
    """

    pid: int
    mem_bytes: int
    job_id: JobId = JobId(0)
    user: str = ""
    command: str = ""


class GpuLinks(msgspec.Struct, frozen=True, kw_only=True):
    """State and traffic of a GPU's PCIe and NVLink connections.

    None means unknown, never zero. Sent bytes (tx) and received bytes (rx) are from the view of the GPU.
    """

    pcie_gen: int | None = None
    """The current PCIe generation. An idle GPU lowers it."""
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    """Current number of PCIe lanes."""
    pcie_width_max: int | None = None
    pcie_tx_bytes_s: int | None = None
    pcie_rx_bytes_s: int | None = None
    nvlinks: int = 0
    """Number of NVLink links; 0 if the GPU has none."""
    nvlinks_up: int = 0
    nvlink_tx_bytes_s: int | None = None
    """Bytes per second, summed over all links."""
    nvlink_rx_bytes_s: int | None = None


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The latest measurement of a GPU. None means unknown, never zero."""

    index: int
    util_pct: int | None = None
    mem_used_bytes: int | None = None
    power_w: float | None = None
    temp_c: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    error: str = ""
    unexplained_bytes: int = 0
    """GPU memory in use although the driver lists no process at all."""
    links: GpuLinks = GpuLinks()
    mem_bytes: int = 0
    """Memory of the GPU, if the node does not describe its GPUs."""
    source: str = "agent"
    """Origin of the values, as in `GpuUsage`."""


class NodeReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The latest measurement of a node.

    `gc=False` excludes readings from the garbage collector, which is safe because a reading cannot be part of
    a reference cycle. A large site receives hundreds of readings per second and keeps each until the next one
    arrives. With garbage collection, they would repeatedly cause a traversal of all objects of the
    controller.
    """

    at_unix: float
    cpu_pct: float
    mem_used_bytes: int
    gpus: tuple[GpuReading, ...] = ()
    idle: tuple[tuple[JobId, float], ...] = ()
    """Interactive jobs that are idle and unattended, each with the Unix time since which it is idle."""
    stalls: tuple[tuple[JobId, int, float], ...] = ()
    """Jobs that the node suspects to hang: job, number of restarts, and for how many seconds it has been quiet."""
    idle_gpus: tuple[tuple[JobId, float], ...] = ()
    """Jobs whose GPUs of this node are all idle, each with the Unix time since which they are."""


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """CPU topology of a node: sockets, cores per socket, and threads per core. 0 means unknown."""

    sockets: int = 0
    cores: int = 0
    threads: int = 0

    def or_flat(self, cpus: int) -> Topology:
        """Return the topology as Slurm's commands show it. If it is unknown, each CPU counts as a separate
        socket.
        """
        return self if self.sockets else Topology(sockets=cpus, cores=1, threads=1)


class Facility(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of containment that a node offers: end, memory, cpus, processes, folders (private ones),
    devices.

    `strength` is one of: enforced (by the kernel), watched (by the agent), advised (a job could undo it),
    missing.
    """

    name: str
    strength: str
    how: str = ""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node: its address, its hardware, and whether it accepts jobs. An empty `target` means this machine,
    without SSH.
    """

    name: NodeName
    target: str = ""
    host_key: str = ""
    """The accepted SSH host key in the format of known_hosts. If empty, the user's own known_hosts file
    decides.
    """
    cpus: int = 0
    mem_bytes: int = 0
    topology: Topology = Topology()
    tmp_disk_bytes: int = 0
    """Size of the file system that holds the temporary files of jobs; 0 means unknown."""
    gpus: tuple[Gpu, ...] = ()
    arch: str = ""
    """The machine architecture that `uname -m` prints; "" means unknown."""
    boot_id: str = ""
    booted_at_unix: float = 0.0
    """Unix time of the last boot; 0 means unknown."""
    agent_at_unix: float = 0.0
    """Unix time at which the node's agent started."""
    hostname: str = ""
    address: str = ""
    """The node's own address on its most recent connection. Other nodes reach it at this address too."""
    driver: str = ""
    kernel: str = ""
    containment: str = ""
    facilities: tuple[Facility, ...] = ()
    containers: tuple[str, ...] = ()
    gpu_error: str = ""
    drained: bool = False
    reason: str = ""
    """The reason why the node is drained or down."""
    reason_at_unix: float = 0.0
    reason_user: str = ""
    """The user who drained the node; "" if the controller did, or if it was drained before this was recorded."""
    drain_checks: tuple[str, ...] = ()
    """The health checks that drained the node; empty if an admin drained it."""
    gpu_drains: tuple[GpuDrain, ...] = ()
    """GPUs that accept no jobs while the node's other GPUs do."""
    known_gpus: tuple[GpuUuid, ...] = ()
    """The largest set of GPUs ever found on the node since an admin last resumed it."""
    faults_until: int = 0
    """The number of the last GPU fault that was handled."""
    added_at_unix: float = 0.0
