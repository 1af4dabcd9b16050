"""Values of a job's columns that depend only on the job's record. All functions are pure."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable

from warpdeck.base.cluster import ALL_NODES
from warpdeck.base.errors import UserError
from warpdeck.controller.launch.launching import output_paths
from warpdeck.controller.state.state import replace
from warpdeck.model import Job, JobState, Request, format_ranges
from warpdeck.notation.options.getopt import parse_components
from warpdeck.notation.options.option_table import SBATCH
from warpdeck.notation.request.sweep import array_parameters, task_parameters
from warpdeck.notation.values.hostlist import collapse

WRAPPED = "wrap"
"""Value used in place of the script name on the command line of a job that was submitted with --wrap."""
MAX_SWEEP_TEXT = 200
"""Maximum number of characters of a sweep task's values in a row. Longer texts would be cut in a list."""


def as_shown(job: Job) -> Job:
    """Return the job as clients see it.

    A prefetched task that may not have begun on its node is shown as pending, like the other waiting tasks of
    its array.
    """
    if not job.is_prefetched:
        return job
    return replace(job, state=JobState.PENDING, allocation=None, shares=(), partition="", time_limit_s=None)


def partition_of(job: Job) -> str:
    """Return the partition in which the job started, or the partitions in which it may start."""
    return job.partition or job.request.partition or ALL_NODES


def nodes(job: Job) -> int:
    """Return the number of allocated nodes, or of requested nodes if none are allocated."""
    return len(job.allocation.shares) if job.allocation else job.request.resources.nodes_min


def node_list(job: Job) -> str:
    """Return the allocated nodes as a hostlist."""
    return collapse(job.allocation.node_names()) if job.allocation else ""


def cpus(job: Job) -> int:
    """Return the number of allocated CPUs, or of requested CPUs if none are allocated."""
    requested = job.request.resources
    held = sum(share.cpus for share in job.allocation.shares) if job.allocation else 0
    return held or requested.task_count() * requested.cpus_per_task


def gpus(job: Job) -> int:
    """Return the number of allocated GPUs, or of requested GPUs if no nodes are allocated."""
    return job.allocation.gpu_count() if job.allocation else job.request.resources.gpu_count()


def mem_bytes(job: Job) -> int:
    """Return the memory on all allocated nodes together, or the requested memory per node."""
    held = sum(share.mem_bytes for share in job.allocation.shares) if job.allocation else 0
    return held or job.request.resources.mem_per_node_bytes or 0


def nodes_max(job: Job) -> int:
    """Return the maximum number of nodes, or 0 if the request names none."""
    requested = job.request.resources
    return 0 if requested.nodes_open else requested.nodes_max


def tasks(job: Job) -> int:
    """Return the number of tasks.

    If the number depends on the number of nodes, the nodes that the job holds are counted.
    """
    requested = job.request.resources
    if requested.tasks is not None or job.allocation is None:
        return requested.task_count()
    return len(job.allocation.shares) * (requested.tasks_per_node or 1)


def requested_gpus(per: str) -> Callable[[Job], str]:
    """Return the column of requested GPUs in Slurm's notation, for example gres:gpu:a100:4.

    `per` is the field of `GpuRequest` with the number of GPUs.
    """

    def text(job: Job) -> str:
        requested = job.request.resources.gpus
        count = getattr(requested, per)
        return ":".join(word for word in ("gres:gpu", requested.type, str(count)) if word) if count else ""

    return text


def time_limit_s(job: Job) -> int | None:
    """Return the time limit of the running job, or the requested time limit."""
    return job.time_limit_s if job.start_at_unix else job.request.time_limit_s


def stopped_at(job: Job) -> float | None:
    """Return the time when the job was last suspended or resumed."""
    return job.suspended_at_unix or job.resumed_at_unix


def before_stop_s(job: Job) -> float:
    """Return the seconds that the job had run when it was last suspended."""
    stopped = stopped_at(job)
    if stopped is None or job.start_at_unix is None:
        return 0.0
    return max(0.0, stopped - job.start_at_unix - job.suspended_s)


def sweep(job: Job) -> str:
    """Return the parameter values of a sweep task.

    While the tasks are pending in one record, return all values of the sweep.
    """
    script = job.request.script
    if job.array_task_id is not None:
        return task_parameters(script, job.array_task_id)[:MAX_SWEEP_TEXT]
    return array_parameters(script)[:MAX_SWEEP_TEXT] if job.pending_tasks else ""


def has_folded_tasks(job: Job) -> bool:
    """Return whether the record holds tasks of an array that never started, even if it holds only one task.

    Slurm removes the brackets of the last task once it has nodes. 75_[6] is pending or was cancelled while
    pending; 75_6 has started.
    """
    never_began = job.start_at_unix is None and not job.restarts and job.allocation is None
    is_rest = job.id == job.array_job_id and job.array_task_id is not None and never_began
    return bool(job.pending_tasks) or is_rest


def tasks_text(job: Job) -> str:
    """Return the pending tasks of an array with its task limit, or the number of a single task."""
    one, spec = job.array_task_id, job.request.array
    text = format_ranges(job.pending_tasks) if one is None else str(one)
    limit = f"%{spec.throttle}" if spec is not None and spec.throttle else ""
    return text + limit if text and has_folded_tasks(job) else text


def command(job: Job) -> str:
    """Return the command line or the path of the script that the job runs."""
    request = job.request
    if request.argv:
        return shlex.join(request.argv)
    return _script_path(request) if request.script or job.has_leader else request.holder


@functools.lru_cache(maxsize=1000)
def _script_of(line: str) -> str:
    """Return the script that the command line of a submission names, or "" if it names none."""
    try:
        rest = parse_components(shlex.split(line)[1:], "", SBATCH)[1]
    except (UserError, ValueError):
        return ""
    return "" if not rest or rest[0] == WRAPPED else rest[0]


def _script_path(request: Request) -> str:
    script = _script_of(request.submit_line)
    if not script or script.startswith("/"):
        return script
    return f"{request.submit_dir.rstrip('/')}/{script}"


def stdout(job: Job) -> str:
    """Return the path of the standard output, with its placeholders replaced."""
    return output_paths(job)[0]


def stderr(job: Job) -> str:
    """Return the path of the standard error. Without a requested path, it is the path of the standard output."""
    out, err = output_paths(job)
    return err or out


def admin_comment(job: Job) -> str:
    """Return the admin's comment in the accounting record, or else the admin's comment in the queue."""
    own = job.annotations.admin_comment if job.annotations else ""
    return own or job.request.admin_comment


def recorded_comment(job: Job) -> str:
    """Return the comment in the accounting record, or else the comment in the queue."""
    own = job.annotations.comment if job.annotations else None
    return job.request.comment if own is None else own


def derived_exit(job: Job) -> int | None:
    """Return the derived exit code that a user has set since the job's last end."""
    own = job.annotations
    if own is None or (job.end_at_unix is not None and own.derived_at_unix < job.end_at_unix):
        return None
    return own.derived_exit
