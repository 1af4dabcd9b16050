"""A job of `squeue --json` and `scontrol show job --json` in newer layouts. Pure functions."""

from __future__ import annotations

from warpdeck.base.cluster import CLUSTER_NAME
from warpdeck.slurm.fields.field import Field, Row, shaped
from warpdeck.slurm.fields.job_fields import JOB
from warpdeck.slurm.fields.job_json import OWN
from warpdeck.slurm.format.units import MIB

from .layout import Keys, Layout
from .numbers import UNSET, number_object

MAIN = f"""
account|some accrue_time|at admin_comment|some allocating_node=submit_host|some array_job_id=array|number
array_task_id=task|number array_max_tasks=array_limit|number array_task_string=folded_tasks|some association_id:=0
batch_features== batch_flag=batch batch_host|some flags burst_buffer== burst_buffer_state== cluster=={CLUSTER_NAME}
cluster_features== command|some comment|some container|some container_id== contiguous core_spec:=0 thread_spec:=32766
cores_per_socket=unset billable_tres=billing cpus_per_task|number cpu_frequency_minimum=unset
cpu_frequency_maximum=unset cpu_frequency_governor=unset cpus_per_tres|some cron== deadline|at delay_boot=zero
dependency|some derived_exit_code=derived_exit|exit eligible_time|at end_time=ends|at excluded_nodes=exc_nodes|some
exit_code|exit extra== failed_node== features|some federation_origin== federation_siblings_active==
federation_siblings_viable== gres_detail group_id=gid|0 group_name=group het_job_id=het_id|number
het_job_id_set|some het_job_offset=het_at|number job_id=id job_resources job_size_str:=[] job_state=states
last_sched_evaluation=start|at licenses|some mail_type=mail mail_user=mail_to max_cpus=zero max_nodes=most_nodes|number
mcs_label== memory_per_tres=mem_per_tres|some name network== nodes=node_list|some nice|0 tasks_per_core=infinite
tasks_per_tres=zero tasks_per_node=node_tasks|number tasks_per_socket=infinite tasks_per_board=zero cpus|number
node_count=nodes_told|number tasks|number partition|some prefer|some memory_per_cpu=mem_per_cpu|number
memory_per_node=mem_per_node|number minimum_cpus_per_node=min_cpus|number minimum_tmp_disk_per_node=tmp_disk|number
preempt_time=leaves|at preemptable_time=zero pre_sus_time=before_stop_s|at hold priority|number profile:=["NOT_SET"]
qos|some reboot:=false required_nodes=req_nodes|some requeue resize_time=zero restart_cnt=restarts|0
resv_name=reservation|some scheduled_nodes=sched_nodes|some selinux_context== shared=sharing sockets_per_board:=0
sockets_per_node=unset start_time|at state_description state_reason standard_error=stderr|some
standard_input==/dev/null standard_output=stdout|some submit_time=submit|at suspend_time=stopped_at|at
system_comment== time_limit=limit_s|minutes time_minimum=least_s|minutes threads_per_core=unset tres_bind==
tres_freq== tres_per_job|some tres_per_node|some tres_per_socket== tres_per_task|some tres_req_str=tres|tres-text
tres_alloc_str user_id=uid user_name=user maximum_switch_wait_time=switches_wait_s|0 wckey==
current_working_directory=work_dir|some
"""
SHARING = {"YES": ["oversubscribe"], "USER": ["user"], "MCS": ["mcs"]}
"""Words for each OVERSUBSCRIBE text of squeue."""


def _resources(row: Row) -> Row | None:
    """Return the nodes that the job holds, or None if it holds none."""
    if not row["shares"]:
        return None
    nodes = [
        {
            "index": index,
            "name": share["name"],
            "cpus": {"count": share["cpus"], "used": 0},
            "memory": {"used": 0, "allocated": share["mem_bytes"] // MIB},
            "sockets": [],
        }
        for index, share in enumerate(row["shares"])
    ]
    return {
        "select_type": ["CR_CPU_MEMORY"],
        "nodes": {
            "count": len(nodes),
            "select_type": ["AVAILABLE"],
            "list": row["node_list"],
            "whole": False,
            "allocation": nodes,
        },
        "cpus": sum(share["cpus"] for share in row["shares"]),
        "threads_per_core": UNSET,
    }


FIELDS: dict[str, Field] = {
    **JOB,
    **OWN,
    "billing": Field(
        "tres shares", lambda row: number_object(row["tres"].get("billing", 0) if row["shares"] else None)
    ),
    "het_at": shaped(JOB["het_offset"], lambda offset: offset or 0),
    "het_id": shaped(JOB["het_job_id"], lambda job: job or 0),
    "hold": shaped(JOB["priority"], lambda priority: priority == 0),
    "job_resources": Field("shares node_list", _resources),
    "mail": shaped(JOB["mail_types"], lambda types: [*(types or ())]),
    "mail_to": Field("mail_user user", lambda row: row["mail_user"] or row["user"]),
    "most_nodes": shaped(JOB["nodes_max"], lambda most: most or 0),
    "node_tasks": shaped(JOB["tasks_per_node"], lambda tasks: tasks or 0),
    "sharing": shaped(JOB["oversubscribe"], lambda word: SHARING.get(word, [])),
    "can_share": shaped(JOB["oversubscribe"], lambda word: word == "YES"),
    "step_id": Field(
        "id",
        lambda row: {
            "sluid": "",
            "job_id": number_object(row["id"]),
            "step_het_component": UNSET,
            "step_id": "entire",
        },
    ),
    "states": shaped(JOB["state"], lambda state: [state]),
    "submit_line": Field("submit_line", lambda row: row["submit_line"] or ""),
}
LAYOUT = Layout(
    Keys(41, 45, MAIN),
    Keys(41, 41, "exclusive:=[] minimum_switches=max_switches|0 oversubscribe=can_share show_flags:=[]"),
    Keys(41, 44, "power.flags:=[]"),
    Keys(42, 45, "priority_by_partition:=[] required_switches=max_switches|0"),
    Keys(
        43,
        45,
        "licenses_allocated=licenses|some segment_size:=0 stdin_expanded==/dev/null stdout_expanded=stdout|some "
        "stderr_expanded=stderr|some",
    ),
    Keys(44, 45, "step_id submit_line"),
    Keys(45, 45, "container_type== memory_update_delay:=0 memory_update_margin:=0"),
    fields=FIELDS,
)
