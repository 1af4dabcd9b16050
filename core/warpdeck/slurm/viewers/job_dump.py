"""A job as `squeue --json` shows it, with the names and formats of Slurm's data_parser.

Properties that our jobs do not have are null, 0 or "".
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of
from warpdeck.slurm.format.format_strings import Row
from warpdeck.slurm.format.job_states import told_exit, told_state
from warpdeck.slurm.format.units import MIB, gpus_text, tres_text

from .job_fields import start_of, wait_status

NEEDS = """
account admin_comment array_job_id array_task_id batch
batch_host command comment container contiguous cpus cpus_per_gpu cpus_per_task deadline
before_stop_s dependency eligible ends end exc_nodes exit_code expected_start features
het_job_id het_job_id_set het_job_offset id licenses
mem_per_cpu_bytes mem_per_gpu_bytes mem_per_node_bytes name nice node_list nodes_told nodes_max oversubscribe partition
prefer priority_told qos reason
req_nodes requeue reservation restarts shares special_exit start state stderr stdout stopped_at submit tasks tasks_per_node
tasks_folded tasks_text tmp_disk_bytes limit_s time_min_s tres tres_per_job tres_per_node tres_per_task uid user work_dir
"""
_EMPTY = """
batch_features burst_buffer burst_buffer_state cluster_features federation_origin federation_siblings_active
federation_siblings_viable mcs_label system_comment tres_bind tres_freq
tres_per_socket wckey
"""
_ZERO = """
association_id delay_boot derived_exit_code last_sched_evaluation max_cpus preempt_time
resize_time sockets_per_board tasks_per_board
"""
_NULL = """
core_spec thread_spec cores_per_socket cpu_frequency_minimum cpu_frequency_maximum cpu_frequency_governor profile
cpus_per_task sockets_per_node tasks_per_core tasks_per_socket threads_per_core
"""
"""Keys that are always null.

`cpus_per_task` is null even if -c was given: Slurm 22.05 never reports it, and its clients do not read a
number there.
"""
_SHARED = {"NO": "none", "YES": "shared", "USER": "user", "MCS": "mcs"}
"""JSON value for each OVERSUBSCRIBE text of squeue. It is null if the job did not request a sharing mode."""


def job_object(row: Row) -> dict[str, Any]:
    """Return the job as JSON values. Times are Unix seconds, limits are minutes and memory is in MiB."""
    return {
        **dict.fromkeys(_EMPTY.split(), ""),
        **dict.fromkeys(_ZERO.split(), 0),
        **dict.fromkeys(_NULL.split()),
        **_what(row),
        **_when(row),
        **_asked(row),
        **_given(row),
    }


def _what(row: Row) -> dict[str, Any]:
    array = bool(row["tasks_text"])
    group, gid = group_of(row["uid"])
    throttle = row["tasks_text"].partition("%")[2]
    return {
        "account": row["account"],
        "admin_comment": row["admin_comment"],
        "array_job_id": row["array_job_id"] if array else 0,
        "array_task_id": None if row["tasks_folded"] else row["array_task_id"],
        "array_max_tasks": int(throttle or 0),
        "array_task_string": row["tasks_text"] if row["tasks_folded"] else "",
        "batch_flag": row["batch"],
        "cluster": CLUSTER_NAME,
        "command": row["command"],
        "comment": row["comment"],
        "container": row["container"],
        "current_working_directory": row["work_dir"],
        "dependency": row["dependency"],
        "exit_code": wait_status(told_exit(row)),
        "flags": ["JOB_WAS_RUNNING"] if row["start"] else [],
        "group_id": gid,
        "group_name": group,
        "het_job_id": row["het_job_id"],
        "het_job_id_set": row["het_job_id_set"],
        "het_job_offset": row["het_job_offset"],
        "job_id": row["id"],
        "job_state": told_state(row),
        "name": row["name"],
        "partition": row["partition"],
        "priority": row["priority_told"] or 0,
        "qos": row["qos"],
        "restart_cnt": row["restarts"],
        "resv_name": row["reservation"],
        "show_flags": ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"],
        "standard_error": row["stderr"],
        "standard_input": "/dev/null",
        "standard_output": row["stdout"],
        "state_description": row["reason"] if "," in row["reason"] else "",
        "state_reason": row["reason"].partition(",")[0],
        "user_id": row["uid"],
        "user_name": row["user"],
    }


def _when(row: Row) -> dict[str, Any]:
    return {
        "accrue_time": _second(row["eligible"]),
        "deadline": _second(row["deadline"]),
        "eligible_time": _second(row["eligible"]),
        "end_time": _second(row["ends"]),
        "pre_sus_time": int(row["before_stop_s"]),
        "start_time": _second(start_of(row)),
        "submit_time": _second(row["submit"]),
        "suspend_time": _second(row["stopped_at"]),
        "time_limit": _minutes(row["limit_s"]),
        "time_minimum": _minutes(row["time_min_s"]) or 0,
    }


def _asked(row: Row) -> dict[str, Any]:
    per_gpu = row["mem_per_gpu_bytes"]
    return {
        "contiguous": row["contiguous"],
        "cpus_per_tres": f"gres:gpu:{row['cpus_per_gpu']}" if row["cpus_per_gpu"] else "",
        "excluded_nodes": row["exc_nodes"],
        "features": row["features"],
        "prefer": row["prefer"],
        "licenses": row["licenses"],
        "max_nodes": row["nodes_max"],
        "memory_per_cpu": _mib(row["mem_per_cpu_bytes"]),
        "memory_per_node": _mib(row["mem_per_node_bytes"]),
        "memory_per_tres": f"gres:gpu:{per_gpu // MIB}" if per_gpu else "",
        "minimum_cpus_per_node": row["cpus_per_task"] * max(1, row["tasks_per_node"]),
        "minimum_tmp_disk_per_node": row["tmp_disk_bytes"] // MIB,
        "nice": row["nice"] or None,
        "reboot": False,
        "required_nodes": row["req_nodes"],
        "requeue": row["requeue"],
        "shared": _SHARED.get(row["oversubscribe"]),
        "tasks": row["tasks"],
        "tasks_per_node": row["tasks_per_node"],
        "tres_per_job": row["tres_per_job"],
        "tres_per_node": row["tres_per_node"],
        "tres_per_task": row["tres_per_task"],
    }


def _given(row: Row) -> dict[str, Any]:
    tres, held = tres_text(row["tres"]), bool(row["shares"])
    given: dict[str, Any] = {
        "batch_host": row["batch_host"],
        "billable_tres": float(row["tres"].get("billing", 0)) if held else None,
        "cpus": row["cpus"],
        "gres_detail": [
            ",".join(gpus_text(kind, indices) for kind, indices in share["gpus"].items())
            for share in row["shares"]
            if share["gpus"]
        ],
        "node_count": row["nodes_told"],
        "nodes": row["node_list"],
        "tres_req_str": tres,
        "tres_alloc_str": tres if held else "",
    }
    if held:
        given["job_resources"] = _resources(row)
    return given


def _resources(row: Row) -> dict[str, Any]:
    return {
        "nodes": row["node_list"],
        "allocated_cores": sum(share["cpus"] for share in row["shares"]),
        "allocated_hosts": len(row["shares"]),
        "allocated_nodes": [
            {
                "nodename": share["name"],
                "cpus_used": share["cpus"],
                "memory_used": 0,
                "memory_allocated": share["mem_bytes"] // MIB,
            }
            for share in row["shares"]
        ],
    }


def _second(at_unix: float | None) -> int:
    return int(at_unix or 0)


def _minutes(seconds: int | None) -> int | None:
    return None if seconds is None else seconds // 60


def _mib(size: int | None) -> int | None:
    return size // MIB if size else None
