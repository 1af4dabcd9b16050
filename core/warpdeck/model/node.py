"""Nodes and GPUs as the scheduler knows them, and what was last measured on them."""

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
    """GPUs of a node with the same number are joined by NVLink; -1: by none."""
    isolation: str = ""
    """What keeps jobs apart that share it: "mig", "mps", or "" for nothing but our watching them."""


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A process that holds a GPU. `job_id` 0: a stranger, no job of ours; `pid` 0: all of a user's, of a past minute."""

    pid: int
    mem_bytes: int
    job_id: JobId = JobId(0)
    user: str = ""
    command: str = ""


class GpuLinks(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU's PCIe and NVLink: how they are, and what goes over them. None is unknown, never zero. Directions are the GPU's."""

    pcie_gen: int | None = None
    """As it is now: a GPU that idles lowers it."""
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    """Lanes."""
    pcie_width_max: int | None = None
    pcie_tx_bytes_s: int | None = None
    pcie_rx_bytes_s: int | None = None
    nvlinks: int = 0
    """0: the GPU has none."""
    nvlinks_up: int = 0
    nvlink_tx_bytes_s: int | None = None
    """Over all links."""
    nvlink_rx_bytes_s: int | None = None


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last measurement of a GPU; None is unknown, never zero."""

    index: int
    util_pct: int | None = None
    mem_used_bytes: int | None = None
    power_w: float | None = None
    temp_c: int | None = None
    processes: tuple[GpuProcess, ...] = ()
    error: str = ""
    unexplained_bytes: int = 0
    """Memory in use, where the driver names no process at all."""
    links: GpuLinks = GpuLinks()


class Reading(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last measurement of a node.

    No reading can be part of a cycle, so the collector is spared them (`gc`): the hundreds a second of a large site, kept until
    the next comes, would have it look through all links of the controller again and again.
    """

    at_unix: float
    cpu_pct: float
    mem_used_bytes: int
    gpus: tuple[GpuReading, ...] = ()
    idle: tuple[tuple[JobId, float], ...] = ()
    """Interactive jobs that nobody and nothing uses, and since when."""


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """How the CPUs of a node lie: so many sockets, cores of each, threads of each core. 0 is unknown."""

    sockets: int = 0
    cores: int = 0
    threads: int = 0

    def told(self, cpus: int) -> Topology:
        """As Slurm's commands tell of it: where it is unknown, every CPU is a socket of its own."""
        return self if self.sockets else Topology(sockets=cpus, cores=1, threads=1)


class Facility(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a node holds jobs: end, memory, cpus, processes, folders (of their own), devices.

    `strength`: enforced (by the kernel), watched (by the agent), advised (a job could undo it), missing.
    """

    name: str
    strength: str
    how: str = ""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node: where it is reached, what it has, and whether it takes jobs. `target` "" is this machine, without SSH."""

    name: NodeName
    target: str = ""
    host_key: str = ""
    """The accepted SSH host key, as in known_hosts; "" relies on the user's own known_hosts."""
    cpus: int = 0
    mem_bytes: int = 0
    topology: Topology = Topology()
    tmp_disk_bytes: int = 0
    """The file system of jobs' temporary files; 0 is unknown."""
    gpus: tuple[Gpu, ...] = ()
    arch: str = ""
    """As uname -m has it; "" is unknown."""
    boot_id: str = ""
    booted_at_unix: float = 0.0
    """0 is unknown."""
    agent_at_unix: float = 0.0
    """When its agent began."""
    hostname: str = ""
    address: str = ""
    """At which it was reached last, as it sees it itself; other nodes reach it there too."""
    driver: str = ""
    kernel: str = ""
    containment: str = ""
    facilities: tuple[Facility, ...] = ()
    containers: tuple[str, ...] = ()
    gpu_error: str = ""
    drained: bool = False
    reason: str = ""
    """Why it is drained or down, in words."""
    reason_at_unix: float = 0.0
    drain_checks: tuple[str, ...] = ()
    """The health checks that drained it; () where an admin did."""
    gpu_drains: tuple[GpuDrain, ...] = ()
    """GPUs that take no job while the others do."""
    known_gpus: tuple[GpuUuid, ...] = ()
    """The most GPUs that it was ever found to have, since an admin last resumed it."""
    faults_until: int = 0
    """The number of the last fault of its GPUs that was dealt with."""
    added_at_unix: float = 0.0
