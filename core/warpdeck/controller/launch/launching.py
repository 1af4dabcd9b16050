"""Build the Launch message that starts a committed job on one node. Pure functions.

The message contains the environment, the output files and the code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from warpdeck.config import Config
from warpdeck.model import Job, Node, NodeName, Request, Share
from warpdeck.model.request import Container
from warpdeck.notation.values.file_patterns import resolve
from warpdeck_agent.wire import messages as wire

from .environment import component_variables, job_environment
from .hooks import build_hooks
from .node_aliases import address_variables
from .training_environment import launch_variables, master_address

MIB = 2**20


def build_launch(
    job: Job,
    rank: int,
    *,
    submit_host: str,
    config: Config,
    gpu_mem_bytes: int = 0,
    nodes: Mapping[NodeName, Node] = MappingProxyType({}),
    after: Job | None = None,
    components: Sequence[Job] = (),
) -> wire.Launch:
    """Return the launch of the job's share on the node of that rank.

    `gpu_mem_bytes` is the memory of the GPU if the job has a part of one GPU. For a prefetched task, `after`
    is its predecessor in the same allocation. `components` are all components of a heterogeneous job, by
    offset.
    """
    assert job.allocation is not None
    request, share, names = job.request, job.allocation.shares[rank], job.allocation.node_names()
    role = _role(request, rank)
    return wire.Launch(
        job_id=job.id,
        restarts=job.restarts,
        user=job.user,
        uid=job.uid,
        role=role,
        env={
            **job_environment(job, rank, submit_host=submit_host),
            **component_variables(components),
            **_mps_limit(share, gpu_mem_bytes),
            **address_variables(names, nodes),
            **launch_variables(job, rank, role=role, master=master_address(names, nodes)),
        },
        cwd=request.chdir or request.submit_dir,
        cwd_visible=True,
        script=request.script if role == "batch" else "",
        script_args=list(request.script_args),
        stdin=resolve(request.input, _values(job)) if role == "batch" else "",
        limits=dict(request.limits),
        login=request.user_env,
        argv=list(request.argv) if role == "tasks" else [],
        tasks=share.tasks if role == "tasks" else 1,
        first_rank=sum(part.tasks for part in job.allocation.shares[:rank]),
        gpus=list(share.gpu_uuids),
        gpu_share_pct=share.gpu_share_pct,
        cpus=share.cpus,
        mem_bytes=share.mem_bytes,
        hooks=build_hooks(job, rank, config=config, submit_host=submit_host),
        empty_gpus=bool(share.gpus) and config.gpus.avoid_foreign_processes,
        time_limit_s=job.time_limit_s,
        in_place=request.in_place and config.submission.sbatch_runs == "folder",
        tree=_tree(job),
        container=build_container(request.container),
        workspace=str(job.array_job_id),
        behind=[after.id, after.restarts] if after is not None else [],
        **_output(job, role),
        **_site(config),
        **_before_limit(request),
        **_terminal(request),
    )


def _output(job: Job, role: str) -> dict[str, Any]:
    """Return the output files. A launch that only holds an allocation writes no output."""
    stdout, stderr = output_paths(job) if role != "hold" else ("", "")
    return {"stdout": stdout, "stderr": stderr, "append": job.request.appends(job.user_restarts)}


def _role(request: Request, rank: int) -> str:
    if request.holder or (request.script and rank):
        return "hold"
    return "batch" if request.script else "tasks"


def _site(config: Config) -> dict[str, Any]:
    """Return the settings of the site that apply to every launch."""
    held, gpus, interactive = config.containment, config.gpus, config.interactive
    return {
        "cuda_visible_devices": gpus.cuda_visible_devices,
        "share_grace_s": gpus.share_grace_s,
        "share_start_s": gpus.share_start_s,
        "max_processes": held.max_processes,
        "tmp_dir": held.tmp_dir,
        "private_dirs": list(held.private_dirs),
        "shared_dirs": list(held.shared_dirs) if held.private_dirs else [],
        "unkillable_s": held.unkillable_s,
        "confine": [name for name in ("memory", "cpus", "devices") if getattr(held, name)],
        "grace_s": config.grace_s,
        "limit_grace_s": float(config.scheduler.limit_grace_s),
        "idle_limit_s": float(interactive.idle_limit_s),
        "idle_warning_s": float(interactive.idle_warning_s),
    }


def _before_limit(request: Request) -> dict[str, Any]:
    """Return the signal to send before the time limit (--signal), and whether the job returns to the queue at its limit."""
    requeues = {"requeues_at_limit": request.requeue_at_limit and request.requeue}
    warn = request.warn
    if warn is None:
        return requeues
    return requeues | {
        "warn_signal": warn.number,
        "warn_before_s": float(warn.before_s),
        "warn_batch_only": warn.batch_only,
    }


def _terminal(request: Request) -> dict[str, Any]:
    return {"pty": True, "rows": request.pty.rows, "cols": request.pty.cols} if request.pty else {}


def _mps_limit(share: Share, gpu_mem_bytes: int) -> dict[str, str]:
    """Return the variable with the job's limit of GPU memory.

    Only NVIDIA's MPS reads it.
    """
    if share.gpu_share_pct >= 100 or not gpu_mem_bytes:
        return {}
    return {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={gpu_mem_bytes * share.gpu_share_pct // 100 // MIB}M"}


def output_paths(job: Job) -> tuple[str, str]:
    """Return the absolute paths of standard output and standard error on the submit host.

    An empty first path means that the agent keeps the output. An empty second path means that standard error
    is joined to standard output.
    """
    request = job.request
    if not request.script and not request.output and not job.has_leader:
        return "", ""
    pattern = request.output or ("slurm-%A_%a.out" if request.array else "slurm-%j.out")
    base = request.chdir or request.submit_dir
    values = _values(job)
    stderr = _absolute(base, resolve(request.error, values)) if request.error else ""
    return _absolute(base, resolve(pattern, values)), stderr


def _values(job: Job) -> dict[str, str]:
    first = job.allocation.shares[0].node if job.allocation else ""
    return {
        "j": str(job.id),
        "J": str(job.id),
        "A": str(job.family_id),
        "a": str(job.array_task_id) if job.array_task_id is not None else "4294967294",
        "x": job.request.name,
        "u": job.user,
        "N": first,
        "n": "0",
        "t": "0",
        "s": "batch",
        "b": str((job.array_task_id or 0) % 10),
    }


def _absolute(base: str, path: str) -> str:
    return path if path.startswith("/") else f"{base.rstrip('/')}/{path}"


def build_container(requested: Container | None) -> wire.Container | None:
    """Convert a container request to the agent's type."""
    if requested is None:
        return None
    return wire.Container(
        image=requested.image,
        name=requested.name,
        mounts=[
            wire.Mount(source=each.source, target=each.target, flags=list(each.flags))
            for each in requested.mounts
        ],
        workdir=requested.workdir,
        env=list(requested.env),
        mount_home=requested.mount_home,
        remap_root=requested.remap_root,
        entrypoint=requested.entrypoint,
        writable=requested.writable,
    )


def _tree(job: Job) -> wire.TreeRef | None:
    snapshot = job.request.snapshot
    if snapshot is None:
        return None
    return wire.TreeRef(
        tree=snapshot.tree,
        sha256=snapshot.sha256,
        size_bytes=snapshot.size_bytes,
        root=snapshot.root,
        subdir=snapshot.subdir,
        links=list(snapshot.links),
    )
