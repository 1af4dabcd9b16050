"""The SLURM_* variables of a job's processes on one node; see training for those of other launchers. Pure.

Job-wide and node-wide variables are made here; the agent adds what differs between tasks (SLURM_PROCID, SLURM_LOCALID).
Which programs read which: see the launchers' own sources (Lightning, jax, submitit, TensorFlow, fairseq).
"""

from __future__ import annotations

from warpdeck.cluster import CLUSTER_NAME
from warpdeck.model import Job, Share, count_tasks
from warpdeck.notation.hostlist import collapse


def job_environment(job: Job, rank: int, *, submit_host: str) -> dict[str, str]:
    """The complete environment of the job's processes on the node of that rank, user's part included."""
    return {**job.request.env, **made_environment(job, rank, submit_host=submit_host)}


def made_environment(job: Job, rank: int, *, submit_host: str) -> dict[str, str]:
    """The part of it that is not the user's."""
    assert job.allocation is not None
    share = job.allocation.shares[rank]
    return {
        **_identity(job, submit_host),
        **_layout(job, rank, share),
        **_gpus(job, share),
        **_array(job),
    }


def _identity(job: Job, submit_host: str) -> dict[str, str]:
    request = job.request
    start = job.start_at_unix
    made = {
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOBID": str(job.id),
        "SLURM_JOB_NAME": request.name,
        "SLURM_JOB_USER": job.user,
        "SLURM_JOB_UID": str(job.uid),
        "SLURM_JOB_ACCOUNT": request.account,
        "SLURM_JOB_PARTITION": job.partition or request.partition or "main",
        "SLURM_JOB_QOS": request.qos or "normal",
        "SLURM_CLUSTER_NAME": CLUSTER_NAME,
        "SLURM_SUBMIT_DIR": request.submit_dir,
        "SLURM_SUBMIT_HOST": request.submit_host or submit_host,
        "SLURM_CONF": "/dev/null",
    }
    if job.restarts:  # as in Slurm: scripts ask whether it is set
        made["SLURM_RESTART_COUNT"] = str(job.restarts)
    if request.reservation:
        made["SLURM_JOB_RESERVATION"] = request.reservation
    if request.licenses:
        made["SLURM_JOB_LICENSES"] = ",".join(f"{name}:{count}" for name, count in request.licenses)
    if start is not None:
        made["SLURM_JOB_START_TIME"] = str(int(start))
        if job.time_limit_s is not None:
            made["SLURM_JOB_END_TIME"] = str(int(start) + job.time_limit_s)
    return made


def _layout(job: Job, rank: int, share: Share) -> dict[str, str]:
    assert job.allocation is not None
    asked = job.request.resources
    shares = job.allocation.shares
    nodes = collapse([part.node for part in shares])
    tasks = sum(part.tasks for part in shares)
    per_node = run_lengths([part.tasks for part in shares])
    made = {
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(shares)),
        "SLURM_NNODES": str(len(shares)),
        "SLURM_NTASKS": str(tasks),
        "SLURM_NPROCS": str(tasks),
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_CPUS_PER_TASK": str(asked.cpus_per_task),
        "SLURM_CPUS_ON_NODE": str(share.cpus),
        "SLURM_JOB_CPUS_PER_NODE": run_lengths([part.cpus for part in shares]),
        "SLURM_NODEID": str(rank),
        "SLURMD_NODENAME": share.node,
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_NUM_NODES": str(len(shares)),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_TASKS_PER_NODE": per_node,
    }
    if asked.tasks_per_node is not None:
        made["SLURM_NTASKS_PER_NODE"] = str(asked.tasks_per_node)
    if share.mem_bytes:
        made["SLURM_MEM_PER_NODE"] = str(share.mem_bytes // 2**20)
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
        "SLURM_STEP_GPUS": indices,
        "SLURM_GPUS": str(job.allocation.gpu_count()),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    asked = job.request.resources
    if share.gpu_share_pct < 100:
        made |= _part(share)
    if asked.cpus_per_gpu is not None:
        made["SLURM_CPUS_PER_GPU"] = str(asked.cpus_per_gpu)
    if asked.gpus.per_node is not None:
        made["SLURM_GPUS_PER_NODE"] = str(asked.gpus.per_node)
    return made


def _part(share: Share) -> dict[str, str]:
    """Of a job that has a part of a GPU: how large it is. Where NVIDIA's MPS serves the GPU, it keeps the job to that part."""
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
    """Slurm's compact list: [2, 2, 2, 1] -> "2(x3),1"."""
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
