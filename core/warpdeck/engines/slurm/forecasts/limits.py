"""The limits that hold a job: those of its QoS, its account and its user that have no room for it. The functions are pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from warpdeck.base.cluster import NORMAL_QOS
from warpdeck.engines.slurm.reading.assoc_mgr import Counted, Holder
from warpdeck.model import Job
from warpdeck.policy.resources.tres import MIB

NAME = re.compile(r"[\w.@+-]{1,200}")
"""A name that may be part of a list of scontrol."""
KINDS = {
    "GrpJobs": "running jobs",
    "MaxJobs": "running jobs",
    "MaxJobsPU": "running jobs",
    "MaxJobsPA": "running jobs",
    "GrpSubmitJobs": "submitted jobs",
    "MaxSubmitJobs": "submitted jobs",
    "MaxSubmitJobsPU": "submitted jobs",
    "MaxSubmitJobsPA": "submitted jobs",
    "GrpWall": "minutes of run time",
    "GrpTRES": "{tres}",
    "MaxTRESPU": "{tres}",
    "MaxTRESPA": "{tres}",
    "GrpTRESMins": "minutes of {tres}",
    "GrpTRESRunMins": "minutes of {tres} of running jobs",
}
"""The limits of several jobs together, and what they count."""


def is_limit(code: str) -> bool:
    """Return whether a reason means that a limit of a QoS or an association holds the job."""
    return code.startswith(("QOS", "Assoc", "MaxGRESPerAccount", "MaxCpuPerAccount"))


def question(job: Job) -> tuple[str, ...] | None:
    """Return the command that tells the limits of this job, or None if its account has no name."""
    account, qos = job.request.account, job.request.qos or NORMAL_QOS
    if not NAME.fullmatch(account) or not NAME.fullmatch(qos):
        return None
    return ("scontrol", "show", "assoc_mgr", f"accounts={account}", f"qos={qos}", "flags=assoc,qos")


def reached(job: Job, holders: Iterable[Holder]) -> list[str]:
    """Return a sentence for each limit that has no room for the job."""
    found = []
    for holder in holders:
        if _holds(job, holder):
            found += [
                f"{int(each.used)} of {each.limit} {KINDS[each.key].format(tres=_name(each.tres))} in use by {_owner(holder)}"
                for each in holder.counts
                if each.limit is not None and each.key in KINDS and each.used + _need(job, each) > each.limit
            ]
    return found


def _holds(job: Job, holder: Holder) -> bool:
    """Return whether the limits of this holder count for the job."""
    request = job.request
    if holder.qos and holder.qos != (request.qos or NORMAL_QOS):
        return False
    if holder.partition and holder.partition not in request.partition.split(","):
        return False
    return holder.user in ("", job.user) and holder.account in ("", request.account)


def _need(job: Job, counted: Counted) -> float:
    """Return the amount that the job adds. It is at least the smallest amount, because it is not known of all resources."""
    resources = job.request.resources
    known = {
        "gres/gpu": resources.gpu_count(),
        "node": resources.nodes_min,
        "cpu": resources.task_count() * resources.cpus_per_task,
        "mem": (resources.mem_per_node_bytes or 0) * resources.nodes_min // MIB,
    }
    if counted.key in ("GrpTRES", "MaxTRESPU", "MaxTRESPA"):
        return known.get(counted.tres, 0)
    return 1


def _name(tres: str) -> str:
    return {"gres/gpu": "GPUs", "cpu": "CPUs", "node": "nodes", "mem": "MiB of memory"}.get(tres, tres)


def _owner(holder: Holder) -> str:
    words = [
        f"QoS {holder.qos}" if holder.qos else "",
        f"account {holder.account}" if holder.account else "",
        f"user {holder.user}" if holder.user else "",
    ]
    return ", ".join(word for word in words if word)
