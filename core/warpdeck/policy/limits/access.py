"""Access of jobs to partitions, and time limits: by name, permission, time and number of nodes.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warpdeck.notation.values.durations import roughly
from warpdeck.policy.input.settings import PlannerSettings
from warpdeck.policy.input.site import PartitionView
from warpdeck.policy.input.view import PendingJob


def partition_names(named: str, settings: PlannerSettings) -> list[str]:
    """Return the partitions that a job names, or the default partition. For "a,b", the planner uses the first
    one with enough free resources.
    """
    return [name for name in (named or settings.default_partition).split(",") if name]


def in_partition(job: PendingJob, partition: PartitionView | None) -> PendingJob:
    """Return the job with this partition as its only one. A request may name several partitions or none."""
    if partition is None or job.partition == partition.name:
        return job
    return msgspec.structs.replace(job, partition=partition.name)


def tier(named: str, tiers: Mapping[str, int], settings: PlannerSettings) -> int:
    """Return the highest tier among the partitions that a job names."""
    return max((tiers.get(name, 1) for name in partition_names(named, settings)), default=1)


def time_limit(
    job: PendingJob, partition: PartitionView | None, settings: PlannerSettings, now: float
) -> int | None:
    """Return the job's time limit in seconds; None means unlimited.

    This is the requested limit, else the partition's or the site's default, else the partition's maximum.
    With --time-min it is reduced to the partition's maximum. A deadline reduces every limit.
    """
    longest = None if partition is None else partition.max_time_s
    limit = job.time_limit_s
    if limit is None and not job.unlimited:
        default = None if partition is None else partition.default_time_s
        limit = default if default is not None else settings.default_time_s
        limit = _smaller(limit, longest)
    elif job.time_min_s is not None and (longest is None or longest >= job.time_min_s):
        limit = _smaller(limit, longest)
    if job.deadline_unix is not None:
        limit = _smaller(limit, max(1, int(job.deadline_unix - now)))
    return limit


def _smaller(limit: int | None, bound: int | None) -> int | None:
    if limit is None or bound is None:
        return bound if limit is None else limit
    return min(limit, bound)


def user_refusal(job: PendingJob, part: PartitionView) -> tuple[str, str] | None:
    """Return (code, sentence) if the partition does not admit this user, account or QoS."""
    for subject, value, allowed in (
        ("user", job.user, part.allow_users),
        ("account", job.account, part.allow_accounts),
        ("QoS", job.qos, part.allow_qos),
    ):
        if allowed is not None and value not in allowed:
            return "PartitionConfig", f"partition {part.name} does not admit {subject} {value or '(none)'}"
    if job.account in part.deny_accounts or job.qos in part.deny_qos:
        return "PartitionConfig", f"partition {part.name} does not admit this account or QoS"
    return None


def is_restricted(part: PartitionView) -> bool:
    """Return whether the partition admits only some users, accounts or QoS."""
    allows = (part.allow_users, part.allow_accounts, part.allow_qos)
    return any(each is not None for each in allows) or bool(part.deny_accounts or part.deny_qos)


def partition_refusal(
    job: PendingJob, part: PartitionView, limit_s: float | None, *, any_time: bool = False
) -> tuple[str, str] | None:
    """Return (code, sentence) if the partition does not let this job start unchanged.

    `any_time` means that the job's QoS lifts the time limit.
    """
    if part.state in ("DOWN", "INACTIVE"):
        code = "PartitionDown" if part.state == "DOWN" else "PartitionInactive"
        return code, f"partition {part.name} is {part.state.lower()}; an admin must bring it up"
    refusal = user_refusal(job, part)
    if refusal is not None:
        return refusal
    if not any_time and part.max_time_s is not None and (limit_s is None or limit_s > part.max_time_s):
        requested = "no time limit" if limit_s is None else roughly(limit_s)
        return (
            "PartitionTimeLimit",
            f"requests {requested}; partition {part.name} allows {roughly(part.max_time_s)}",
        )
    nodes = job.resources.nodes_min
    if (part.max_nodes is not None and nodes > part.max_nodes) or max(
        nodes, job.resources.nodes_max
    ) < part.min_nodes:
        allowed = f"{part.min_nodes or 1} to {part.max_nodes or 'any number of'}"
        return "PartitionNodeLimit", f"requests {nodes} nodes; partition {part.name} allows {allowed}"
    return None
