"""The messages about launches: start, change and end a launch, and the agent's reports of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Literal, Optional, Tuple

from .container import Container
from .watch import Curve, GpuUsage, OwnUse

AHEAD_S = 1.0
"""Time in seconds that a prefetched launch waits on its node for an earlier launch to end. It is short
because the controller may change its decision.
"""
SUSPENDED, RESUMED = "suspended", "resumed"
"""Causes of a Kill message that suspends or resumes a job instead of ending it."""
Key = Tuple[int, int]
"""(job id, restarts): one launch."""


# ---- controller to agent


@dataclass(frozen=True)
class TreeRef:
    """A code snapshot: the git tree id, the SHA-256 and size of its tar.gz, and the submit folder inside it.

    `links` are names, relative to the snapshot's root, of files that git ignores (data, virtual
    environments). If the submit folder is visible on the node, these names are linked from there into the
    checkout.
    """

    tree: str
    sha256: str
    size_bytes: int
    root: str
    subdir: str = ""
    links: List[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hooks:
    """The site's programs around a launch.

    They run as the agent's user with `env` and nothing of the job's own environment.
    """

    prolog: str = ""
    """Path of the prolog. If it fails, the launch is refused and the node is drained."""
    epilog: str = ""
    """Path of the epilog, which runs after all processes of the launch have ended. If it fails, the node is
    drained.
    """
    timeout_s: float = 60.0
    env: Dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Launch:
    """Start a job's share on this node.

    Paths are those of the submit host; %-patterns are already resolved.
    """

    job_id: int
    restarts: int
    user: str
    uid: int
    role: str
    """"batch": run `script`. "tasks": run `argv` in `tasks` processes. "hold": only hold the allocation
    (other nodes of the job).
    """
    env: Dict[str, str]
    cwd: str
    cwd_visible: bool
    """Whether the submit folder is the same folder on this node, so that output goes straight to its
    files.
    """
    stdout: str = ""
    """Absolute path. With "", the output stays in the agent's own folder, from where it can be streamed."""
    stderr: str = ""
    """Absolute path. With "", standard error goes to the same file as standard output."""
    append: bool = False
    stdin: str = ""
    """File for the standard input of a batch script, relative to the working folder of the script. "" means
    no input.
    """
    limits: Dict[str, int] = field(default_factory=dict)
    """Soft limits of the job's processes by name (NOFILE etc.), in the unit of setrlimit(2). -1 means
    unlimited.
    """
    script: str = ""
    script_args: List[str] = field(default_factory=list)
    login: bool = False
    """Whether the job gets the variables of the user's login shell. Variables in `env` take precedence."""
    argv: List[str] = field(default_factory=list)
    tasks: int = 1
    first_rank: int = 0
    gpus: List[str] = field(default_factory=list)
    """UUIDs of the GPUs."""
    cuda_visible_devices: str = "uuid"
    """How CUDA_VISIBLE_DEVICES names the GPUs: "uuid", or "index" (counted as the job's processes see
    them).
    """
    gpu_share_pct: int = 100
    """If below 100, the share of its GPU's memory that the job may use, in percent. A job that exceeds it is
    ended with cause "oom".
    """
    share_grace_s: float = 10.0
    """Time in seconds that a job may exceed its share of GPU memory after it was warned."""
    share_start_s: float = 0.0
    """The longest time in seconds that the launch waits until the previous job on the shared GPU has
    allocated its memory.
    """
    cpus: int = 1
    mem_bytes: int = 0
    max_processes: int = 0
    """The most processes and threads that the job may have at once. 0 means no limit."""
    tmp_dir: str = ""
    """Folder in which the job's TMPDIR is created. "" means /tmp."""
    private_dirs: List[str] = field(default_factory=list)
    """Folders that are private to the job, if the node supports it. `shared_dirs` are folders below them that
    stay the node's.
    """
    shared_dirs: List[str] = field(default_factory=list)
    container: Optional[Container] = None
    hooks: Optional[Hooks] = None
    unkillable_s: float = 60.0
    """How long a process may survive KILL, in seconds, before the node is considered faulty."""
    empty_gpus: bool = False
    """Refuse the launch, to be retried, if a process that belongs to no job holds memory on the launch's
    GPUs.
    """
    confine: List[str] = field(default_factory=lambda: ["memory", "cpus", "devices"])
    """The resources that are limited to the job's share. The job may use more of the other resources."""
    time_limit_s: Optional[float] = None
    grace_s: float = 30.0
    warn_signal: int = 0
    """Signal that is sent `warn_before_s` before the time limit; 0 for none. `warn_batch_only`: only the
    batch shell gets it.
    """
    warn_before_s: float = 0.0
    warn_batch_only: bool = False
    requeues_at_limit: bool = False
    """Whether the job returns to the queue at its limit if it has checkpointed (see `launch.checkpoints`)."""
    limit_grace_s: float = 0.0
    """The longest time in seconds beyond its limit for which it may wait for its next checkpoint."""
    idle_limit_s: float = 0.0
    """For a terminal job: idle time in seconds after which it is ended with cause "idle"; 0 means never. The
    user is warned `idle_warning_s` before.
    """
    idle_warning_s: float = 0.0
    in_place: bool = False
    """Whether the tree is used only if the node does not see the submit folder."""
    tree: Optional[TreeRef] = None
    workspace: str = ""
    """Name of the checkout folder. The tasks of one array share a checkout."""
    pty: bool = False
    rows: int = 24
    cols: int = 80
    behind: List[int] = field(default_factory=list)
    """[job_id, restarts] of another launch on this node. This launch is prefetched and begins when that one
    has ended.
    """
    behind_s: float = AHEAD_S
    """If a prefetched launch has not begun this many seconds after it arrived, it is returned with
    GivenBack.
    """
    proof: str = ""
    """Text by which the controller recognizes its own launches; see `past_launches`."""
    record: str = ""
    """The job as the controller has committed it, sealed and not readable for the agent."""
    t: Literal["launch"] = "launch"


@dataclass(frozen=True)
class Kill:
    """End a job: TERM to all its processes, then KILL after `grace_s` seconds.

    With `signal`, only that signal is sent, once. `whom` selects all processes, the batch shell, or the
    programs that the shell runs. With a signal and the cause SUSPENDED or RESUMED, the clock of the time
    limit stops or continues as well. With `saves`, the job may first save its work (see `registry.saving`).
    """

    job_id: int
    restarts: int
    cause: str = "cancelled"
    grace_s: float = 30.0
    signal: int = 0
    whom: str = "all"
    saves: bool = False
    t: Literal["kill"] = "kill"


@dataclass(frozen=True)
class TakeBack:
    """Revoke prefetched launches ([job_id, restarts]) that have not begun.

    The agent lists these in GivenBack. It says nothing about launches that have already begun, and they
    continue unchanged.
    """

    launches: List[List[int]]
    t: Literal["take_back"] = "take_back"


@dataclass(frozen=True)
class SetLimit:
    """Change the time limit of a launch, in seconds from its start. None means no limit."""

    job_id: int
    restarts: int
    time_limit_s: Optional[float] = None
    t: Literal["set_limit"] = "set_limit"


@dataclass(frozen=True)
class Forget:
    """The controller has durably recorded the end of this launch, so the agent may delete its spool."""

    job_id: int
    restarts: int
    t: Literal["forget"] = "forget"


@dataclass(frozen=True)
class Notice:
    """A line of text for the users of a job.

    It is appended to the job's standard error, or shown on its terminal.
    """

    job_id: int
    restarts: int
    text: str
    t: Literal["notice"] = "notice"


# ---- agent to controller


@dataclass(frozen=True)
class JobReport:
    """The agent's state of one launch.

    `phase` is "running", "exited", or "lost" (it was started, but its supervisor is gone).
    """

    job_id: int
    restarts: int
    phase: str
    pid: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    exit_code: int = 0
    signal: int = 0
    cause: str = ""
    """Why it ended, if it did not end by itself: "timeout", "cancelled", "oom" or "unknown". A running launch with
    a cause is being ended.
    """
    message: str = ""
    stdout_path: str = ""
    stderr_path: str = ""
    work_dir: str = ""
    peak_mem_bytes: int = 0
    cpu_seconds: float = 0.0
    system_s: float = 0.0
    """The part of the CPU seconds that the kernel spent on its behalf."""
    own: Optional[OwnUse] = None
    """Usage of the launch outside of its steps. Set only for a launch that had steps."""
    gpu: Optional[GpuUsage] = None
    curve: Optional[Curve] = None
    """Usage curve over the whole life of an ended launch, at reduced resolution."""
    suspended: bool = False
    """Whether the launch is suspended. The clock of its time limit is then stopped as well."""
    time_limit_s: float = -1.0
    """The time limit that is enforced on a running launch, in seconds. 0 means no limit, -1 means unknown."""
    checkpoint_at: float = 0.0
    """The time of the last checkpoint that was seen, for a launch with `requeues_at_limit`; 0 without one."""
    drain: str = ""
    """For an ended launch: the reason why the node should be drained."""
    proof: str = ""
    """The proof of the launch."""
    t: Literal["report"] = "report"


@dataclass(frozen=True)
class Remark:
    """A remark about a launch for the users of its job. It does not change the job's state."""

    job_id: int
    restarts: int
    text: str
    t: Literal["remark"] = "remark"


@dataclass(frozen=True)
class LaunchFailed:
    """The launch failed: the job did not start, and nothing of it runs."""

    job_id: int
    restarts: int
    message: str
    again: bool = False
    """Whether the node is at fault instead of the job, so that the launch may be retried."""
    drain: str = ""
    """The reason why the node should be drained."""
    check: str = ""
    """The health check that fails on this node (for example disk). The node is drained until the check
    succeeds, and the job starts on another node.
    """
    t: Literal["launch_failed"] = "launch_failed"


@dataclass(frozen=True)
class GivenBack:
    """Prefetched launches ([job_id, restarts]) that were waiting behind other launches.

    They have not begun, and will not.
    """

    launches: List[List[int]]
    t: Literal["given_back"] = "given_back"
