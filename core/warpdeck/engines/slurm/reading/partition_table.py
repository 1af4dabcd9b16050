"""The partitions that `scontrol --oneliner show partition` prints, or a table with the same fields (`PARTITION_COLUMNS`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpdeck.notation.values.hostlist import expand
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import PartitionRow

from . import values
from .marked_table import Column, read_table
from .scontrol_text import OneLiner

PartitionFields = Mapping[str, str]
"""The fields of one partition, by scontrol's names."""

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


PARTITION_COLUMNS = tuple(
    Column(name, "", 0)
    for name in (
        *("PartitionName", "Default", "State", "Nodes", "MaxTime", "DefaultTime", "MinNodes", "MaxNodes"),
        *("PriorityTier", "PriorityJobFactor", "PreemptMode", "GraceTime", "QoS", "ExclusiveUser"),
        *("AllowGroups", "AllowAccounts", "DenyAccounts", "AllowQos", "DenyQos"),
    )
)
"""The fields that are read here. A table of another source has them all, in this order."""


def partition_fields(text: str) -> list[PartitionFields]:
    """Return the partitions that scontrol has printed, in Slurm's order."""
    return [PARTITION.fields(line) for line in text.splitlines() if line.startswith("PartitionName=")]


def marked_partition_fields(text: str, mark: str) -> list[PartitionFields]:
    """Return the partitions of a table with PARTITION_COLUMNS. Raises MalformedTable."""
    return list(read_table(text, PARTITION_COLUMNS, mark))


def read_partitions(partitions: Sequence[PartitionFields], nodes: Sequence[NodeRow]) -> list[PartitionRow]:
    """Return the rows of the partitions, with the current state of their nodes."""
    by_name = {node.name: node for node in nodes}
    return [_partition(fields, by_name, position) for position, fields in enumerate(partitions)]


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
        exclusive_user=fields.get("ExclusiveUser") == "YES" or fields.get("Exclusive") == "USER",
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
