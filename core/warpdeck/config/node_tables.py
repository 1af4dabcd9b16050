"""The tables of config.toml about what happens on the nodes: GPUs, containment, hooks and health checks."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .forms import Memory
from .table_types import (
    MAX_SECONDS,
    CheckSeconds,
    Count,
    Names,
    Seconds,
    Table,
)


class Gpus(Table, frozen=True, kw_only=True):
    """[gpus]: settings of GPUs."""

    avoid_foreign_processes: bool = True
    """Whether to avoid GPUs on which processes outside the queue hold memory."""
    cuda_visible_devices: Literal["index", "uuid"] = "index"
    """How CUDA_VISIBLE_DEVICES names a job's GPUs: by index or by UUID.

    The index is the index that Slurm would use, and by which the job's processes count the GPUs.
    """
    shards_per_gpu: Count = 0
    """Number of shards of one GPU, which --gres=shard:N requests; 0 means that there are none."""
    share_grace_s: Seconds = 10.0
    """Seconds after which a job that exceeds its share of a GPU's memory is ended. The job is warned first.
    """
    share_start_s: Seconds = 30.0
    """Maximum seconds that a job on a shared GPU waits for the previous job to allocate its memory.

    With 0 it starts at once.
    """


class Containment(Table, frozen=True, kw_only=True):
    """[containment]: limits that nodes enforce on jobs, as far as a node can (cgroup.conf)."""

    memory: bool = True
    """Limit jobs to their requested memory (ConstrainRAMSpace, ConstrainSwapSpace)."""
    cpus: bool = True
    """Limit jobs to their requested number of CPUs (ConstrainCores)."""
    devices: bool = True
    """Limit jobs to their allocated GPUs (ConstrainDevices)."""
    max_processes: Count = 16_384
    """Maximum number of processes and threads of a job on a node; 0 means no limit. It stops fork bombs."""
    unkillable_s: Annotated[float, msgspec.Meta(ge=1, le=MAX_SECONDS)] = 60.0
    """Seconds that a process may survive KILL (UnkillableStepTimeout).

    A process that survives longer hangs in the kernel, and its node is drained.
    """
    tmp_dir: str = ""
    """Folder in which each job's TMPDIR is made (TmpFS); "" is /tmp."""
    private_dirs: tuple[str, ...] = ()
    """Folders that are private to each job until its end (job_container.conf's Dirs).

    They take effect if the agents run as root.
    """
    shared_dirs: tuple[str, ...] = ("/tmp/.X11-unix", "/tmp/nvidia-mps", "/tmp/nvidia-log")
    """Folders below the private folders that are shared with the node, for the sockets of X11 and MPS."""


class Hooks(Table, frozen=True, kw_only=True):
    """[hooks]: programs of the site on the nodes. They run as root if the agent runs as root."""

    prolog: str = ""
    """Program run before a job's first process on a node.

    If it fails, the node is drained and the job is requeued and held.
    """
    epilog: str = ""
    """Program run after a job's last process on a node. If it fails, the node is drained."""
    task_prolog: str = ""
    """Program run as the user in each task of a step, before the task (TaskProlog).

    Each line "export NAME=VALUE" of its output sets a variable of the task.
    """
    task_epilog: str = ""
    """Program run as the user after each task of a step (TaskEpilog)."""
    timeout_s: Annotated[float, msgspec.Meta(ge=1, le=MAX_SECONDS)] = 60.0
    """Seconds after which a hook is killed and counts as failed (PrologEpilogTimeout)."""


class Health(Table, frozen=True, kw_only=True):
    """[health]: health checks of nodes and their consequences. See warpdeck.model.CHECKS for the checks."""

    program: str = ""
    """The site's own check on every node (HealthCheckProgram).

    A nonzero exit status drains the node, with the first line of output as the reason.
    """
    interval_s: CheckSeconds = 60.0
    """Seconds between two checks of disks, mounts and the program."""
    timeout_s: CheckSeconds = 30.0
    """Seconds after which the program is killed and counts as failed."""
    min_free: Memory = 256 * 2**20
    """Minimum free space of a disk. A disk with less counts as full.

    If 1 % of the disk's size is less, that is the minimum instead.
    """
    max_clock_skew_s: Seconds = 10.0
    ignore: Names = ()
    """Checks that are reported and drain nothing."""
    ignore_xids: tuple[Count, ...] = (13, 31, 43, 45, 63, 68, 109)
    """Xids that a faulty program causes.

    They are reported to the job; otherwise any user could drain any GPU.
    """
    requeue_on: Names = ()
    """Checks that also requeue the jobs on the drained node or GPU, if the jobs allow it."""
