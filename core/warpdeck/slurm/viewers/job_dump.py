"""A job as `squeue --json` and `scontrol show job --json` show it, with the names and formats of Slurm's data_parser.

Each key is one entry of a table: the columns of the row that it reads, and its value. Properties that our jobs
do not have are null, 0 or "". Times are Unix seconds, limits are minutes and memory is in MiB.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.base.passwd import group_of
from warpdeck.slurm.format.format_strings import Row
from warpdeck.slurm.format.job_states import STATE_FIELDS, told_exit, told_state
from warpdeck.slurm.format.job_values import (
    MIN_CPUS,
    STARTS,
    cpus_per_tres,
    mem_per_tres,
    min_cpus,
    start_of,
    wait_status,
)
from warpdeck.slurm.format.units import MIB, gpus_text, tres_text

EMPTY = """
batch_features burst_buffer burst_buffer_state cluster_features federation_origin federation_siblings_active
federation_siblings_viable mcs_label system_comment tres_bind tres_freq
tres_per_socket wckey
"""
ZERO = """
association_id delay_boot derived_exit_code last_sched_evaluation max_cpus preempt_time
resize_time sockets_per_board tasks_per_board
"""
NULL = """
core_spec thread_spec cores_per_socket cpu_frequency_minimum cpu_frequency_maximum cpu_frequency_governor profile
cpus_per_task sockets_per_node tasks_per_core tasks_per_socket threads_per_core
"""
"""Keys that are always null.

`cpus_per_task` is null even if -c was given: Slurm 22.05 never reports it, and its clients do not read a
number there.
"""
SHARED = {"NO": "none", "YES": "shared", "USER": "user", "MCS": "mcs"}
"""JSON value for each OVERSUBSCRIBE text of squeue. It is null if the job did not request a sharing mode."""


class JsonValue(NamedTuple):
    """The columns of the row that a value of the object reads, and the function that returns the value."""

    needs: str
    of: Callable[[Row], Any]


def job_object(row: Row) -> dict[str, Any]:
    """Return the job as JSON values."""
    return {**CONSTANT, **{key: value.of(row) for key, value in VALUES.items()}, **_resources(row)}


def _column(name: str) -> JsonValue:
    """Return the value of a column unchanged."""
    return JsonValue(name, lambda row: row[name])


def _second(column: str) -> JsonValue:
    return JsonValue(column, lambda row: int(row[column] or 0))


def _mib(column: str) -> JsonValue:
    return JsonValue(column, lambda row: row[column] // MIB if row[column] else None)


def _minutes(seconds: int | None) -> int | None:
    return None if seconds is None else seconds // 60


def _gres_detail(row: Row) -> list[str]:
    return [
        ",".join(gpus_text(kind, indices) for kind, indices in share["gpus"].items())
        for share in row["shares"]
        if share["gpus"]
    ]


def _resources(row: Row) -> dict[str, Any]:
    """Return the key `job_resources`, which only jobs with nodes have."""
    if not row["shares"]:
        return {}
    return {
        "job_resources": {
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
    }


CONSTANT: dict[str, Any] = {
    **dict.fromkeys(EMPTY.split(), ""),
    **dict.fromkeys(ZERO.split(), 0),
    **dict.fromkeys(NULL.split()),
}
VALUES: dict[str, JsonValue] = {
    "account": _column("account"),
    "admin_comment": _column("admin_comment"),
    "array_job_id": JsonValue(
        "array_job_id tasks_text", lambda row: row["array_job_id"] if row["tasks_text"] else 0
    ),
    "array_task_id": JsonValue(
        "array_task_id tasks_folded", lambda row: None if row["tasks_folded"] else row["array_task_id"]
    ),
    "array_max_tasks": JsonValue("tasks_text", lambda row: int(row["tasks_text"].partition("%")[2] or 0)),
    "array_task_string": JsonValue(
        "tasks_text tasks_folded", lambda row: row["tasks_text"] if row["tasks_folded"] else ""
    ),
    "batch_flag": _column("batch"),
    "cluster": JsonValue("", lambda row: CLUSTER_NAME),
    "command": _column("command"),
    "comment": _column("comment"),
    "container": _column("container"),
    "current_working_directory": _column("work_dir"),
    "dependency": _column("dependency"),
    "exit_code": JsonValue("exit_code state", lambda row: wait_status(told_exit(row))),
    "flags": JsonValue("start", lambda row: ["JOB_WAS_RUNNING"] if row["start"] else []),
    "group_id": JsonValue("uid", lambda row: group_of(row["uid"])[1]),
    "group_name": JsonValue("uid", lambda row: group_of(row["uid"])[0]),
    "het_job_id": _column("het_job_id"),
    "het_job_id_set": _column("het_job_id_set"),
    "het_job_offset": _column("het_job_offset"),
    "job_id": _column("id"),
    "job_state": JsonValue(STATE_FIELDS, told_state),
    "name": _column("name"),
    "partition": _column("partition"),
    "priority": JsonValue("priority_told", lambda row: row["priority_told"] or 0),
    "qos": _column("qos"),
    "restart_cnt": _column("restarts"),
    "resv_name": _column("reservation"),
    "show_flags": JsonValue("", lambda row: ["SHOW_ALL", "SHOW_DETAIL", "SHOW_LOCAL"]),
    "standard_error": _column("stderr"),
    "standard_input": JsonValue("", lambda row: "/dev/null"),
    "standard_output": _column("stdout"),
    "state_description": JsonValue("reason", lambda row: row["reason"] if "," in row["reason"] else ""),
    "state_reason": JsonValue("reason", lambda row: row["reason"].partition(",")[0]),
    "user_id": _column("uid"),
    "user_name": _column("user"),
    "accrue_time": _second("eligible"),
    "deadline": _second("deadline"),
    "eligible_time": _second("eligible"),
    "end_time": _second("ends"),
    "pre_sus_time": _second("before_stop_s"),
    "start_time": JsonValue(STARTS, lambda row: int(start_of(row) or 0)),
    "submit_time": _second("submit"),
    "suspend_time": _second("stopped_at"),
    "time_limit": JsonValue("limit_s", lambda row: _minutes(row["limit_s"])),
    "time_minimum": JsonValue("time_min_s", lambda row: _minutes(row["time_min_s"]) or 0),
    "contiguous": _column("contiguous"),
    "cpus_per_tres": JsonValue("cpus_per_gpu", cpus_per_tres),
    "excluded_nodes": _column("exc_nodes"),
    "features": _column("features"),
    "prefer": _column("prefer"),
    "licenses": _column("licenses"),
    "max_nodes": _column("nodes_max"),
    "memory_per_cpu": _mib("mem_per_cpu_bytes"),
    "memory_per_node": _mib("mem_per_node_bytes"),
    "memory_per_tres": JsonValue("mem_per_gpu_bytes", mem_per_tres),
    "minimum_cpus_per_node": JsonValue(MIN_CPUS, min_cpus),
    "minimum_tmp_disk_per_node": JsonValue("tmp_disk_bytes", lambda row: row["tmp_disk_bytes"] // MIB),
    "nice": JsonValue("nice", lambda row: row["nice"] or None),
    "reboot": JsonValue("", lambda row: False),
    "required_nodes": _column("req_nodes"),
    "requeue": _column("requeue"),
    "shared": JsonValue("oversubscribe", lambda row: SHARED.get(row["oversubscribe"])),
    "tasks": _column("tasks"),
    "tasks_per_node": _column("tasks_per_node"),
    "tres_per_job": _column("tres_per_job"),
    "tres_per_node": _column("tres_per_node"),
    "tres_per_task": _column("tres_per_task"),
    "batch_host": _column("batch_host"),
    "billable_tres": JsonValue(
        "tres shares", lambda row: float(row["tres"].get("billing", 0)) if row["shares"] else None
    ),
    "cpus": _column("cpus"),
    "gres_detail": JsonValue("shares", _gres_detail),
    "node_count": _column("nodes_told"),
    "nodes": _column("node_list"),
    "tres_req_str": JsonValue("tres", lambda row: tres_text(row["tres"])),
    "tres_alloc_str": JsonValue("tres shares", lambda row: tres_text(row["tres"]) if row["shares"] else ""),
}
"""Key -> its value, in the order in which Slurm prints the keys."""
NEEDS = sorted({name for value in VALUES.values() for name in value.needs.split()})
"""Columns of the row that the object reads."""
