"""Messages about the node itself: its inventory, its health and its measurements.

They are part of `wire.messages`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Literal, Optional

from .progress import Stall

COLUMNS = ("gpu_util_pct", "gpu_mem_bytes", "gpu_power_w", "gpu_temp_c", "cpu_pct", "mem_bytes")
"""The columns of usage curves. `cpu_pct` 100 is one CPU."""
RINGS = ((1.0, 600), (10.0, 720), (60.0, 1440))
"""(step in seconds, points) of the histories that an agent keeps for a node and its GPUs: ten minutes, two
hours, a day.
"""


@dataclass(frozen=True)
class GpuInfo:
    """A GPU as discovered. `index` is NVML's; `uuid` is the value for CUDA_VISIBLE_DEVICES."""

    index: int
    uuid: str
    name: str
    mem_bytes: int
    minor: int = 0
    bus_id: str = ""
    numa_node: int = -1
    island: int = -1
    """GPUs of a node with the same number are connected by NVLink; -1: no NVLink."""
    isolation: str = ""
    """Isolation between jobs that share the GPU: "mig", "mps", or "" for none."""


@dataclass(frozen=True)
class Facility:
    """One way in which the node constrains jobs.

    `name` is end, memory, cpus, processes, folders (private ones) or devices. `strength`: enforced (by the
    kernel), watched (by the agent), advised (a job could undo it), missing.
    """

    name: str
    strength: str
    how: str = ""


@dataclass(frozen=True)
class Inventory:
    """Inventory of a node. Sizes are in bytes."""

    hostname: str
    boot_id: str
    cpus: int
    mem_bytes: int
    gpus: List[GpuInfo] = field(default_factory=list)
    address: str = ""
    """Address at which the controller reached the node, as the node's own sshd reports it. The connecting
    side fills it in.
    """
    driver: str = ""
    kernel: str = ""
    arch: str = ""
    python: str = ""
    containment: str = ""
    """Description of how jobs are contained and killed on this node, as text."""
    facilities: List[Facility] = field(default_factory=list)
    """The same information as separate entries."""
    containers: List[str] = field(default_factory=list)
    """The container runtimes on the node: enroot, apptainer, singularity, podman."""
    gpu_error: str = ""
    """Why NVML is not used, if a driver is present but does not answer."""
    sockets: int = 0
    """CPU topology, with the two fields below; 0 is unknown."""
    cores_per_socket: int = 0
    threads_per_core: int = 0
    tmp_disk_bytes: int = 0
    """Size of the file system for jobs' temporary files; 0 is unknown."""
    booted_unix: float = 0.0
    """When the node was booted; 0 is unknown."""
    agent_unix: float = 0.0
    """When this agent started."""


@dataclass(frozen=True)
class GpuProcess:
    """A process that uses a GPU.

    `job_id` 0: none of our jobs. `user` and `command` are as the node sees them.
    """

    pid: int
    mem_bytes: int
    job_id: int = 0
    user: str = ""
    command: str = ""
    util_pct: Optional[int] = None


@dataclass(frozen=True)
class GpuLinks:
    """State of a GPU's PCIe and NVLink connections, and the traffic over them.

    None, and no links, means that the GPU has none or that the driver does not report it. PCIe traffic was
    measured in the last ten seconds; NVLink traffic is the mean since the previous reading. Directions are
    seen from the GPU.
    """

    pcie_gen: Optional[int] = None
    """The present generation. An idle GPU lowers it."""
    pcie_gen_max: Optional[int] = None
    pcie_width: Optional[int] = None
    """Number of lanes."""
    pcie_width_max: Optional[int] = None
    pcie_tx_bytes_s: Optional[int] = None
    pcie_rx_bytes_s: Optional[int] = None
    nvlinks: int = 0
    nvlinks_up: int = 0
    nvlink_tx_bytes_s: Optional[int] = None
    """Sum over all links."""
    nvlink_rx_bytes_s: Optional[int] = None


@dataclass(frozen=True)
class GpuSample:
    """One reading of a GPU. None: the driver gave no value (not supported, or the deadline was exceeded)."""

    index: int
    util_pct: Optional[int] = None
    mem_used_bytes: Optional[int] = None
    power_w: Optional[float] = None
    temp_c: Optional[int] = None
    processes: List[GpuProcess] = field(default_factory=list)
    error: str = ""
    unexplained_bytes: int = 0
    """Memory in use for which the driver names no process at all."""
    links: Optional[GpuLinks] = None


@dataclass(frozen=True)
class IdleSession:
    """A terminal job that has been idle since `since_unix`: no typing, no output and no computation."""

    job_id: int
    since_unix: float


@dataclass(frozen=True)
class IdleGpus:
    """A running job that has used none of its GPUs on this node since `since_unix`."""

    job_id: int
    since_unix: float


@dataclass(frozen=True)
class Sample:
    """The node's state at `at_unix`: load per CPU in percent, memory in bytes, and each GPU."""

    at_unix: float
    cpu_pct: float
    mem_used_bytes: int
    gpus: List[GpuSample] = field(default_factory=list)
    idle: List[IdleSession] = field(default_factory=list)
    stalls: List[Stall] = field(default_factory=list)
    """Launches that are suspected to hang."""
    idle_gpus: List[IdleGpus] = field(default_factory=list)
    t: Literal["sample"] = "sample"


@dataclass(frozen=True)
class JobSample:
    """A line that the program `gpusampler` prints in a job of Slurm: the GPUs that it sees on a node, and their values."""

    node: str
    at_unix: float
    cards: List[GpuInfo] = field(default_factory=list)
    gpus: List[GpuSample] = field(default_factory=list)


@dataclass(frozen=True)
class SampleEvery:
    """Set how often the agent sends a Sample.

    Changes of foreign processes on a GPU are still reported at once.
    """

    interval_s: float
    t: Literal["sample_every"] = "sample_every"


@dataclass(frozen=True)
class GpuUsage:
    """GPU usage of a launch, or of one of its steps, on a node.

    All fields are sums, so that nodes can be added up.
    """

    seconds: float = 0.0
    """GPU-seconds with known utilization. The mean utilization is `busy_s` divided by this."""
    busy_s: float = 0.0
    idle_s: float = 0.0
    """GPU-seconds with less than 5 % utilization."""
    mem_peak_bytes: int = 0
    """The largest amount of memory at one time, summed over all its GPUs on this node."""
    energy_j: float = 0.0


@dataclass(frozen=True)
class OwnUse:
    """Usage of a launch outside of its steps."""

    cpu_seconds: float = 0.0
    system_s: float = 0.0
    peak_mem_bytes: int = 0


@dataclass(frozen=True)
class Spread:
    """Distribution of one quantity over the tasks of a step on a node.

    `name` is cpu_s, mem_bytes (peaks), read_bytes or written_bytes.
    """

    name: str
    total: float = 0.0
    most: float = 0.0
    most_rank: int = 0
    least: float = 0.0
    least_rank: int = 0


@dataclass(frozen=True)
class Curve:
    """Means over equal intervals from `begin_unix` on, in columns.

    An empty column was not measured, and None is an unknown value. `uuid` is set in the curve of one GPU.
    """

    begin_unix: float
    step_s: float
    gpu_util_pct: List[Optional[float]] = field(default_factory=list)
    gpu_mem_bytes: List[Optional[float]] = field(default_factory=list)
    gpu_power_w: List[Optional[float]] = field(default_factory=list)
    gpu_temp_c: List[Optional[float]] = field(default_factory=list)
    cpu_pct: List[Optional[float]] = field(default_factory=list)
    mem_bytes: List[Optional[float]] = field(default_factory=list)
    uuid: str = ""


@dataclass(frozen=True)
class AskCurves:
    """Ask for usage curves of a launch, of one of its steps, or (job_id 0) of the node and each of its GPUs.

    The answer is Curves.
    """

    ask: int
    job_id: int = 0
    restarts: int = 0
    step_s: float = 1.0
    """Resolution of a node's curves: 1 (ten minutes are kept), 10 (two hours) or 60 (a day)."""
    step: Optional[int] = None
    """The step's number; None: the whole launch."""
    own: bool = False
    """Ask only for the launch's usage outside of its steps. The answer has no curve and no GPU values."""
    t: Literal["ask_curves"] = "ask_curves"


@dataclass(frozen=True)
class Curves:
    """The answer to AskCurves. For a launch or a step it also has the usage so far."""

    ask: int
    curves: List[Curve] = field(default_factory=list)
    gpu: Optional[GpuUsage] = None
    cpu_seconds: float = 0.0
    peak_mem_bytes: int = 0
    t: Literal["curves"] = "curves"


@dataclass(frozen=True)
class AskMoment:
    """Ask for the state of the node and its GPUs at a moment of the last day. The answer is Moment."""

    ask: int
    at_unix: float
    t: Literal["ask_moment"] = "ask_moment"


@dataclass(frozen=True)
class Strangers:
    """Memory that processes outside of all jobs held on a GPU.

    It is the maximum in the minute that contains the moment.
    """

    index: int
    mem_bytes: Dict[str, int] = field(default_factory=dict)
    """Bytes by user of the processes; "" where the user could not be determined."""
    unexplained_bytes: int = 0
    """As in GpuSample."""


@dataclass(frozen=True)
class Moment:
    """Means over the shortest stored interval that contains the moment.

    `step_s` 0: nothing was measured then.
    """

    ask: int
    begin_unix: float = 0.0
    step_s: float = 0.0
    since_unix: float = 0.0
    """Start of the stored history; 0: it is empty."""
    cpu_pct: Optional[float] = None
    """Load per CPU, as in Sample."""
    mem_used_bytes: Optional[int] = None
    gpus: List[GpuSample] = field(default_factory=list)
    """Without processes and links, which are not stored."""
    strangers: List[Strangers] = field(default_factory=list)
    """One entry for each GPU with known values."""
    t: Literal["moment"] = "moment"


@dataclass(frozen=True)
class Check:
    """Result of one health check of the node.

    `state` is ok, warn (for people to know), or fail (the node or GPU concerned must not run jobs).
    """

    name: str
    """disk, mount, program, ecc, row_remap, gpu_lost or thermal."""
    state: str
    message: str = ""
    gpu: int = -1
    """NVML's index; -1: the node as a whole."""
    uuid: str = ""


@dataclass(frozen=True)
class Fault:
    """A persistent fault of a GPU. Numbers ascend, also over restarts of the agent."""

    number: int
    at_unix: float
    check: str
    """"xid" or "ecc"."""
    gpu: int
    uuid: str
    message: str
    xid: int = 0


@dataclass(frozen=True)
class AskHealth:
    """Set how the node's health is watched from now on.

    The answer is Health. The first request of a link is checked at once. With `ask` above 0, the agent
    repeats all checks and answers under this number. `at_unix` is the controller's clock. The answer repeats
    it, so that the controller's and the node's clocks can be compared however slow the link is.
    """

    at_unix: float
    ask: int = 0
    interval_s: float = 60.0
    program: str = ""
    """Absolute path of the site's own check program, which runs as the agent's user without arguments; "" is
    none.
    """
    program_timeout_s: float = 30.0
    min_free_bytes: int = 256 * 1024 * 1024
    """Minimum free space in bytes; a disk with less counts as full. On small disks, one hundredth of the
    disk's size is used if that is less.
    """
    t: Literal["ask_health"] = "ask_health"


@dataclass(frozen=True)
class Health:
    """The node's health: the last result of every check, and the last faults of its GPUs, oldest first.

    It is sent as the answer to AskHealth, and also whenever something has changed.
    """

    at_unix: float
    checks: List[Check] = field(default_factory=list)
    faults: List[Fault] = field(default_factory=list)
    ask: int = 0
    asked_at_unix: float = 0.0
    """AskHealth's `at_unix`; 0 if this message is not an answer."""
    t: Literal["health"] = "health"
