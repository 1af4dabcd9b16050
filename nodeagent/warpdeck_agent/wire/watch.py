"""Messages about the node itself: what it has, its health, what is measured on it. Part of wire.messages, where all are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Literal, Optional

COLUMNS = ("gpu_util_pct", "gpu_mem_bytes", "gpu_power_w", "gpu_temp_c", "cpu_pct", "mem_bytes")
"""What curves show. `cpu_pct`: 100 is one CPU."""
RINGS = ((1.0, 600), (10.0, 720), (60.0, 1440))
"""(step in seconds, points) in which an agent keeps what a node and its GPUs were like: ten minutes, two hours, a day."""


@dataclass(frozen=True)
class GpuInfo:
    """A GPU as discovered. `index` is NVML's; `uuid` is what CUDA_VISIBLE_DEVICES gets."""

    index: int
    uuid: str
    name: str
    mem_bytes: int
    minor: int = 0
    bus_id: str = ""
    numa_node: int = -1
    island: int = -1
    """GPUs of a node with the same number are joined by NVLink; -1: by none."""
    isolation: str = ""
    """What keeps jobs apart that share it: "mig", "mps", or "" for nothing."""


@dataclass(frozen=True)
class Facility:
    """One way in which the node holds jobs: end, memory, cpus, processes, folders (of their own), devices.

    `strength`: enforced (by the kernel), watched (by the agent), advised (a job could undo it), missing.
    """

    name: str
    strength: str
    how: str = ""


@dataclass(frozen=True)
class Inventory:
    """What a node has. Sizes in bytes."""

    hostname: str
    boot_id: str
    cpus: int
    mem_bytes: int
    gpus: List[GpuInfo] = field(default_factory=list)
    address: str = ""
    """At which the controller reached the node, as the node's own sshd says; filled in by whoever connected."""
    driver: str = ""
    kernel: str = ""
    arch: str = ""
    python: str = ""
    containment: str = ""
    """How jobs are held and killed there, in words."""
    facilities: List[Facility] = field(default_factory=list)
    """The same, one by one."""
    containers: List[str] = field(default_factory=list)
    """The container runtimes there: enroot, apptainer, singularity, podman."""
    gpu_error: str = ""
    """Why NVML is not used, when a driver is there but does not answer."""
    sockets: int = 0
    """With the two below: how the CPUs lie; 0 is unknown."""
    cores_per_socket: int = 0
    threads_per_core: int = 0
    tmp_disk_bytes: int = 0
    """The file system of jobs' temporary files; 0 is unknown."""
    booted_unix: float = 0.0
    """When the node was; 0 is unknown."""
    agent_unix: float = 0.0
    """When this agent began."""


@dataclass(frozen=True)
class GpuProcess:
    """`job_id` 0: no job of ours. `user` and `command` of the process as the node sees them."""

    pid: int
    mem_bytes: int
    job_id: int = 0
    user: str = ""
    command: str = ""
    util_pct: Optional[int] = None


@dataclass(frozen=True)
class GpuLinks:
    """A GPU's PCIe and NVLink: how they are, and what goes over them. None, and no links: it has none, or the driver does not say.

    Of PCIe what was measured in the last ten seconds, of NVLink the mean since the reading before. Directions are the GPU's.
    """

    pcie_gen: Optional[int] = None
    """As it is now: a GPU that idles lowers it."""
    pcie_gen_max: Optional[int] = None
    pcie_width: Optional[int] = None
    """Lanes."""
    pcie_width_max: Optional[int] = None
    pcie_tx_bytes_s: Optional[int] = None
    pcie_rx_bytes_s: Optional[int] = None
    nvlinks: int = 0
    nvlinks_up: int = 0
    nvlink_tx_bytes_s: Optional[int] = None
    """Over all links."""
    nvlink_rx_bytes_s: Optional[int] = None


@dataclass(frozen=True)
class GpuSample:
    """One reading. None: the driver did not say (not supported, or the deadline was overrun)."""

    index: int
    util_pct: Optional[int] = None
    mem_used_bytes: Optional[int] = None
    power_w: Optional[float] = None
    temp_c: Optional[int] = None
    processes: List[GpuProcess] = field(default_factory=list)
    error: str = ""
    unexplained_bytes: int = 0
    """Memory in use, where the driver names no process at all."""
    links: Optional[GpuLinks] = None


@dataclass(frozen=True)
class IdleSession:
    """A terminal's job in which nobody types, nothing is shown and nothing computes since then."""

    job_id: int
    since_unix: float


@dataclass(frozen=True)
class Sample:
    """The node's state at `at_unix`: load per CPU in percent, memory in bytes, each GPU."""

    at_unix: float
    cpu_pct: float
    mem_used_bytes: int
    gpus: List[GpuSample] = field(default_factory=list)
    idle: List[IdleSession] = field(default_factory=list)
    t: Literal["sample"] = "sample"


@dataclass(frozen=True)
class SampleEvery:
    """How often a Sample is wanted from now on; other processes on a GPU are told at once all the same."""

    interval_s: float
    t: Literal["sample_every"] = "sample_every"


@dataclass(frozen=True)
class GpuUsage:
    """What a launch, or a step of one, has used of its GPUs on a node. All are sums, so that nodes can be added up."""

    seconds: float = 0.0
    """GPU-seconds in which utilisation was known: the mean is busy_s of this."""
    busy_s: float = 0.0
    idle_s: float = 0.0
    """GPU-seconds with less than 5 % utilisation."""
    mem_peak_bytes: int = 0
    """The most at one time on all its GPUs here together."""
    energy_j: float = 0.0


@dataclass(frozen=True)
class OwnUse:
    """What a launch has used outside of its steps."""

    cpu_seconds: float = 0.0
    system_s: float = 0.0
    peak_mem_bytes: int = 0


@dataclass(frozen=True)
class Spread:
    """One quantity over the tasks of a step on a node. `name`: cpu_s, mem_bytes (peaks), read_bytes or written_bytes."""

    name: str
    total: float = 0.0
    most: float = 0.0
    most_rank: int = 0
    least: float = 0.0
    least_rank: int = 0


@dataclass(frozen=True)
class Curve:
    """Means over equal steps from `begin_unix` on; an empty column was not measured, None is unknown. `uuid`: of one GPU."""

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
    """What was measured over time: of one launch, of a step of it, or (job_id 0) of the node and each of its GPUs.

    Answered with Curves.
    """

    ask: int
    job_id: int = 0
    restarts: int = 0
    step_s: float = 1.0
    """Of the node: 1 (ten minutes are kept), 10 (two hours) or 60 (a day)."""
    step: Optional[int] = None
    """The step's number; None: the whole launch."""
    own: bool = False
    """Of the launch only what has been used outside of its steps: no curve, and nothing of GPUs."""
    t: Literal["ask_curves"] = "ask_curves"


@dataclass(frozen=True)
class Curves:
    """The answer to AskCurves. For a launch or a step also what it has used so far."""

    ask: int
    curves: List[Curve] = field(default_factory=list)
    gpu: Optional[GpuUsage] = None
    cpu_seconds: float = 0.0
    peak_mem_bytes: int = 0
    t: Literal["curves"] = "curves"


@dataclass(frozen=True)
class AskMoment:
    """What the node and its GPUs were like at a moment of the last day. Answered with Moment."""

    ask: int
    at_unix: float
    t: Literal["ask_moment"] = "ask_moment"


@dataclass(frozen=True)
class Strangers:
    """What was of no job and kept memory of a GPU, in the minute of a moment: the most at a time."""

    index: int
    mem_bytes: Dict[str, int] = field(default_factory=dict)
    """By the user whose processes they were; "" where that was not to be found out."""
    unexplained_bytes: int = 0
    """As in GpuSample."""


@dataclass(frozen=True)
class Moment:
    """Means over the shortest step that holds the moment and is still kept. `step_s` 0: nothing was measured then."""

    ask: int
    begin_unix: float = 0.0
    step_s: float = 0.0
    since_unix: float = 0.0
    """From when on anything is known; 0: nothing yet."""
    cpu_pct: Optional[float] = None
    """Load per CPU, as in Sample."""
    mem_used_bytes: Optional[int] = None
    gpus: List[GpuSample] = field(default_factory=list)
    """Without processes and links, which are not kept."""
    strangers: List[Strangers] = field(default_factory=list)
    """Of each GPU of which it is known."""
    t: Literal["moment"] = "moment"


@dataclass(frozen=True)
class Check:
    """One look at the node's health. `state`: ok; warn (for people to know); fail (what it is about must take no job)."""

    name: str
    """disk, mount, program, ecc, row_remap, gpu_lost, thermal."""
    state: str
    message: str = ""
    gpu: int = -1
    """NVML's index; -1: the node as a whole."""
    uuid: str = ""


@dataclass(frozen=True)
class Fault:
    """Something that happened to a GPU and does not go away by itself. Numbers ascend, whatever becomes of the agent."""

    number: int
    at_unix: float
    check: str
    """xid or ecc."""
    gpu: int
    uuid: str
    message: str
    xid: int = 0


@dataclass(frozen=True)
class AskHealth:
    """How the node's health is to be watched from now on; answered with a Health. The first ask of a link is due at once.

    `ask` above 0: look at everything anew, and answer under this number. `at_unix` is the controller's clock, given back in
    the answer, so that its clock and the node's can be compared however slow the link is.
    """

    at_unix: float
    ask: int = 0
    interval_s: float = 60.0
    program: str = ""
    """Absolute path of the site's own check, run as the agent's user without arguments; "" is none."""
    program_timeout_s: float = 30.0
    min_free_bytes: int = 256 * 1024 * 1024
    """A disk with less room is full, or one with less than a hundredth of its size if that is smaller."""
    t: Literal["ask_health"] = "ask_health"


@dataclass(frozen=True)
class Health:
    """What is known of the node's health: every check's last word, and the last faults of its GPUs, oldest first.

    Sent as the answer to AskHealth, and unasked when something has changed.
    """

    at_unix: float
    checks: List[Check] = field(default_factory=list)
    faults: List[Fault] = field(default_factory=list)
    ask: int = 0
    asked_at_unix: float = 0.0
    """AskHealth's `at_unix`; 0: nobody asked."""
    t: Literal["health"] = "health"
