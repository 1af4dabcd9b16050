"""The partitions that `scontrol --oneliner show partition` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import PartitionRow

from . import values
from .scontrol_text import OneLiner

PARTITION = OneLiner(
    (
        *(
            "PartitionName",
            "AllowGroups",
            "AllowAccounts",
            "DenyAccounts",
            "AllowQos",
            "DenyQos",
            "AllocNodes",
        ),
        *(
            "Default",
            "QoS",
            "DefaultTime",
            "DisableRootJobs",
            "ExclusiveUser",
            "Exclusive",
            "ExclusiveTopo",
            "GraceTime",
        ),
        *(
            "Hidden",
            "MaxNodes",
            "MaxTime",
            "MinNodes",
            "LLN",
            "MaxCPUsPerNode",
            "MaxCPUsPerSocket",
            "NodeSets",
        ),
        *(
            "Nodes",
            "PriorityJobFactor",
            "PriorityTier",
            "RootOnly",
            "ReqResv",
            "OverSubscribe",
            "OverTimeLimit",
        ),
        *(
            "PreemptMode",
            "State",
            "TotalCPUs",
            "TotalNodes",
            "SelectTypeParameters",
            "JobDefaults",
            "DefMemPerNode",
        ),
        *("DefMemPerCPU", "MaxMemPerNode", "MaxMemPerCPU", "TRES", "Alternate", "TRESBillingWeights"),
    )
)


def read_partitions(text: str, nodes: Sequence[NodeRow]) -> list[PartitionRow]:
    """Return the partitions in Slurm's order, with the current state of their nodes."""
    by_name = {node.name: node for node in nodes}
    lines = [line for line in text.splitlines() if line.startswith("PartitionName=")]
    return [_partition(PARTITION.fields(line), by_name, position) for position, line in enumerate(lines)]


def _partition(fields: Mapping[str, str], nodes: Mapping[str, NodeRow], position: int) -> PartitionRow:
    names = expand(fields.get("Nodes", "")) if fields.get("Nodes") else []
    own = [nodes[name] for name in names if name in nodes]
    states: dict[str, int] = {}
    for node in own:
        states[node.state] = states.get(node.state, 0) + 1
    return PartitionRow(
        name=fields["PartitionName"],
        position=position,
        default=fields.get("Default") == "YES",
        state=fields.get("State", "UP"),
        node_list=fields.get("Nodes", ""),
        node_states=states,
        nodes=len(names),
        cpus=sum(node.cpus for node in own),
        cpus_used=sum(node.cpus_used for node in own),
        gpus=sum(len(node.gpus) for node in own),
        gpus_used=sum(bool(gpu.job) for node in own for gpu in node.gpus),
        max_time_s=values.duration_s(fields.get("MaxTime", "")),
        default_time_s=values.duration_s(fields.get("DefaultTime", "")),
        min_nodes=_number(fields.get("MinNodes", "")) or 0,
        max_nodes=_number(fields.get("MaxNodes", "")),
        priority_tier=_number(fields.get("PriorityTier", "")) or 0,
        priority_job_factor=_number(fields.get("PriorityJobFactor", "")) or 0,
        preempt_mode=fields.get("PreemptMode", ""),
        grace_s=_number(fields.get("GraceTime", "")) or 0,
        qos=fields.get("QoS", ""),
        exclusive_user="YES" in (fields.get("ExclusiveUser"), fields.get("Exclusive")),
        allow_groups=_allowed(fields.get("AllowGroups", "ALL")),
        allow_accounts=_allowed(fields.get("AllowAccounts", "ALL")),
        deny_accounts=_names(fields.get("DenyAccounts", "")),
        allow_qos=_allowed(fields.get("AllowQos", "ALL")),
        deny_qos=_names(fields.get("DenyQos", "")),
    )


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _allowed(text: str) -> list[str] | None:
    """Return the names, or None if everybody is allowed."""
    return None if text in ("ALL", "") else _names(text)
