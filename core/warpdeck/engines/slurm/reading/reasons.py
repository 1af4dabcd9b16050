"""Sentences for Slurm's reason codes (squeue(1), "JOB REASON CODES").

A code that is not in the table is shown as Slurm wrote it.
"""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "AssocGrpCpuLimit": "the CPUs of this account are used up",
    "AssocGrpGRES": "the GPUs of this account are used up",
    "AssocGrpGRESMinutes": "the GPU minutes of this account are used up",
    "AssocGrpJobsLimit": "this account runs as many jobs as it may",
    "AssocGrpMemLimit": "the memory of this account is used up",
    "AssocGrpNodeLimit": "the nodes of this account are used up",
    "AssocGrpSubmitJobsLimit": "this account has submitted as many jobs as it may",
    "AssocMaxJobsLimit": "you run as many jobs as your account allows",
    "AssocMaxWallDurationPerJobLimit": "its time limit is above the maximum of the account; lower it with --time",
    "BadConstraints": "no node has these features; change --constraint",
    "BeginTime": "its start time (--begin) has not come yet",
    "Cleaning": "an earlier run of this job is still being cleaned up",
    "Dependency": "it waits for another job to end",
    "DependencyNeverSatisfied": "the job that it depends on has failed, so it can never start; cancel it",
    "InvalidAccount": "its account does not exist or may not be used; change --account",
    "InvalidQOS": "its QoS does not exist or may not be used; change --qos",
    "JobArrayTaskLimit": "its array runs as many tasks at once as its limit (%N) allows",
    "JobHeldAdmin": "an administrator holds it; only an administrator can release it",
    "JobHeldUser": "its owner holds it; `warpdeck release` releases it",
    "JobLaunchFailure": "its launch failed on a node; it waits to be started again",
    "Licenses": "it waits for licenses",
    "MaxGRESPerAccount": "this account uses as many GPUs as its QoS allows",
    "MaxMemPerLimit": "it requests more memory per node or CPU than the partition allows; lower --mem",
    "NodeDown": "a node that it needs is down",
    "None": "",
    "PartitionConfig": "it exceeds a limit of its partition",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive and starts no jobs",
    "PartitionNodeLimit": "it requests more nodes than its partition allows or has",
    "PartitionTimeLimit": "its time limit is above the maximum of the partition; lower it with --time",
    "Priority": "jobs with a higher priority are ahead of it in this partition",
    "Prolog": "the prolog of its nodes is still running",
    "QOSGrpGRES": "the GPUs of this QoS are used up",
    "QOSGrpGRESMinutes": "the GPU minutes of this QoS are used up",
    "QOSGrpJobsLimit": "this QoS runs as many jobs as it may",
    "QOSJobLimit": "this QoS runs as many jobs as it may",
    "QOSMaxGRESPerJob": "it requests more GPUs than this QoS allows for one job",
    "QOSMaxGRESPerUser": "you use as many GPUs as this QoS allows",
    "QOSMaxJobsPerUserLimit": "you run as many jobs as this QoS allows",
    "QOSMaxWallDurationPerJobLimit": "its time limit is above the maximum of the QoS; lower it with --time",
    "ReqNodeNotAvail": "a requested node is down, drained, or reserved",
    "Reservation": "it waits for its reservation to begin",
    "ReservationDeleted": "its reservation was deleted; choose another one or cancel the job",
    "Resources": "it is next in its partition, and waits for resources to become free",
    "SystemFailure": "a system error of Slurm stopped its launch; ask an administrator",
    "TimeLimit": "it reached its time limit",
}

REQUEUED_HELD = "job requeued in held state"
DESCRIPTIONS: dict[str, tuple[str, str]] = {
    REQUEUED_HELD: (
        "JobHeldUser",
        "it was requeued and is held; `warpdeck release` releases it",
    ),
    "launch failed requeued held": (
        "JobHeldUser",
        "its launch failed, and it is held; `warpdeck release` releases it",
    ),
}
"""Texts that Slurm shows in place of a code, with the code that is meant, and a sentence."""


def is_requeued_held(reason: str) -> bool:
    """Return whether the job is held because it was requeued with a hold."""
    return reason.replace("_", " ") == REQUEUED_HELD


def sentence(reason: str) -> tuple[str, str]:
    """Return the reason's code and sentence. `reason` is the text of squeue's field Reason.

    Some reasons name objects after the code: "ReqNodeNotAvail, UnavailableNodes:n[1-2]".
    """
    text = reason.replace("_", " ") if reason.startswith("Nodes_required") else reason
    if text.startswith("Nodes required"):
        return (
            "ReqNodeNotAvail",
            "nodes that it needs are down, drained, or reserved for partitions of higher priority",
        )
    if known := DESCRIPTIONS.get(reason.replace("_", " ")):
        return known
    code, _, rest = (text or "None").partition(",")
    meaning = SENTENCES.get(code, code)
    detail = rest.replace("_", " ").strip()
    if detail.startswith("UnavailableNodes:"):
        nodes = detail.removeprefix("UnavailableNodes:")
        detail = f"unavailable: {nodes}" if nodes else ""
    return code, f"{meaning} ({detail})" if detail else meaning
