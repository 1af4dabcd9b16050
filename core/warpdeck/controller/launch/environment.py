"""Build the SLURM_* variables of a job's processes on one node. Pure functions.

training_environment.py builds the variables of other launchers. This module builds the variables of the job
and of the node; the agent adds the variables that differ between tasks (SLURM_PROCID, SLURM_LOCALID). The
launchers' own sources show which program reads which variable (Lightning, jax, submitit, TensorFlow,
fairseq).

A batch script gets the same variables as with sbatch and no others. SLURM_NTASKS is set only if a number of
tasks was requested, and no step variables are set. Programs take step variables as a sign that srun started
them, and then wait for tasks that never start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warpdeck.base.cluster import ALL_NODES, CLUSTER_NAME, NORMAL_QOS
from warpdeck.model import Job, Share, count_tasks
from warpdeck.notation.values.dependencies import format_dependencies
from warpdeck.notation.values.exports import NICENESS
from warpdeck.notation.values.hostlist import collapse

TOPOLOGY = "node"
"""Pattern for a topology without switches, as Slurm writes it."""


def job_environment(job: Job, rank: int, *, submit_host: str) -> dict[str, str]:
    """Return the complete environment of the job's processes on the node of that rank.

    It includes the user's variables.
    """
    made = made_environment(job, rank, submit_host=submit_host)
    own = {"ENVIRONMENT": "BATCH"} if job.request.script else _tasks_of_command(job, rank)
    return {**job.request.env, **made, **own}


def made_environment(job: Job, rank: int, *, submit_host: str) -> dict[str, str]:
    """Return the variables that warpdeck sets, without the user's own."""
    assert job.allocation is not None
    share = job.allocation.shares[rank]
    return {
        **job.request.step_variables,
        **_identity(job, submit_host),
        **_layout(job, rank, share),
        **_gpus(job, share),
        **_array(job),
    }


_OF_EACH = [
    "ACCOUNT",
    "CPUS_PER_NODE",
    "ID",
    "NAME",
    "NODELIST",
    "NUM_NODES",
    "PARTITION",
    "QOS",
    "RESERVATION",
]
_OF_EACH_TOO = [
    "CPUS_PER_TASK",
    "MEM_PER_CPU",
    "MEM_PER_GPU",
    "MEM_PER_NODE",
    "NPROCS",
    "NTASKS",
    "NTASKS_PER_NODE",
    "TASKS_PER_NODE",
]
_NAMES = (*(f"SLURM_JOB_{name}" for name in _OF_EACH), *(f"SLURM_{name}" for name in _OF_EACH_TOO))
"""Variables that the script of a heterogeneous job gets for each component.

The component's offset is appended to each name.
"""


def component_variables(components: Sequence[Job]) -> dict[str, str]:
    """Return the additional variables of a heterogeneous job; {} for any other job."""
    if not components:
        return {}
    made = {"SLURM_HET_SIZE": str(len(components)), "SLURM_PACK_SIZE": str(len(components))}
    for offset, job in enumerate(components):
        if job.allocation is None:
            continue
        known = made_environment(job, 0, submit_host="")
        requested = job.request.resources
        if requested.cpus_per_task == 1:
            known.pop("SLURM_CPUS_PER_TASK", None)
        for name in _NAMES:
            if name in known:
                made[f"{name}_HET_GROUP_{offset}"] = made[f"{name}_PACK_GROUP_{offset}"] = known[name]
    return made


def _identity(job: Job, submit_host: str) -> dict[str, str]:
    request = job.request
    start = job.start_at_unix
    made = {
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_NAME": request.name,
        "SLURM_JOB_USER": job.user,
        "SLURM_JOB_UID": str(job.uid),
        "SLURM_JOB_PARTITION": job.partition or request.partition or ALL_NODES,
        "SLURM_JOB_QOS": request.qos or NORMAL_QOS,
        "SLURM_CLUSTER_NAME": CLUSTER_NAME,
        "SLURM_SUBMIT_DIR": request.submit_dir,
        "SLURM_SUBMIT_HOST": request.submit_host or submit_host,
        "SLURM_CONF": "/dev/null",
        "SLURM_NODE_ALIASES": "(null)",
        NICENESS: request.env.get(NICENESS, "0"),
    }
    if request.account:
        made["SLURM_JOB_ACCOUNT"] = request.account
    # As in Slurm, the variable is unset for a first start, because scripts test whether it is set.
    if job.user_restarts:
        made["SLURM_RESTART_COUNT"] = str(job.user_restarts)
    if job.reservation:
        made["SLURM_JOB_RESERVATION"] = job.reservation
    if request.licenses:
        made["SLURM_JOB_LICENSES"] = ",".join(f"{name}:{count}" for name, count in request.licenses)
    if request.dependencies is not None:
        made["SLURM_JOB_DEPENDENCY"] = format_dependencies(msgspec.to_builtins(request.dependencies))
    if start is not None:
        made["SLURM_JOB_START_TIME"] = str(int(start))
        if job.time_limit_s is not None:
            made["SLURM_JOB_END_TIME"] = str(int(start) + job.time_limit_s)
    return made


def _layout(job: Job, rank: int, share: Share) -> dict[str, str]:
    assert job.allocation is not None
    requested = job.request.resources
    shares = job.allocation.shares
    nodes = collapse([part.node for part in shares])
    each = requested.cpus_held_each()  # As in Slurm, only the CPUs that the job uses are counted.
    made = {
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(shares)),
        "SLURM_NNODES": str(len(shares)),
        "SLURM_TASKS_PER_NODE": run_lengths([part.tasks for part in shares]),
        "SLURM_CPUS_PER_TASK": str(requested.cpus_per_task),
        "SLURM_CPUS_ON_NODE": str(share.cpus // each),
        "SLURM_JOB_CPUS_PER_NODE": run_lengths([part.cpus // each for part in shares]),
        "SLURM_NODEID": str(rank),
        "SLURM_GTIDS": "0",
        "SLURMD_NODENAME": share.node,
        "SLURM_TOPOLOGY_ADDR": share.node,
        "SLURM_TOPOLOGY_ADDR_PATTERN": TOPOLOGY,
        **_memory(job, share),
    }
    if requested.tasks is not None or requested.tasks_per_node is not None:
        made["SLURM_NTASKS"] = made["SLURM_NPROCS"] = str(sum(part.tasks for part in shares))
    else:  # The number of tasks that fit; launchers of MPI start that many.
        made["SLURM_TASKS_PER_NODE"] = run_lengths(
            [max(1, part.cpus // requested.cpus_of_task()) for part in shares]
        )
    if requested.tasks_per_node is not None:  # As in Slurm, even if --ntasks requests fewer tasks in total.
        made["SLURM_NTASKS_PER_NODE"] = str(requested.tasks_per_node)
        made["SLURM_TASKS_PER_NODE"] = run_lengths([requested.tasks_per_node] * len(shares))
    return made


def _memory(job: Job, share: Share) -> dict[str, str]:
    """Return the variable for the requested memory, in MiB.

    --mem=0 requests all memory and sets no variable. A default of the site is given per CPU.
    """
    requested = job.request.resources
    if requested.mem_per_gpu_bytes is not None:
        return {"SLURM_MEM_PER_GPU": _mib(requested.mem_per_gpu_bytes)}
    if requested.mem_per_node_bytes is not None:
        return (
            {"SLURM_MEM_PER_NODE": _mib(requested.mem_per_node_bytes)} if requested.mem_per_node_bytes else {}
        )
    per_cpu = requested.mem_per_cpu_bytes or share.mem_bytes // max(1, share.cpus)
    return {"SLURM_MEM_PER_CPU": _mib(per_cpu)} if per_cpu else {}


def _mib(size_bytes: int) -> str:
    return str(size_bytes // 2**20)


def _tasks_of_command(job: Job, rank: int) -> dict[str, str]:
    """Return the task variables of a command without a script. Its processes are tasks, as under srun."""
    assert job.allocation is not None
    shares = job.allocation.shares
    tasks, per_node = str(sum(part.tasks for part in shares)), run_lengths([part.tasks for part in shares])
    made = {
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": collapse([part.node for part in shares]),
        "SLURM_STEP_NUM_NODES": str(len(shares)),
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
    }
    if gpus := shares[rank].gpus:
        made["SLURM_STEP_GPUS"] = ",".join(str(index) for index in gpus)
    return made


def _gpus(job: Job, share: Share) -> dict[str, str]:
    assert job.allocation is not None
    uuids = ",".join(share.gpu_uuids)
    made = {"CUDA_VISIBLE_DEVICES": uuids, "SLURM_GPUS_ON_NODE": str(len(share.gpus))}
    if not share.gpus:
        return made
    indices = ",".join(str(index) for index in share.gpus)
    made |= {
        "NVIDIA_VISIBLE_DEVICES": uuids,
        "SLURM_JOB_GPUS": indices,
        "GPU_DEVICE_ORDINAL": indices,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    requested = job.request.resources
    if share.gpu_share_pct < 100:
        made |= _part(share)
    if requested.cpus_per_gpu is not None:
        made["SLURM_CPUS_PER_GPU"] = str(requested.cpus_per_gpu)
    counts = {
        "": requested.gpus.total,
        "_PER_NODE": requested.gpus.per_node,
        "_PER_TASK": requested.gpus.per_task,
    }
    if requested.tasks_per_gpu is not None:
        made["SLURM_NTASKS_PER_GPU"] = str(requested.tasks_per_gpu)
    made |= {f"SLURM_GPUS{what}": str(count) for what, count in counts.items() if count is not None}
    return made


def _part(share: Share) -> dict[str, str]:
    """Return the variables for a job that has a part of a GPU.

    They give the size of the part. If NVIDIA's MPS serves the GPU, it limits the job to that part.
    """
    pct = str(share.gpu_share_pct)
    return {"WARPDECK_GPU_SHARE_PCT": pct, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": pct}


def _array(job: Job) -> dict[str, str]:
    array = job.request.array
    if array is None or job.array_task_id is None:
        return {}
    numbers = array.ranges
    return {
        "SLURM_ARRAY_JOB_ID": str(job.array_job_id),
        "SLURM_ARRAY_TASK_ID": str(job.array_task_id),
        "SLURM_ARRAY_TASK_COUNT": str(count_tasks(numbers)),
        "SLURM_ARRAY_TASK_MIN": str(min(first for first, _, _ in numbers)),
        "SLURM_ARRAY_TASK_MAX": str(max(last for _, last, _ in numbers)),
        "SLURM_ARRAY_TASK_STEP": str(numbers[0][2]),
    }


def run_lengths(counts: list[int]) -> str:
    """Return the counts in Slurm's compact notation: [2, 2, 2, 1] gives "2(x3),1"."""
    if len(counts) == 1:
        return str(counts[0])  # A shortcut for one node, the usual case for array tasks.
    parts: list[str] = []
    index = 0
    while index < len(counts):
        end = index
        while end < len(counts) and counts[end] == counts[index]:
            end += 1
        times = end - index
        parts.append(str(counts[index]) if times == 1 else f"{counts[index]}(x{times})")
        index = end
    return ",".join(parts)
