"""The entities that sacctmgr adds, modifies and deletes: one row for each, with the arguments that it accepts.

Pure. The entities are the accounts, users and QoS of config.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .limit_names import LIMITS, OF_ASSOCIATION


class EntityField(NamedTuple):
    """A field that can be set: its key in config.toml, the kind of its value, and Slurm's label."""

    key: str
    kind: str
    label: str


class Editable(NamedTuple):
    """A kind of object in config.toml that can be changed."""

    plural: str
    """The objects in an error message."""
    conditions: str
    settings: str
    """Names of the conditions and of the settings in Slurm's order, as `abbreviations.names` parses them.

    Settings that are neither in `fields` nor in `limits.PARTS` do not exist here.
    """
    fields: Mapping[str, EntityField]
    """Fields that can be set, by sacctmgr's name."""
    refused: Mapping[str, str] = {}
    """Settings that Slurm has and that do not exist here, with the reason."""


_GROUP_LIMITS = (
    "GrpCPUMins:7 GrpCPURunMins:7 GrpCPUs:7 GrpJobs:4 GrpJobsAccrue:8 GrpMemory:4=GrpMem GrpNodes:4 "
    "GrpSubmitJobs:4=GrpSubmit GrpTRES:7 GrpTRESMins:8 GrpTRESRunMins:8 GrpWall:4"
)
_OF_ASSOCIATION = (
    f"RawUsage:7 DefaultQOS:8 FairShare:1=Share Shares:1=Share {_GROUP_LIMITS} MaxCPUMinsPerJob:7=MaxCPUMins "
    "MaxCPURunMins:7 MaxCPUsPerJob:7=MaxCPUs MaxJobs:4 MaxJobsAccrue:8 MaxNodesPerJob:4=MaxNodes MinPrioThresh:4 "
    "MaxSubmitJobs:4=MaxSubmit MaxTRESPerJob:7=MaxTRES MaxTRESPerNode:11 MaxTRESMinsPerJob:8=MaxTRESMins "
    "MaxTRESRunMins:8 MaxWallDurationPerJob:4=MaxWall Parent:2=ParentName Priority:2 QOSLevel:1=QOS"
)
_OF_QOS = (
    f"Description:1 Flags:2 GraceTime:3 {_GROUP_LIMITS} LimitFactor:6 MaxCPUMinsPerJob:7=MaxCPUMins "
    "MaxCPUsPerJob:7=MaxCPUs MaxCPUsPerUser:11=MaxCPUsPU MaxCPUsPU:9 MaxJobsAccruePerAccount:17 MaxJobsAccruePA:15 "
    "MaxJobsAccruePerUser:17 MaxJobsAccruePU:15 MaxJobsPerAccount:11=MaxJobsPA MaxJobsPA:9 "
    "MaxJobsPerUser:4=MaxJobsPU MaxJobsPU:4 MaxNodesPerJob:4=MaxNodes MaxNodesPerUser:8=MaxNodesPU MaxNodesPU:8 "
    "MaxSubmitJobsPerAccount:17=MaxSubmitPA MaxSubmitJobsPA:15=MaxSubmitPA "
    "MaxSubmitJobsPerUser:4=MaxSubmitPU MaxSubmitJobsPU:4=MaxSubmitPU MaxTRESPerAccount:11=MaxTRESPA MaxTRESPA:9 "
    "MaxTRESPerJob:7=MaxTRES MaxTRESPerNode:11 MaxTRESPerUser:11=MaxTRESPU MaxTRESPU:9 "
    "MaxTRESMinsPerJob:8=MaxTRESMins MaxTRESRunMinsPA:16 MaxTRESRunMinsPU:8 MaxWallDurationPerJob:4=MaxWall "
    "MinCPUsPerJob:7=MinCPUs MinPrioThresh:4 MinTRESPerJob:7=MinTRES PreemptMode:8 Preempt:7 PreemptExemptTime:8 "
    "Priority:3 RawUsage:7 UsageFactor:6 UsageThreshold:6"
)
LEVEL = "level"
"""Kind of the value of AdminLevel, which is a setting of the user and not of an association."""
_ASSOCIATION_FIELDS = {
    "Share": EntityField("shares", "share", "Fairshare"),
    "QOS": EntityField("qos", "qos", "QOS"),
    "DefaultQOS": EntityField("default_qos", "default", "DefQOS"),
    **{
        limit.field: EntityField(limit.key, limit.kind, limit.label or limit.field)
        for limit in OF_ASSOCIATION
    },
}
EDITABLE: Mapping[str, Editable] = {
    "account": Editable(
        "accounts",
        "Names:1=names Accounts:1=names Acct:4=names Clusters:1=clusters Parents:4=parents",
        f"Description:1 Organization:1 {_OF_ASSOCIATION}",
        {
            **_ASSOCIATION_FIELDS,
            "ParentName": EntityField("parent", "word", "Parent"),
            "Description": EntityField("description", "text", "Description"),
            "Organization": EntityField("organization", "text", "Organization"),
        },
    ),
    "qos": Editable(
        "QOS",
        "Names:1=names QOSLevel:1=names",
        _OF_QOS,
        {
            **{
                (limit.of_qos or limit.field): EntityField(
                    limit.key, limit.kind, limit.qos_label or limit.field
                )
                for limit in LIMITS
            },
            "Priority": EntityField("priority", "count", "Priority"),
            "Preempt": EntityField("preempts", "qos", "Preempt"),
            "PreemptMode": EntityField("preempt_mode", "mode", "PreemptMode"),
            "PreemptExemptTime": EntityField("preempt_exempt_s", "span", "PreemptExemptTime"),
            "GraceTime": EntityField("grace_s", "count", "GraceTime"),
            "UsageFactor": EntityField("usage_factor", "factor", "UsageFactor"),
            "Flags": EntityField("", "flags", "Flags"),
            # The description of a QoS is always its name.
            "Description": EntityField("", "nothing", "Description"),
        },
    ),
    "user": Editable(
        "users",
        "Names:1=names Users:1=names Clusters:1=clusters DefaultAccounts:8=defaultaccounts Accounts:2=accounts Acct:4=accounts",
        f"AdminLevel:2 {_OF_ASSOCIATION}",
        {**_ASSOCIATION_FIELDS, "AdminLevel": EntityField("admin_level", LEVEL, "Admin Level")},
        {
            "partitions": "an association applies to all partitions",
            "wckeys": "wckeys do not exist here",
        },
    ),
    "coordinator": Editable(
        "coordinator", "Names:1=names Users:1=names Accounts:1=accounts Acct:4=accounts", "", {}
    ),
}
_ONE_CLUSTER = "there is one cluster, and config.toml defines it"
NOT_EDITABLE = {
    "cluster": _ONE_CLUSTER,
    "federation": _ONE_CLUSTER,
    "resource": "licenses are defined in config.toml under [licenses]",
}
"""Entities that Slurm can change, with the reason why they cannot be changed here."""
_SHORT = {"acct": "account", "accts": "account"}


def editable_name(word: str) -> str:
    """Return the name of the entity that a word of any length or a plural means, or ""."""
    lowered = word.partition("=")[0].lower()
    lowered = _SHORT.get(lowered, lowered)
    found = (name for name in (*EDITABLE, *NOT_EDITABLE) if name.startswith(lowered) or lowered == f"{name}s")
    return next(found, "") if lowered else ""
