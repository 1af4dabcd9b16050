"""The fields of scontrol's nodes and partitions, as functions of a node and a partition in slurmrestd's JSON.

A table that is written with them is read like the text of scontrol (`reading.node_table`, `reading.partition_table`). Only
the fields that are needed are decoded. Those of nodes exist in the same form in every data_parser of `VERSIONS`. Those of
partitions exist in `PARTITION_VERSIONS`: the older ones do not tell which partition is the default.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from warpdeck.engines.slurm.reading.node_table import NODE_COLUMNS
from warpdeck.engines.slurm.reading.partition_table import PARTITION_COLUMNS

from .job_fields import Number, time_text

PARTITION_VERSIONS = ("v0.0.45",)
_NO_VALUE = 4294967294
"""A number that slurmctld does not know (NO_VAL in slurm.h). The larger one is infinite."""
_PREEMPTS_AS_CLUSTER = "CLUSTER_GLOBAL"
_OFF = "DISABLED"


class RestNode(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a node that we read."""

    name: str
    state: list[str]
    reason: str
    reason_changed_at: Number
    reason_set_by_user: str
    hostname: str
    address: str
    cpus: int
    alloc_cpus: int
    cpu_load: int
    sockets: int
    cores: int
    threads: int
    real_memory: int
    alloc_memory: int
    free_mem: Number
    temporary_disk: int
    gres: str
    gres_used: str
    operating_system: str
    architecture: str
    boot_time: Number
    slurmd_start_time: Number
    weight: int
    comment: str
    extra: str
    active_features: list[str]
    partitions: list[str]


def _reason(node: RestNode) -> str:
    if not node.reason:
        return ""
    return f"{node.reason} [{node.reason_set_by_user}@{time_text(node.reason_changed_at) or 'Unknown'}]"


def _load(node: RestNode) -> str:
    return f"{node.cpu_load / 100:.2f}" if node.cpu_load < _NO_VALUE else ""


NODE_FIELDS: dict[str, Callable[[RestNode], str]] = {
    "NodeName": lambda node: node.name,
    "State": lambda node: "+".join(node.state),
    "Reason": _reason,
    "NodeHostName": lambda node: node.hostname,
    "NodeAddr": lambda node: node.address,
    "CPUTot": lambda node: str(node.cpus),
    "CPUAlloc": lambda node: str(node.alloc_cpus),
    "CPULoad": _load,
    "Sockets": lambda node: str(node.sockets),
    "CoresPerSocket": lambda node: str(node.cores),
    "ThreadsPerCore": lambda node: str(node.threads),
    "RealMemory": lambda node: str(node.real_memory),
    "AllocMem": lambda node: str(node.alloc_memory),
    "FreeMem": lambda node: node.free_mem.text(),
    "TmpDisk": lambda node: str(node.temporary_disk),
    "Gres": lambda node: node.gres,
    "GresUsed": lambda node: node.gres_used,
    "OS": lambda node: node.operating_system,
    "Arch": lambda node: node.architecture,
    "BootTime": lambda node: time_text(node.boot_time),
    "SlurmdStartTime": lambda node: time_text(node.slurmd_start_time),
    "Weight": lambda node: str(node.weight),
    "Comment": lambda node: node.comment,
    "Extra": lambda node: node.extra,
    "ActiveFeatures": lambda node: ",".join(node.active_features),
    "Partitions": lambda node: ",".join(node.partitions),
}
"""scontrol's name of a field -> its text."""


class _Nodes(msgspec.Struct, frozen=True):
    configured: str


class _Names(msgspec.Struct, frozen=True):
    allowed: str
    deny: str = ""
    assigned: str = ""


class _Times(msgspec.Struct, frozen=True):
    time: Number


class _Maximums(msgspec.Struct, frozen=True):
    nodes: Number
    time: Number


class _Minimums(msgspec.Struct, frozen=True):
    nodes: int


class _Priority(msgspec.Struct, frozen=True):
    job_factor: int
    tier: int


class _State(msgspec.Struct, frozen=True):
    exclusive: str
    state: list[str]


class RestPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a partition that we read."""

    name: str
    nodes: _Nodes
    accounts: _Names
    groups: _Names
    qos: _Names
    defaults: _Times
    maximums: _Maximums
    minimums: _Minimums
    priority: _Priority
    partition: _State
    flags: list[str]
    grace_time: int
    preempt_mode: list[str]


def _minutes(value: Number) -> str:
    if value.infinite:
        return "UNLIMITED"
    return (
        f"{int(value.number) // 1440}-{int(value.number) % 1440 // 60:02}:{int(value.number) % 60:02}:00"
        if value.set
        else ""
    )


def _preempts(partition: RestPartition, of_cluster: str) -> str:
    """Return the mode as scontrol prints it, which for a partition without its own is the mode of the cluster."""
    words = ["OFF" if word == _OFF else word for word in partition.preempt_mode]
    if not words or _PREEMPTS_AS_CLUSTER in words:
        return of_cluster
    return ",".join(sorted(words, key=lambda word: word != "GANG"))


PARTITION_FIELDS: dict[str, Callable[[RestPartition], str]] = {
    "PartitionName": lambda found: found.name,
    "Default": lambda found: "YES" if "DEFAULT" in found.flags else "NO",
    "State": lambda found: "+".join(found.partition.state),
    "Nodes": lambda found: found.nodes.configured,
    "MaxTime": lambda found: _minutes(found.maximums.time),
    "DefaultTime": lambda found: _minutes(found.defaults.time),
    "MinNodes": lambda found: str(found.minimums.nodes),
    "MaxNodes": lambda found: found.maximums.nodes.text() or "UNLIMITED",
    "PriorityTier": lambda found: str(found.priority.tier),
    "PriorityJobFactor": lambda found: str(found.priority.job_factor),
    "GraceTime": lambda found: str(found.grace_time),
    "QoS": lambda found: found.qos.assigned,
    "ExclusiveUser": lambda found: "YES" if found.partition.exclusive == "USER" else "NO",
    "AllowGroups": lambda found: found.groups.allowed or "ALL",
    "AllowAccounts": lambda found: found.accounts.allowed or "ALL",
    "DenyAccounts": lambda found: found.accounts.deny,
    "AllowQos": lambda found: found.qos.allowed or "ALL",
    "DenyQos": lambda found: found.qos.deny,
}
"""scontrol's name of a field -> its text, without the mode of preemption."""


def node_cells(node: RestNode) -> list[str]:
    """Return the fields of NODE_COLUMNS."""
    return [NODE_FIELDS[column.name](node) for column in NODE_COLUMNS]


def partition_cells(found: RestPartition, *, preempts: str) -> list[str]:
    """Return the fields of PARTITION_COLUMNS. `preempts` is the cluster's mode of preemption."""
    texts = {name: text(found) for name, text in PARTITION_FIELDS.items()}
    texts["PreemptMode"] = _preempts(found, preempts)
    return [texts[column.name] for column in PARTITION_COLUMNS]
