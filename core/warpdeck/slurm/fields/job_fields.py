"""Fields of a job: one entry each for squeue, scontrol, sacct and JSON. Pure functions.

A field's value is a number, a text or None. The commands print it differently: squeue prints N/A where scontrol prints
nothing and JSON has "".
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.passwd import group_of
from warpdeck.slurm.format.units import MIB, gpus_text

from .field import Field, Row, columns
from .job_states import ENDED, STATE_FIELDS, shown_exit, shown_state

ENDED_BY_ORDER = frozenset({"cancelled", "timeout", "requeued", "preempted"})
"""Exit causes of a job that was ended by an order, such as a cancellation or its time limit.

The job's record is written when the order is given. The records of its steps show how their processes exited.
"""
NOT_ELIGIBLE = "JobArrayTaskLimit"
"""Reason of a job that Slurm shows as not eligible yet: it waits for the task limit of its array."""


EXCLUSIVE = {"NO": "NODE", "USER": "USER", "MCS": "MCS"}
"""OverSubscribe of squeue -> Exclusive of Slurm 26.05. Other jobs have NO."""


def start_of(row: Row) -> float | None:
    """Return the actual or expected start of the job.

    For a job that ended before it started, return its end, as Slurm does.
    """
    start: float | None = row["start"] or row["expected_start"]
    return row["ends"] if start is None and row["state"] in ENDED else start


def _wait_status(row: Row) -> int:
    """Return the exit code as a wait(2) status: 256 times the code, plus the signal."""
    code, _, signal = shown_exit(row).partition(":")
    return int(code) * 256 + int(signal)


def derived_exit(job: Row) -> str:
    """Return the highest exit code of the steps that srun started, as code:signal.

    The batch and extern steps do not count. If the job's end was ordered, steps that a signal killed do not
    count either.
    """
    rows = [step["row"] for step in job.get("steps", ())]
    codes = [
        shown_exit(row).split(":")
        for row in rows
        if row["exit_code"]
        and (job["exit_cause"] not in ENDED_BY_ORDER or row["exit_code"].endswith(":0"))
        and row["id"].rpartition(".")[2].isdecimal()
    ]
    code, number = max(((int(code), int(number)) for code, number in codes), default=(0, 0))
    return f"{code}:{number}"


def min_cpus(row: Row) -> int:
    """Return the minimum number of CPUs on each node."""
    of_tasks = int(row["cpus_per_task"]) * max(1, int(row["tasks_per_node"]))
    return max(of_tasks, int(row["cpus_per_node_min"]))


def memory_bytes(row: Row) -> int:
    """Return the requested memory per node, or else per CPU, in bytes."""
    return row["mem_per_node_bytes"] or row["mem_per_cpu_bytes"] or 0


def _eligible(row: Row) -> float | None:
    return None if row["reason"] == NOT_ELIGIBLE else row["eligible"]


def _node_range(row: Row) -> str:
    """Return the number of nodes, or LEAST-MOST for a pending job with a maximum."""
    likely, high = row["nodes_told"], row["nodes_max"]
    return f"{min(likely, high)}-{high}" if high and not row["shares"] else str(likely)


def _per_gpu(count: int | None) -> str:
    return f"gres:gpu:{count}" if count else ""


def _left_s(row: Row) -> int | None:
    return None if row["limit_s"] is None else int(row["limit_s"]) - int(row["used_s"])


def share_gres(share: dict[str, Any]) -> str:
    """Return the GPUs that the job holds on one node."""
    return ",".join(gpus_text(kind, indices) for kind, indices in share["gpus"].items())


def _mib(column: str) -> Field:
    """Return the field with this number of bytes in MiB; None if it is unset or zero."""
    return Field(column, lambda row: row[column] // MIB if row[column] else None)


JOB: dict[str, Field] = {
    **columns(
        "account admin_comment array_job_id array_task_id batch batch_host before_stop_s command comment container contiguous "
        "cpus cpus_per_task deadline dependency ends exc_nodes features het_job_id het_job_id_set het_job_offset id "
        "leaves licenses limit_s mail_types max_switches name nice node_list nodes_max nodes_told oversubscribe partition prefer "
        "priority_told qos reason req_nodes requeue reservation restarts sched_nodes shares start stderr stdout stopped_at "
        "submit submit_host tasks tasks_folded tasks_per_node tasks_text throttle time_min_s tres tres_per_job "
        "tres_per_node tres_per_task uid used_s user work_dir"
    ),
    "accrue_time": Field("eligible", lambda row: row["eligible"]),
    "array": Field("array_job_id tasks_text", lambda row: row["array_job_id"] if row["tasks_text"] else 0),
    "array_limit": Field("tasks_text", lambda row: int(row["tasks_text"].partition("%")[2] or 0)),
    "cpus_per_tres": Field("cpus_per_gpu", lambda row: _per_gpu(row["cpus_per_gpu"])),
    "derived_exit": Field("exit_cause", derived_exit),
    "eligible_time": Field("eligible reason", _eligible),
    "exclusive": Field("oversubscribe", lambda row: EXCLUSIVE.get(row["oversubscribe"], "NO")),
    "exit_code": Field("exit_code state", shown_exit),
    "folded_tasks": Field(
        "tasks_text tasks_folded", lambda row: row["tasks_text"] if row["tasks_folded"] else ""
    ),
    "gid": Field("uid", lambda row: group_of(row["uid"])[1]),
    "group": Field("uid", lambda row: group_of(row["uid"])[0]),
    "het_offset": Field(
        "het_job_id het_job_offset", lambda row: row["het_job_offset"] if row["het_job_id"] else None
    ),
    "left_s": Field("limit_s used_s", _left_s),
    "max_nodes": Field("nodes_told nodes_max", lambda row: max(row["nodes_told"], row["nodes_max"])),
    "mem_per_cpu": _mib("mem_per_cpu_bytes"),
    "mem_per_gpu": _mib("mem_per_gpu_bytes"),
    "mem_per_node": _mib("mem_per_node_bytes"),
    "mem_per_tres": Field("mem_per_gpu_bytes", lambda row: _per_gpu((row["mem_per_gpu_bytes"] or 0) // MIB)),
    "memory": Field("mem_per_node_bytes mem_per_cpu_bytes", lambda row: memory_bytes(row) // MIB),
    "min_cpus": Field("cpus_per_task tasks_per_node cpus_per_node_min", min_cpus),
    "node_range": Field("nodes_told nodes_max shares", _node_range),
    "priority": Field("priority_told", lambda row: row["priority_told"] or 0),
    "start_time": Field("start expected_start ends state", start_of),
    "state": Field(STATE_FIELDS, shown_state),
    "switches_wait_s": Field(
        "max_switches switches_wait_s", lambda row: row["switches_wait_s"] if row["max_switches"] else 0
    ),
    "task": Field(
        "array_task_id tasks_folded", lambda row: None if row["tasks_folded"] else row["array_task_id"]
    ),
    "tmp_disk": Field("tmp_disk_bytes", lambda row: row["tmp_disk_bytes"] // MIB),
    "wait_status": Field("exit_code state", _wait_status),
}
"""Field -> its entry. Sizes are in MiB, durations in seconds, and times are Unix seconds."""
