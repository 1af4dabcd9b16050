"""Replay the site's past under another configuration, and compare the waits of users and accounts. Pure
functions.

Every job that ran and ended is submitted again at its time, to the present nodes, and runs as long as it did.
A job with dependencies becomes eligible at the real end of the last known job on which it depended. Not
replayed: jobs that were canceled before they started, requeues, and reactions of users to shorter waits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from warpdeck.base.errors import UserError
from warpdeck.config import Config, NodeSettings, build_site
from warpdeck.model import GpuUuid, Job, JobId, Node, NodeName
from warpdeck.policy import GpuView, NodeView, PendingJob, PlannerSettings, PlannerView

from .replay import JobRun, ReplayResult
from .simjobs import SimJob


class WaitChange(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a change on one user or account. Waits are means in seconds; `difference_s` > 0 is a
    longer wait.
    """

    name: str
    jobs: int
    really_waited_s: float
    now_waits_s: float
    then_waits_s: float
    difference_s: float
    shorter: int
    longer: int


def past_jobs(jobs: Sequence[Job], *, since_unix: float, until_unix: float) -> tuple[SimJob, ...]:
    """Return the ended jobs that were submitted in that time and ran, by id."""
    ends: dict[JobId, float] = {}
    for job in jobs:
        ends[job.array_job_id] = max(ends.get(job.array_job_id, 0.0), job.end_at_unix or 0.0)
    found = [
        _past_job(job, ends)
        for job in sorted(jobs, key=lambda each: each.id)
        if job.start_at_unix is not None
        and job.end_at_unix is not None
        and since_unix <= job.submit_at_unix < until_unix
    ]
    return tuple(found)


def _past_job(job: Job, ends: Mapping[JobId, float]) -> SimJob:
    assert job.start_at_unix is not None and job.end_at_unix is not None
    request = job.request
    clauses = request.dependencies.clauses if request.dependencies else ()
    waited_for = max((ends.get(clause.job_id, 0.0) for clause in clauses), default=0.0)
    eligible = max(job.submit_at_unix, min(max(request.begin_at_unix or 0.0, waited_for), job.start_at_unix))
    pending = PendingJob(
        id=job.id,
        array_job_id=job.array_job_id,
        label=job.label(),
        user=job.user,
        resources=request.resources,
        submit_at_unix=job.submit_at_unix,
        eligible_at_unix=eligible,
        time_limit_s=request.time_limit_s,
        unlimited=request.unlimited,
        time_min_s=request.time_min_s,
        partition=request.partition or job.partition,
        account=request.account,
        qos=request.qos,
        licenses=request.licenses,
        priority=request.priority,
        nice=request.nice,
    )
    return SimJob(
        pending=pending,
        run_s=max(0.0, job.end_at_unix - job.start_at_unix - job.suspended_s),
        real_wait_s=max(0.0, job.start_at_unix - eligible),
    )


def site_of(config: Config, nodes: Sequence[Node]) -> tuple[PlannerView, PlannerSettings]:
    """Return the empty site under a configuration, with all nodes available, and the settings of its passes.

    The users that a partition admits are ignored. Groups may have changed since then, and every job here was
    admitted once.
    """
    site = build_site(config)
    view = PlannerView(
        nodes=tuple(_node_view(node, site.nodes.get(node.name, NodeSettings())) for node in nodes),
        running=(),
        pending=(),
        partitions=tuple(msgspec.structs.replace(part, allow_users=None) for part in site.partitions),
        qos=site.qos,
        accounts=site.accounts,
        users=site.users,
        licenses=site.licenses,
    )
    return view, msgspec.structs.replace(site.settings, max_forecasts=0)


def with_more_gpus(view: PlannerView, gpus: int) -> PlannerView:
    """Return the view with more GPUs, on copies of the node with the most GPUs. The last copy gets the
    remainder.

    Raises UserError if no node has GPUs.
    """
    model = max(view.nodes, key=lambda node: len(node.gpus), default=None)
    if model is None or not model.gpus:
        raise UserError("no node has GPUs, so none can be copied", "remove --add-gpus")
    added: list[NodeView] = []
    while gpus:
        count = min(gpus, len(model.gpus))
        name = NodeName(f"more{len(added) + 1}")
        own = tuple(
            msgspec.structs.replace(gpu, uuid=GpuUuid(f"{name}-{gpu.index}")) for gpu in model.gpus[:count]
        )
        added.append(msgspec.structs.replace(model, name=name, gpus=own))
        gpus -= count
    parts = tuple(
        part
        if part.nodes is None or model.name not in part.nodes
        else msgspec.structs.replace(part, nodes=frozenset(part.nodes) | {node.name for node in added})
        for part in view.partitions
    )
    return msgspec.structs.replace(view, nodes=(*view.nodes, *added), partitions=parts)


def _node_view(node: Node, facts: NodeSettings) -> NodeView:
    return NodeView(
        name=node.name,
        cpus=node.cpus,
        mem_bytes=node.mem_bytes,
        gpus=tuple(
            GpuView(
                index=gpu.index,
                uuid=gpu.uuid,
                type=gpu.type,
                mem_bytes=gpu.mem_bytes,
                numa_node=gpu.numa_node,
                island=gpu.island,
            )
            for gpu in node.gpus
        ),
        features=facts.features,
        switch=facts.switch,
        weight=facts.weight,
    )


def compare(now: ReplayResult, then: ReplayResult, *, by: Callable[[PendingJob], str]) -> list[WaitChange]:
    """Return a row for each user or account, with the largest loss first. Only jobs that ran in both replays
    count.
    """
    after = {run.job.pending.id: run for run in then.runs}
    groups: dict[str, list[tuple[JobRun, JobRun]]] = {}
    for run in now.runs:
        other = after.get(run.job.pending.id)
        if other is not None:
            groups.setdefault(by(run.job.pending), []).append((run, other))
    return sorted(
        (_change(name, pairs) for name, pairs in groups.items()),
        key=lambda change: (-change.difference_s, change.name),
    )


def _change(name: str, pairs: list[tuple[JobRun, JobRun]]) -> WaitChange:
    count = len(pairs)
    now_s = sum(now.wait_s for now, _ in pairs) / count
    then_s = sum(then.wait_s for _, then in pairs) / count
    return WaitChange(
        name=name,
        jobs=count,
        really_waited_s=sum(now.job.real_wait_s or 0.0 for now, _ in pairs) / count,
        now_waits_s=now_s,
        then_waits_s=then_s,
        difference_s=then_s - now_s,
        shorter=sum(then.wait_s < now.wait_s for now, then in pairs),
        longer=sum(then.wait_s > now.wait_s for now, then in pairs),
    )
