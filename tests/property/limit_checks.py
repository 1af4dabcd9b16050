"""Limits of QoS, accounts and users, recomputed from a view and a plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from warpdeck.model import Allocation, GpuUuid
from warpdeck.policy import AccountView, Limits, PendingJob, Plan, PlannerView, QosView, RunningJob

Tres = dict[str, int]


def _held(allocation: Allocation, types: dict[GpuUuid, str], licenses: tuple[tuple[str, int], ...]) -> Tres:
    found: Tres = {"cpu": 0, "mem": 0, "node": len(allocation.shares), "gres/gpu": 0}
    for share in allocation.shares:
        found["cpu"] += share.cpus
        found["mem"] += share.mem_bytes >> 20
        found["gres/gpu"] += len(share.gpus)
        for uuid in share.gpu_uuids:
            found[f"gres/gpu:{types[uuid]}"] = found.get(f"gres/gpu:{types[uuid]}", 0) + 1
    found["billing"] = found["cpu"]
    for name, count in licenses:
        found[f"license/{name}"] = count
    return found


class Use:
    """A job that holds resources, as limits count it."""

    def __init__(
        self,
        job: RunningJob | PendingJob,
        partition: str,
        allocation: Allocation,
        types: dict[GpuUuid, str],
        limit_s: float | None,
    ) -> None:
        self.user, self.account, self.qos = job.user, job.account, job.qos
        self.partition, self.limit_s = partition, limit_s
        self.tres = _held(allocation, types, job.licenses)
        parts = [_held(Allocation(shares=(share,)), types, ()) for share in allocation.shares]
        self.per_node = {name: max(part.get(name, 0) for part in parts) for name in parts[0]}


def no_limit_is_broken(view: PlannerView, plan: Plan, now: float) -> None:
    """Check the limits after each start in the order of the plan.

    Running jobs alone may already exceed them.
    """
    types = {gpu.uuid: gpu.type.lower() for node in view.nodes for gpu in node.gpus}
    uses = [
        Use(
            job,
            job.partition,
            job.allocation,
            types,
            None if job.ends_by_unix is None else max(0.0, job.ends_by_unix - now),
        )
        for job in view.running
    ]
    jobs = {job.id: job for job in view.pending}
    owned = dict(view.licenses)
    for job in view.running:
        for name, count in job.licenses:
            owned[name] = owned.get(name, 0) - count
    for start in plan.starts:
        job_now = jobs[start.job_id]
        one = Use(job_now, start.partition, start.allocation, types, start.time_limit_s)
        uses.append(one)
        for name, count in job_now.licenses:
            owned[name] = owned.get(name, 0) - count
            assert owned[name] >= 0, f"license {name} is given too often"
        for table_name, limits, group in _scopes(view, one, uses):
            _check(table_name, limits, one, group)


def _scopes(view: PlannerView, one: Use, uses: list[Use]) -> Iterator[tuple[str, Limits, list[Use]]]:
    qos = {each.name: each for each in view.qos}
    for name in _qos_of(view, one, qos):
        yield f"QoS {name}", qos[name].limits, [each for each in uses if name in _qos_of(view, each, qos)]
    accounts = {each.name: each for each in view.accounts}
    own = [user for user in view.users if (user.account, user.user) == (one.account, one.user)]
    chain = ancestors(accounts, one.account)
    tables = [user.limits for user in own] + [accounts[name].limits for name in chain]
    for user in own:
        group = [each for each in uses if (each.account, each.user) == (one.account, one.user)]
        yield f"user {user.user}", nearest(tables, 0), group
    for at, name in enumerate(chain, start=len(own)):
        group = [each for each in uses if name in ancestors(accounts, each.account)]
        yield f"account {name}", nearest(tables, at), group


def nearest(tables: list[Limits], at: int) -> Limits:
    """Return the limits in force at one table, nearest first.

    Limits per job, user and account apply only if no nearer table sets them.
    """
    changed: dict[str, Any] = {}
    for field in Limits.__struct_fields__:
        if field.startswith("grp_"):
            continue
        before = [getattr(table, field) for table in tables[:at]]
        mine = getattr(tables[at], field)
        if isinstance(mine, dict):
            changed[field] = {tres: mine[tres] for tres in mine if not any(tres in each for each in before)}
        elif any(each is not None for each in before):
            changed[field] = None
    return msgspec.structs.replace(tables[at], **changed)


def ancestors(accounts: dict[str, AccountView], name: str) -> list[str]:
    """Return the account and its ancestors."""
    found = []
    while name in accounts:
        found.append(name)
        name = accounts[name].parent
    return found


def _qos_of(view: PlannerView, one: Use, qos: dict[str, QosView]) -> list[str]:
    if one.qos in qos and qos[one.qos].overrides_partition:
        return [one.qos]
    found = [part.qos for part in view.partitions if part.name == one.partition]
    return sorted({name for name in (*found, one.qos) if name in qos})


def _check(table_name: str, limits: Limits, one: Use, group: list[Use]) -> None:
    of_account = [each for each in group if each.account == one.account]
    is_qos = table_name.startswith("QoS")
    of_user = [each for each in (group if is_qos else of_account) if each.user == one.user]
    for table, members in (
        (limits.grp_tres, group),
        (limits.max_tres_per_job, [one]),
        (limits.max_tres_per_user, of_user),
        (limits.max_tres_per_account, of_account if is_qos else []),
    ):
        for name, most in table.items():
            used = sum(each.tres.get(name, 0) for each in members)
            assert not one.tres.get(name, 0) or used <= most, f"{table_name}: {used} {name} of {most}"
    assert limits.grp_jobs is None or len(group) <= limits.grp_jobs, f"{table_name}: GrpJobs"
    assert limits.max_jobs_per_user is None or len(of_user) <= limits.max_jobs_per_user
    assert not is_qos or limits.max_jobs_per_account is None or len(of_account) <= limits.max_jobs_per_account
    if limits.max_wall_s is not None:
        assert one.limit_s is not None and one.limit_s <= limits.max_wall_s, f"{table_name}: MaxWall"
    for name, most in limits.max_tres_mins_per_job.items():
        minutes = one.tres.get(name, 0) * (float("inf") if one.limit_s is None else one.limit_s) / 60
        assert not one.tres.get(name, 0) or minutes <= most, f"{table_name}: {minutes} minutes of {name}"
    for name, most in limits.max_tres_per_node.items():
        assert one.per_node.get(name, 0) <= most, f"{table_name}: {one.per_node} a node"
    if limits.grp_wall_s is not None:
        total = sum(float("inf") if each.limit_s is None else each.limit_s for each in group)
        assert total <= limits.grp_wall_s + 1e-6, f"{table_name}: {total} s of running jobs"
    for name, most in (*limits.grp_tres_mins.items(), *limits.grp_tres_run_mins.items()):
        if one.tres.get(name, 0):
            total = sum(
                each.tres.get(name, 0) * (float("inf") if each.limit_s is None else each.limit_s) / 60
                for each in group
                if each.tres.get(name, 0)
            )
            assert total <= most + 1e-6, f"{table_name}: {total} minutes of {name}"
