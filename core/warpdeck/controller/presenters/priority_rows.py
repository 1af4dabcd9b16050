"""Priorities and shares as rows for clients.

They contain each number that sprio and sshare show, computed by the same functions that the planner uses.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgspec

from warpdeck.config import Site
from warpdeck.model import JobId
from warpdeck.policy import (
    FairshareRow,
    Limits,
    PendingJob,
    PlannerSettings,
    PlannerView,
    Ranking,
    Weights,
    fair_tree,
)
from warpdeck.policy.limits.inherited import inherited
from warpdeck.protocol.site_rows import PriorityRow, ShareRow


def priority_rows(
    view: PlannerView, now: float, settings: PlannerSettings, *, job_ids: Collection[JobId] | None
) -> list[PriorityRow]:
    """Return rows of the pending jobs, highest priority first. If `job_ids` is None, return all."""
    ranking = Ranking(view, now, settings)
    running = Counter(job.array_job_id for job in view.running)
    rows = [
        (_priority_row(ranking, job, _is_eligible(job, now, running[job.array_job_id])), job.id)
        for job in view.pending
        if job_ids is None or job.id in job_ids
    ]
    return [row for row, _ in sorted(rows, key=lambda entry: (-entry[0].priority, entry[1]))]


def _is_eligible(job: PendingJob, now: float, running: int) -> bool:
    """Return whether nothing but the queue delays the job.

    `running` is the number of running tasks of the job's array.
    """
    waits = bool(job.held or job.waits_for or job.never) or (job.begin_at_unix or 0.0) > now
    return not waits and (not job.throttle or running < job.throttle)


def _priority_row(ranking: Ranking, job: PendingJob, eligible: bool) -> PriorityRow:
    parts = ranking.explain(job)
    return PriorityRow(
        label=job.name,
        number=job.array_job_id,
        eligible=eligible,
        user=job.user,
        account=job.account,
        partition=job.partition,
        qos=job.qos,
        priority=parts.priority,
        age_part=parts.age,
        fairshare_part=parts.fairshare,
        job_size_part=parts.job_size,
        partition_part=parts.partition,
        qos_part=parts.qos,
        tres_parts=parts.tres,
        nice=parts.nice,
        set_by_hand=parts.set_by_hand,
    )


def weights_by_part(weights: Weights) -> dict[str, float]:
    """Return the maximum of each part of the priority. Parts with weight zero are left out."""
    named = {
        "age": weights.age,
        "fairshare": weights.fairshare,
        "job_size": weights.job_size,
        "partition": weights.partition,
        "qos": weights.qos,
        **weights.tres,
    }
    return {name: float(weight) for name, weight in named.items() if weight}


def share_rows(site: Site, coordinators: Mapping[str, list[str]] = {}) -> list[ShareRow]:
    """Return the account tree. `coordinators` are the coordinators of each account.

    Parents come before their children, and siblings are ordered by their level fairshare.
    """
    quotas = {account.name: account.quota for account in site.accounts}
    limits = {(account.name, ""): account.limits for account in site.accounts}
    limits |= {(user.account, user.user): user.limits for user in site.users}
    parents = {account.name: account.parent for account in site.accounts}
    allowed = {(account.name, ""): account.qos for account in site.accounts}
    allowed |= {(user.account, user.user): user.qos for user in site.users}
    children: dict[str, list[FairshareRow]] = {}
    for line in fair_tree(site.accounts, site.users):
        children.setdefault(line.parent, []).append(line)
    rows = [_share_row(line, quotas) for line in _down(children, "")]
    return [
        msgspec.structs.replace(
            row,
            limits=_set_limits(limits.get((row.account, row.user), Limits())),
            holds=_set_limits(inherited(_levels(row, limits, parents))),
            default=bool(row.user) and site.default_accounts.get(row.user) == row.account,
            default_qos=site.default_qos.get((row.account, row.user), ""),
            description=site.account_descriptions.get(row.account, ("", ""))[0],
            organization=site.account_descriptions.get(row.account, ("", ""))[1],
            qos=_names(allowed.get((row.account, row.user))),
            coordinators=[] if row.user else coordinators.get(row.account, []),
        )
        for row in rows
    ]


def _levels(
    row: ShareRow, limits: Mapping[tuple[str, str], Limits], parents: Mapping[str, str]
) -> Iterator[Limits]:
    """Yield the limits of a row of the tree and of the accounts above it."""
    if row.user:
        yield limits.get((row.account, row.user), Limits())
    account = row.account
    while account:
        yield limits[account, ""]
        account = parents[account]


def _names(listed: frozenset[str] | None) -> list[str] | None:
    return None if listed is None else sorted(listed)


def _set_limits(limits: Limits) -> dict[str, dict[str, int] | int]:
    """Return the limits that are set, by name. Times are in seconds."""
    found = {name: getattr(limits, name) for name in limits.__struct_fields__}
    return {name: value for name, value in found.items() if value is not None and value != {}}


def _down(children: dict[str, list[FairshareRow]], parent: str) -> Iterator[FairshareRow]:
    for line in children.get(parent, ()):
        yield line
        if not line.user:
            yield from _down(children, line.account)


def _share_row(line: FairshareRow, quotas: dict[str, dict[str, int]]) -> ShareRow:
    return ShareRow(
        account=line.account,
        user=line.user,
        parent=line.parent,
        depth=line.depth,
        shares=line.shares,
        norm_shares=line.norm_shares,
        usage=line.usage,
        norm_usage=line.norm_usage,
        level_fs=None if math.isinf(line.level_fs) else line.level_fs,
        fairshare=line.fairshare if line.user else None,
        quota={} if line.user else quotas.get(line.account, {}),
    )
