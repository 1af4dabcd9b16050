"""Slurm's messages for refused requests, by the controller's error code.

Tools and users search for these messages. Source: slurm_strerror of 22.05, measured with the real commands.
"""

from __future__ import annotations

from warpdeck.base.errors import UserError

LIMIT = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
WORDS = {
    "BadConstraints": "Requested node configuration is not available",
    "deadline": "Requested time limit is invalid (missing or exceeds some limit)",
    "dependency": "Job dependency problem",
    "InvalidAccount": "Invalid account or account/partition combination specified",
    "component": "Operation not permitted on individual component of heterogeneous job",
    "not_leader": "Job not heterogeneous job leader",
    "array": "Invalid job array specification",
    "InvalidCPUs": "Requested node configuration is not available",
    "InvalidFeature": "Invalid feature specification",
    "InvalidMemory": "Requested node configuration is not available",
    "InvalidPrefer": "Invalid preferred feature specification",
    "InvalidNode": "Invalid node name specified",
    "InvalidTmpDisk": "Requested node configuration is not available",
    "InvalidTopology": "Requested node configuration is not available",
    "InvalidQOS": "Invalid qos specification",
    "Licenses": "Invalid license specification",
    "PartitionConfig": "Invalid partition name specified",
    "PartitionInactive": "Required partition not available (inactive or drain)",
    "PartitionNodeLimit": "Node count specification invalid",
    "PartitionTimeLimit": "Requested time limit is invalid (missing or exceeds some limit)",
    "Priority": "Access/permission denied",
    "reservation": "Requested reservation is invalid",
    "reservation_denied": "Access denied to requested reservation",
    "denied": "Access/permission denied",
    "not_owner": "Access/permission denied",
    "not_user": "Invalid user id",
    "held": "Job is in held state, pending scheduler release",
    "already_done": "Job/step already completing or completed",
    "not_found": "Invalid job id specified",
    "not_pending": "Job is no longer pending execution",
    "pending": "Job is pending execution",
    "not_running": "Job is not running",
    "not_suspended": "Job is not suspended",
    "finished": "Job has already finished",
    "ending": "Job can not be altered now, try later",
    "time_min": "Invalid time-min specification (exceeds job's time or other limits)",
    "limit": "Requested time limit is invalid (missing or exceeds some limit)",
    "nice": "Invalid --nice value",
    "no_requeue": "Requested operation is presently disabled",
    "step_cpus": "More processors requested than permitted",
    "step_mem": "Memory required by task is not available",
    "step_gpus": "Invalid generic resource (gres) specification",
    "step_nodes": "Requested node configuration is not available",
    "no_batch": "Only batch jobs are accepted or processed",
}


NUMBERS = {
    2000: "PartitionConfig",
    2002: "Priority",
    2005: "step_cpus",
    2006: "PartitionNodeLimit",
    2010: "not_user",
    2014: "BadConstraints",
    2017: "not_found",
    2018: "InvalidNode",
    2021: "already_done",
    2024: "pending",
    2029: "InvalidFeature",
    2037: "no_requeue",
    2038: "dependency",
    2039: "no_batch",
    2042: "held",
    2044: "step_mem",
    2045: "InvalidAccount",
    2048: "Licenses",
    2051: "deadline",
    2052: "reservation_denied",
    2053: "reservation",
    2066: "InvalidQOS",
    2070: "PartitionInactive",
    2072: "step_gpus",
    2073: "not_pending",
    2081: "array",
    2084: "finished",
    2085: "not_running",
    2087: "not_suspended",
    2107: "not_leader",
    2108: "component",
    2123: "nice",
    2124: "time_min",
    2133: "InvalidPrefer",
}
"""Slurm's error number -> a key of `WORDS` with the same message."""
_FIRST = {
    "InvalidCPUs": "CPU count per node can not be satisfied",
    "InvalidMemory": "Memory specification can not be satisfied",
    "InvalidTmpDisk": "Temporary disk specification can not be satisfied",
    "InvalidTopology": "Socket, core and/or thread specification can not be satisfied",
}


def said_first(error: UserError) -> str:
    """Return the line that a command prints before its failure message, or "" (for most errors)."""
    words = _FIRST.get(error.code)
    if error.code == "PartitionConfig" and (unknown := error.details.get("unknown")):
        words = f"invalid partition specified: {unknown}"
    return f"{words}\n" if words else ""


def in_slurms_words(error: UserError) -> str:
    """Return Slurm's message with ours on a second line, or only ours if Slurm has none."""
    own = f"{error.message}; {error.hint}" if error.hint else error.message
    words = WORDS.get(error.code, "")
    if not words and error.code.startswith(("QOS", "Assoc")):
        words = LIMIT
    return f"{words}\n{own}" if words else own


_LOADED = {"nodes": "slurm_load_node", "partitions": "slurm_load_partitions"}
"""Slurm's functions that fail for a private part of the site, which its messages name."""


def load_failure(error: UserError, command: str) -> str:
    """Return the message of a command that needs a part of the site that is private, or "" for another error."""
    function = _LOADED.get(error.details.get("subject", "")) if error.code == "private" else None
    if function is None:
        return ""
    return f"{function}{' error' if command == 'scontrol' else ''}: {WORDS['denied']}"
