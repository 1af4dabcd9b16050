"""A partition of `scontrol show partition --json` and `sinfo --json` in newer layouts. Pure functions."""

from __future__ import annotations

from warpdeck.slurm.fields.field import Field, Row, shaped
from warpdeck.slurm.fields.partition_fields import PARTITION

from .layout import Keys, Layout
from .numbers import INFINITE, UNSET, minutes_number, number_object

MAIN = """
nodes.allowed_allocation== nodes.configured=node_list|some nodes.total=nodes accounts.allowed=allow_accounts|joined
accounts.deny=deny_accounts|joined groups.allowed=allow_groups|joined qos.allowed=allow_qos|joined
qos.deny=deny_qos|joined qos.assigned=qos|some alternate== tres.billing_weights== tres.configured=tres|tres-text
cluster== cpus.total=cpus defaults.memory_per_cpu:=0 defaults.partition_memory_per_cpu=unset
defaults.partition_memory_per_node=zero defaults.time=default_time defaults.job== grace_time=grace_s
maximums.cpus_per_node=infinite maximums.cpus_per_socket=infinite maximums.memory_per_cpu:=0
maximums.partition_memory_per_cpu=unset maximums.partition_memory_per_node=zero maximums.nodes=most_nodes
maximums.shares=shares maximums.oversubscribe.jobs=shares maximums.oversubscribe.flags:=[]
maximums.time=max_time_s|minutes maximums.over_time_limit=unset minimums.nodes=min_nodes|0 name node_sets==
priority.job_factor=priority_job_factor priority.tier=priority_tier timeouts.resume=unset timeouts.suspend=unset
partition.state=states suspend_time=unset
"""
PREEMPTION = {"requeue": "REQUEUE", "suspend": "SUSPEND", "cancel": "CANCEL", "off": "OFF"}


def _exclusive(row: Row) -> str:
    return "NODE" if row["exclusive"] else "USER" if row["exclusive_user"] else "NO"


LAYOUT = Layout(
    Keys(41, 45, MAIN),
    Keys(41, 44, "cpus.task_binding:=0 select_type:=[]"),
    Keys(43, 45, "topology=="),
    Keys(
        45,
        45,
        'cpus.task_binding:=[] select_type:=["NONE"] flags partition.exclusive=apart partition.oversubscribe==NO '
        "preempt_mode=preemption",
    ),
    fields={
        **PARTITION,
        "apart": Field("", _exclusive),
        "default_time": shaped(
            PARTITION["default_time_s"], lambda seconds: UNSET if seconds is None else minutes_number(seconds)
        ),
        "flags": Field("", lambda row: ["DEFAULT"] if row["default"] else []),
        "most_nodes": shaped(
            PARTITION["max_nodes"], lambda most: INFINITE if most is None else number_object(most)
        ),
        "preemption": Field("", lambda row: [PREEMPTION.get(row["preempt_mode"], "CLUSTER_GLOBAL")]),
        "shares": Field("", lambda row: 0 if row["exclusive"] else 1),
        "states": Field("", lambda row: [row["state"]]),
    },
)
