"""Invariants of a plan, computed independently of the planner's modules. Violations raise AssertionError."""

from __future__ import annotations

import math
import re

import msgspec

from warpdeck.model import Allocation, GpuUuid, JobId, NodeName, Resources, Share
from warpdeck.policy import PartitionView, PendingJob, Plan, PlannerView, QosView, RunningJob, Start


def holdings(view: PlannerView, plan: Plan) -> list[tuple[str, Allocation]]:
    """Return (job, allocation) after the plan. Resumed jobs hold their whole allocation."""
    resumed = {each.job_id for each in plan.resumes}
    found = []
    for job in view.running:
        held = job.resumes_to if job.id in resumed and job.resumes_to is not None else job.allocation
        found.append((f"job {job.id}", held))
    return found + [(f"start of {start.job_id}", start.allocation) for start in plan.starts]


def nothing_is_held_twice(view: PlannerView, plan: Plan) -> None:
    """Check CPUs, memory, and the percentage of every GPU."""
    nodes = {node.name: node for node in view.nodes}
    cpus: dict[NodeName, int] = {}
    mem: dict[NodeName, int] = {}
    parts: dict[tuple[NodeName, int], int] = {}
    for holder, allocation in holdings(view, plan):
        for share in allocation.shares:
            cpus[share.node] = cpus.get(share.node, 0) + share.cpus
            mem[share.node] = mem.get(share.node, 0) + share.mem_bytes
            for index in share.gpus:
                key = (share.node, index)
                parts[key] = parts.get(key, 0) + share.gpu_share_pct
                assert parts[key] <= 100, f"GPU {key} is given to {parts[key]} % with {holder}"
    for name, count in cpus.items():
        assert count <= nodes[name].cpus, f"{name} gives {count} CPUs"
        assert mem[name] <= nodes[name].mem_bytes, f"{name} gives too much memory"


def _resources_equal_the_request(view: PlannerView, job: PendingJob, start: Start) -> None:
    requested, shares = job.resources, start.allocation.shares
    count = len(shares)
    nodes = {node.name: node for node in view.nodes}
    assert len({share.node for share in shares}) == count
    assert requested.nodes_min <= count <= max(requested.nodes_min, requested.nodes_max)
    tasks = max(
        count, requested.tasks if requested.tasks is not None else count * (requested.tasks_per_node or 1)
    )
    assert sum(share.tasks for share in shares) == tasks
    gpus = requested.gpus
    given = sum(len(share.gpus) for share in shares)
    parts = {part.name: part for part in view.partitions}
    exclusive = requested.exclusive or (start.partition in parts and parts[start.partition].exclusive)
    if exclusive:
        _whole_nodes_are_allocated(view, requested, shares)
    elif gpus.share_pct is not None:
        assert all(len(share.gpus) == 1 and share.gpu_share_pct == gpus.share_pct for share in shares)
    elif gpus.per_node is not None:
        assert all(len(share.gpus) == gpus.per_node for share in shares)
    elif gpus.per_task is not None:
        assert all(len(share.gpus) == share.tasks * gpus.per_task for share in shares)
    else:
        assert given == (gpus.total or 0)
    least = requested.node_minimum
    for share in shares:
        node = nodes[share.node]
        assert share.tasks >= 1
        assert share.cpus >= (requested.cpus_per_node_min or 0)
        assert node.tmp_disk_bytes >= (least.tmp_disk_bytes or 0)
        lies = node.topology.sockets, node.topology.cores, node.topology.threads
        minimum = least.sockets or 0, least.cores or 0, least.threads or 0
        assert all(map(int.__ge__, lies if lies[0] else (node.cpus, 1, 1), minimum))
        assert share.cpus >= share.tasks * requested.cpus_per_task
        assert exclusive or share.cpus >= len(share.gpus) * (requested.cpus_per_gpu or 0)
        if requested.mem_per_node_bytes is not None:
            assert share.mem_bytes == (requested.mem_per_node_bytes or node.mem_bytes)
        held = [gpu for gpu in node.gpus if gpu.index in share.gpus]
        assert tuple(gpu.uuid for gpu in held) == share.gpu_uuids
        assert all(not gpu.blocked for gpu in held)
        assert exclusive or all(gpus.type.lower() in ("", gpu.type.lower()) for gpu in held)


def _whole_nodes_are_allocated(view: PlannerView, requested: Resources, shares: tuple[Share, ...]) -> None:
    """Check that the job gets all CPUs, all free GPUs, and all free memory unless it requested an amount."""
    nodes = {node.name: node for node in view.nodes}
    amounts = (requested.mem_per_node_bytes, requested.mem_per_cpu_bytes, requested.mem_per_gpu_bytes)
    for share in shares:
        node = nodes[share.node]
        kept = [each for job in view.running for each in job.allocation.shares if each.node == share.node]
        taken = {index for each in kept for index in each.gpus}
        free = tuple(gpu.index for gpu in node.gpus if not gpu.blocked and gpu.index not in taken)
        assert share.cpus == node.cpus and share.gpus == free and share.gpu_share_pct == 100
        if amounts == (None, None, None):
            assert share.mem_bytes == node.mem_bytes - sum(each.mem_bytes for each in kept)


def gangs_are_whole(view: PlannerView, plan: Plan) -> None:
    """Check that each job gets the requested nodes, tasks, CPUs, memory and GPUs, of the requested type."""
    jobs = {job.id: job for job in view.pending}
    for start in plan.starts:
        _resources_equal_the_request(view, jobs[start.job_id], start)


def meets(constraint: str, features: list[frozenset[str]]) -> bool:
    """Return whether nodes with these features satisfy a constraint together."""
    if not constraint:
        return True
    bracket = re.search(r"\[([^]]*)]", constraint)
    if bracket is not None:
        choices = bracket[1].split("|")
        return any(meets(constraint.replace(bracket[0], choice), features) for choice in choices)
    code = re.sub(r"\w+", lambda word: f"('{word[0]}' in have)", constraint)
    code = code.replace("&", " and ").replace(",", " and ").replace("|", " or ")
    return all(eval(code, {"have": have}) for have in features)


def _end(job: PendingJob, start: Start, now: float) -> float:
    return float("inf") if start.time_limit_s is None else now + start.time_limit_s


def placements_are_allowed(view: PlannerView, plan: Plan, now: float) -> None:
    """Check nodes, node lists, constraints, partitions, switches and reservations."""
    jobs = {job.id: job for job in view.pending}
    nodes = {node.name: node for node in view.nodes}
    parts = {part.name: part for part in view.partitions}
    qos = {each.name: each for each in view.qos}
    for start in plan.starts:
        job = jobs[start.job_id]
        requested, names = job.resources, start.allocation.node_names()
        assert not (job.held or job.waits_for or job.never)
        assert not any(nodes[name].unavailable for name in names)
        assert not set(names) & set(requested.exclude)
        listed = set(requested.nodelist)
        assert not listed or set(names) <= listed or listed < set(names)
        if requested.contiguous:
            # Within a reservation, its nodes must be adjacent.
            own = next((each for each in view.reservations if each.name == start.reservation), None)
            among = nodes if own is None or own.is_everywhere else own.nodes
            ordered = sorted(among, key=lambda name: int(name[1:]))
            places = sorted(ordered.index(name) for name in names)
            assert places == list(range(places[0], places[0] + len(places)))
        assert meets(requested.constraint, [nodes[name].features for name in names])
        if requested.max_switches is not None:
            assert len({nodes[name].switch for name in names}) <= requested.max_switches
        if parts:
            assert start.partition in job.partition.split(",")
            _partition_allows(parts[start.partition], job, start, qos.get(job.qos))
        if job.time_min_s is not None and start.time_limit_s is not None:
            assert start.time_limit_s >= job.time_min_s
        elif job.time_limit_s is not None and job.deadline_unix is None:
            assert start.time_limit_s == job.time_limit_s
        if job.deadline_unix is not None:
            assert _end(job, start, now) <= job.deadline_unix
        _reservations_allow(view, job, start, now)
    _exclusive_jobs_are_alone(view, plan)
    _users_are_apart(view, plan)


def _partition_allows(part: PartitionView, job: PendingJob, start: Start, qos: QosView | None) -> None:
    names = start.allocation.node_names()
    assert part.state in ("UP", "DRAIN")
    assert part.nodes is None or set(names) <= part.nodes
    assert part.allow_users is None or job.user in part.allow_users
    assert part.allow_accounts is None or job.account in part.allow_accounts
    assert part.allow_qos is None or job.qos in part.allow_qos
    assert job.account not in part.deny_accounts and job.qos not in part.deny_qos
    assert part.min_nodes <= len(names)
    assert part.max_nodes is None or len(names) <= part.max_nodes
    if part.max_time_s is not None and not (qos is not None and qos.overrides_partition):
        assert start.time_limit_s is not None and start.time_limit_s <= part.max_time_s


def _reservations_allow(view: PlannerView, job: PendingJob, start: Start, now: float) -> None:
    names = set(start.allocation.node_names())
    own = next((each for each in view.reservations if each.name == start.reservation), None)
    end = min(_end(job, start, now), math.inf if own is None else own.closes_unix())
    if job.reservation:
        assert start.reservation == job.reservation
    if start.reservation:
        assert own is not None and own.admits(job.user, job.account) and (job.reservation or own.magnetic)
        assert own.is_everywhere or names <= own.nodes
        assert own.flex or own.start_unix <= now < own.end_unix
    for each in view.reservations:
        ours = names & own.nodes if own is not None else set()
        overlaps = each.start_unix < end and each.end_unix > now and names & each.nodes
        # Reservations of parts are checked in partial_reservation_checks.
        if overlaps and each is not own and not each.parts:
            assert (
                own is not None and names & each.nodes <= ours and (own.maintenance or not each.maintenance)
            ), f"{job.id} runs into {each.name}"


def _exclusive_jobs_are_alone(view: PlannerView, plan: Plan) -> None:
    jobs = {job.id: job for job in view.pending}
    parts = {part.name: part for part in view.partitions}
    held = holdings(view, plan)
    for start in plan.starts:
        part = parts.get(start.partition)
        if jobs[start.job_id].resources.exclusive or (part is not None and part.exclusive):
            for name in start.allocation.node_names():
                users = [
                    holder
                    for holder, each in held
                    for share in each.shares
                    if share.node == name and share.cpus
                ]
                assert len(users) == 1, f"{users} share {name} with an exclusive job"


def _users_are_apart(view: PlannerView, plan: Plan) -> None:
    """Check that --exclusive=user is respected for started jobs. Suspended jobs still count."""
    jobs = {job.id: job for job in view.pending}
    parted = {part.name for part in view.partitions if part.exclusive_user}
    present = [
        (job.user, job.excludes_users or job.partition in parted, job.allocation.node_names())
        for job in view.running
    ]
    for start in plan.starts:
        job = jobs[start.job_id]
        exclusive_user = job.resources.share_with == "user" or start.partition in parted
        names = start.allocation.node_names()
        for user, excludes, where in present:
            both = set(where) & set(names)
            assert not both or user == job.user or not (excludes or exclusive_user), (
                f"{job.id} of {job.user} joins {user} on {both}"
            )
        present.append((job.user, exclusive_user, names))


def every_job_has_an_answer(view: PlannerView, plan: Plan) -> None:
    """Check that every waiting job starts, ends, or has a pending reason, and that no task starts twice."""
    answered = {start.job_id for start in plan.starts} | {end.job_id for end in plan.ends}
    assert len({(start.job_id, start.task) for start in plan.starts}) == len(plan.starts)
    for job in view.pending:
        assert job.id in answered or plan.pending_reasons[job.id].sentence, f"job {job.id} has no answer"
        if job.tasks:
            tasks = sum(start.job_id == job.id for start in plan.starts)
            running = sum(each.array_job_id == job.array_job_id for each in view.running)
            assert not job.throttle or tasks == 0 or tasks + running <= job.throttle


def the_future_fits(view: PlannerView, plan: Plan, now: float, limits_s: dict[JobId, float]) -> None:
    """Check that running and reserved jobs never exceed a node's capacity until their time limits.

    `limits_s` is the run time of each reserved job. Preempted jobs end before the reserved start of their preemptor.
    """
    leaves = {}
    promised = {each.job_id: each.at_unix for each in plan.reserves}
    for order in plan.preempts:
        leaves[order.job_id] = promised.get(order.for_job_id, now)
    spans: list[tuple[NodeName, float, float, Share]] = []
    resumed = {each.job_id for each in plan.resumes}
    for job in view.running:
        held = job.resumes_to if job.id in resumed and job.resumes_to is not None else job.allocation
        ends = float("inf") if job.ends_by_unix is None else max(job.ends_by_unix, now)
        ends = min(ends, leaves.get(job.id, float("inf")))
        spans += [(share.node, now, ends, share) for share in held.shares]
    for start in plan.starts:
        ends = float("inf") if start.time_limit_s is None else now + start.time_limit_s
        ends = min(
            [ends, *(each.closes_unix() for each in view.reservations if each.name == start.reservation)]
        )
        spans += [(share.node, now, ends, share) for share in start.allocation.shares]
    jobs = {job.id: job for job in view.pending}
    types = {gpu.uuid: gpu.type.lower() for node in view.nodes for gpu in node.gpus}
    stays = _stays(view, plan, now, leaves)
    for each in plan.reserves:
        waiting = jobs[each.job_id]
        end = each.at_unix + limits_s[each.job_id]
        own = (waiting.user, waiting.resources.share_with == "user", each.nodes, each.at_unix, end)
        _no_other_user_overlaps(own, stays)
        stays.append(own)
        for name in each.nodes:
            _node_has_capacity(view, name, waiting, (each.at_unix, end), spans, types)
        requested = waiting.resources
        count = requested.gpus.per_node or 0
        spans += [
            (
                name,
                each.at_unix,
                end,
                Share(
                    node=name,
                    cpus=max(requested.cpus_per_task, count * (requested.cpus_per_gpu or 0)),
                    mem_bytes=requested.mem_per_node_bytes or 0,
                    gpus=tuple(range(-count, 0)),
                    gpu_uuids=(),
                ),
            )
            for name in each.nodes
        ]


Stay = tuple[str, bool, tuple[NodeName, ...], float, float]
"""(user, whether other users' jobs are excluded, nodes, from, until)."""


def _stays(view: PlannerView, plan: Plan, now: float, leaves: dict[JobId, float]) -> list[Stay]:
    """Return the stays of running and started jobs. Partitions are ignored."""
    found: list[Stay] = []
    for job in view.running:
        ends = float("inf") if job.ends_by_unix is None else max(job.ends_by_unix, now)
        ends = min(ends, leaves.get(job.id, float("inf")))
        found.append((job.user, job.excludes_users, job.allocation.node_names(), now, ends))
    jobs = {job.id: job for job in view.pending}
    for start in plan.starts:
        one = jobs[start.job_id]
        ends = float("inf") if start.time_limit_s is None else now + start.time_limit_s
        found.append((one.user, one.resources.share_with == "user", start.allocation.node_names(), now, ends))
    return found


def _no_other_user_overlaps(own: Stay, stays: list[Stay]) -> None:
    user, exclusive_user, names, begins, ends = own
    for other, excludes, where, start, end in stays:
        meets = set(names) & set(where) and start < ends and begins < end
        assert not meets or other == user or not (exclusive_user or excludes), (
            f"{own} meets {other} on {where}"
        )


def _node_has_capacity(
    view: PlannerView,
    name: NodeName,
    job: PendingJob,
    window: tuple[float, float],
    spans: list[tuple[NodeName, float, float, Share]],
    types: dict[GpuUuid, str],
) -> None:
    node = next(node for node in view.nodes if node.name == name)
    assert not node.unavailable
    mine = [(begin, end, share) for where, begin, end, share in spans if where == name]
    moments = {window[0]} | {begin for begin, _, _ in mine if window[0] < begin < window[1]}
    requested = job.resources
    for moment in moments:
        overlapping = [share for begin, end, share in mine if begin <= moment < end]
        assert sum(share.cpus for share in overlapping) + requested.cpus_per_task <= node.cpus, (
            f"CPUs of {name}"
        )
        assert (
            sum(share.mem_bytes for share in overlapping) + (requested.mem_per_node_bytes or 0)
            <= node.mem_bytes
        )
        usable = {gpu.index for gpu in node.gpus if not gpu.blocked}
        taken = {index for share in overlapping for index in share.gpus if index >= 0} & usable
        unnamed = sum(1 for share in overlapping for index in share.gpus if index < 0)
        if requested.gpus.per_node:
            assert len(taken) + unnamed + requested.gpus.per_node <= len(usable), (
                f"GPUs of {name} at {moment}"
            )
            if requested.gpus.type:
                kind = requested.gpus.type.lower()
                free = [gpu for gpu in node.gpus if gpu.index in usable - taken and gpu.type.lower() == kind]
                assert requested.gpus.per_node <= len(free), f"{kind} of {name} at {moment}"


def flushed(view: PlannerView, plan: Plan, now: float, *, only: JobId) -> PlannerView:
    """Return the view after the plan, with only one job left waiting."""
    jobs = {job.id: job for job in view.pending}
    begun = [
        RunningJob(
            id=start.job_id,
            array_job_id=start.job_id,
            allocation=start.allocation,
            ends_by_unix=None if start.time_limit_s is None else now + start.time_limit_s,
            user=jobs[start.job_id].user,
            excludes_users=jobs[start.job_id].resources.share_with == "user",
            start_at_unix=now,
        )
        for start in plan.starts
    ]
    left = tuple(job for job in view.pending if job.id == only)
    return msgspec.structs.replace(view, running=(*view.running, *begun), pending=left)


def as_new(view: PlannerView) -> PlannerView:
    """Return the site without running jobs, faults and past usage, with jobs that could start."""
    nodes = tuple(
        msgspec.structs.replace(
            node,
            unavailable="",
            gpus=tuple(msgspec.structs.replace(gpu, blocked="") for gpu in node.gpus),
        )
        for node in view.nodes
    )
    jobs = tuple(msgspec.structs.replace(job, held=False, waits_for="", never="") for job in view.pending)
    parts = tuple(msgspec.structs.replace(part, state="UP") for part in view.partitions)
    return msgspec.structs.replace(
        view, nodes=nodes, running=(), pending=jobs, partitions=parts, reservations=()
    )


def changed_as_advised(job: PendingJob, advice: str) -> PendingJob:
    """Return the job after a change such as "starts now with --time=00:10:00"."""
    requested, gpus = job.resources, job.resources.gpus
    if "--exclusive=user" in advice:
        return msgspec.structs.replace(job, resources=msgspec.structs.replace(requested, share_with=""))
    if "--exclusive" in advice:
        return msgspec.structs.replace(job, resources=msgspec.structs.replace(requested, exclusive=False))
    if "any type" in advice:
        any_type = msgspec.structs.replace(requested, gpus=msgspec.structs.replace(gpus, type=""))
        return msgspec.structs.replace(job, resources=any_type)
    found = re.fullmatch(r".*--([a-z-]+)=(\S+)", advice)
    assert found is not None, advice
    option, value = found.groups()
    if option == "time":
        days, _, rest = value.rpartition("-")
        hours, minutes, seconds = (int(part) for part in rest.split(":"))
        total = int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
        return msgspec.structs.replace(job, time_limit_s=total)
    if option == "partition":
        return msgspec.structs.replace(job, partition=value)
    count = int(value.rstrip("G").split(":")[-1])
    if option == "nodes":
        requested = msgspec.structs.replace(requested, nodes_min=count, nodes_max=count)
    elif option == "cpus-per-task":
        requested = msgspec.structs.replace(requested, cpus_per_task=count)
    elif option == "mem":
        requested = msgspec.structs.replace(requested, mem_per_node_bytes=count << 30)
    else:
        field = {"gpus-per-node": "per_node", "gpus": "total", "gpus-per-task": "per_task"}[option]
        requested = msgspec.structs.replace(requested, gpus=msgspec.structs.replace(gpus, **{field: count}))
    return msgspec.structs.replace(job, resources=requested)
