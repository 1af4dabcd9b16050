"""A job as `squeue --json` and `scontrol show job --json` show it, with the names and formats of Slurm's data_parser.

Properties that our jobs do not have are null, 0 or "". Times are Unix seconds, limits are minutes and memory is in MiB.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.slurm.format.units import MIB, tres_text

from .field import Field, Row, needs_of, shaped, table
from .job_fields import JOB, share_gres

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
CONSTANT: dict[str, Any] = {
    **dict.fromkeys(EMPTY.split(), ""),
    **dict.fromkeys(ZERO.split(), 0),
    **dict.fromkeys(NULL.split()),
}
KEYS = f"""
account admin_comment array_job_id=array array_task_id=task array_max_tasks=array_limit array_task_string=folded_tasks
batch_flag=batch cluster=={CLUSTER_NAME} command comment container current_working_directory=work_dir dependency
exit_code=wait_status flags group_id=gid group_name=group het_job_id het_job_id_set het_job_offset job_id=id
job_state=state name partition priority qos restart_cnt=restarts resv_name=reservation
show_flags:=["SHOW_ALL","SHOW_DETAIL","SHOW_LOCAL"] standard_error=stderr standard_input==/dev/null
standard_output=stdout state_description state_reason user_id=uid user_name=user accrue_time|unix deadline|unix
eligible_time|unix end_time=ends|unix pre_sus_time=before_stop_s|unix start_time|unix submit_time=submit|unix
suspend_time=stopped_at|unix time_limit=limit_s|minutes time_minimum=least_s|minutes contiguous cpus_per_tres
excluded_nodes=exc_nodes features prefer licenses max_nodes=nodes_max memory_per_cpu=mem_per_cpu
memory_per_node=mem_per_node memory_per_tres=mem_per_tres minimum_cpus_per_node=min_cpus
minimum_tmp_disk_per_node=tmp_disk nice|none reboot:=false required_nodes=req_nodes requeue shared tasks
tasks_per_node tres_per_job tres_per_node tres_per_task batch_host billable_tres cpus gres_detail
node_count=nodes_told nodes=node_list tres_req_str=tres|tres-text tres_alloc_str
"""
"""The keys in the order in which Slurm prints them, each with its field and form as in `field.table`."""
SHARED = {"NO": "none", "YES": "shared", "USER": "user", "MCS": "mcs"}
"""JSON value for each OVERSUBSCRIBE text of squeue. It is null if the job did not request a sharing mode."""
OWN: dict[str, Field] = {
    "billable_tres": Field(
        "tres shares", lambda row: float(row["tres"].get("billing", 0)) if row["shares"] else None
    ),
    "flags": Field("start", lambda row: ["JOB_WAS_RUNNING"] if row["start"] else []),
    "gres_detail": Field(
        "shares", lambda row: [share_gres(share) for share in row["shares"] if share["gpus"]]
    ),
    "shared": shaped(JOB["oversubscribe"], SHARED.get),
    "state_description": shaped(JOB["reason"], lambda reason: reason if "," in reason else ""),
    "state_reason": shaped(JOB["reason"], lambda reason: reason.partition(",")[0]),
    "least_s": shaped(JOB["time_min_s"], lambda seconds: seconds or 0),
    "tres_alloc_str": Field("tres shares", lambda row: tres_text(row["tres"]) if row["shares"] else ""),
}
"""Fields that only JSON shows."""
VALUES = table(KEYS, {**JOB, **OWN})
NEEDS = needs_of(VALUES.values())
"""Columns of the row that the object reads."""


def job_object(row: Row) -> dict[str, Any]:
    """Return the job as JSON values."""
    return {**CONSTANT, **{key: field.value(row) for key, field in VALUES.items()}, **_resources(row)}


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
