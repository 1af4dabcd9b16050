"""Invariants of a plan, computed independently of the planner's modules. Violations raise AssertionError."""

from __future__ import annotations

import math
import re

import msgspec

from warpdeck.model import Allocation, JobId, NodeName, Resources, Share
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
    for who, allocation in holdings(view, plan):
        for share in allocation.shares:
            cpus[share.node] = cpus.get(share.node, 0) + share.cpus
            mem[share.node] = mem.get(share.node, 0) + share.mem_bytes
            for index in share.gpus:
                key = (share.node, index)
                parts[key] = parts.get(key, 0) + share.gpu_share_pct
                assert parts[key] <= 100, f"GPU {key} is given to {parts[key]} % with {who}"
    for name, count in cpus.items():
        assert count <= nodes[name].cpus, f"{name} gives {count} CPUs"
        assert mem[name] <= nodes[name].mem_bytes, f"{name} gives too much memory"


def _resources_are_as_asked(view: PlannerView, job: PendingJob, start: Start) -> None:
    asked, shares = job.resources, start.allocation.shares
    count = len(shares)
    nodes = {node.name: node for node in view.nodes}
    assert len({share.node for share in shares}) == count
    assert asked.nodes_min <= count <= max(asked.nodes_min, asked.nodes_max)
    tasks = max(count, asked.tasks if asked.tasks is not None else count * (asked.tasks_per_node or 1))
    assert sum(share.tasks for share in shares) == tasks
    gpus = asked.gpus
    given = sum(len(share.gpus) for share in shares)
    parts = {part.name: part for part in view.partitions}
    alone = asked.exclusive or (start.partition in parts and parts[start.partition].exclusive)
    if alone:
        _whole_nodes_are_given(view, asked, shares)
    elif gpus.share_pct is not None:
        assert all(len(share.gpus) == 1 and share.gpu_share_pct == gpus.share_pct for share in shares)
    elif gpus.per_node is not None:
        assert all(len(share.gpus) == gpus.per_node for share in shares)
    elif gpus.per_task is not None:
        assert all(len(share.gpus) == share.tasks * gpus.per_task for share in shares)
    else:
        assert given == (gpus.total or 0)
    least = asked.node_minimum
    for share in shares:
        node = nodes[share.node]
        assert share.tasks >= 1
        assert share.cpus >= (asked.cpus_per_node_min or 0)
        assert node.tmp_disk_bytes >= (least.tmp_disk_bytes or 0)
        lies = node.topology.sockets, node.topology.cores, node.topology.threads
        asked_for = least.sockets or 0, least.cores or 0, least.threads or 0
        assert all(map(int.__ge__, lies if lies[0] else (node.cpus, 1, 1), asked_for))
        assert share.cpus >= share.tasks * asked.cpus_per_task
        assert alone or share.cpus >= len(share.gpus) * (asked.cpus_per_gpu or 0)
        if asked.mem_per_node_bytes is not None:
            assert share.mem_bytes == (asked.mem_per_node_bytes or node.mem_bytes)
        held = [gpu for gpu in node.gpus if gpu.index in share.gpus]
        assert tuple(gpu.uuid for gpu in held) == share.gpu_uuids
        assert all(not gpu.blocked for gpu in held)
        assert alone or all(gpus.type.lower() in ("", gpu.type.lower()) for gpu in held)


def _whole_nodes_are_given(view: PlannerView, asked: Resources, shares: tuple[Share, ...]) -> None:
    """Check that the job gets all CPUs, all free GPUs, and all free memory unless it requested an amount."""
    nodes = {node.name: node for node in view.nodes}
    amounts = (asked.mem_per_node_bytes, asked.mem_per_cpu_bytes, asked.mem_per_gpu_bytes)
    for share in shares:
        node = nodes[share.node]
        kept = [each for job in view.running for each in job.allocation.shares if each.node == share.node]
        taken = {index for each in kept for index in each.gpus}
        free = tuple(gpu.index for gpu in node.gpus if not gpu.blocked and gpu.index not in taken)
        assert share.cpus == node.cpus and share.gpus == free and share.gpu_share_pct == 100
        if amounts == (None, None, None):
            assert share.mem_bytes == node.mem_bytes - sum(each.mem_bytes for each in kept)


def gangs_are_whole(view: PlannerView, plan: Plan) -> None:
    """Check that the job gets all nodes, tasks, CPUs, memory and GPUs that it requested, of the requested
    type.
    """
    jobs = {job.id: job for job in view.pending}
    for start in plan.starts:
        _resources_are_as_asked(view, jobs[start.job_id], start)


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
        asked, names = job.resources, start.allocation.node_names()
        assert not (job.held or job.waits_for or job.never)
        assert not any(nodes[name].unavailable for name in names)
        assert not set(names) & set(asked.exclude)
        listed = set(asked.nodelist)
        assert not listed or set(names) <= listed or listed < set(names)
        if asked.contiguous:
            # Within a reservation, its nodes must be adjacent.
            own = next((each for each in view.reservations if each.name == start.reservation), None)
            among = nodes if own is None or own.is_everywhere else own.nodes
            ordered = sorted(among, key=lambda name: int(name[1:]))
            places = sorted(ordered.index(name) for name in names)
            assert places == list(range(places[0], places[0] + len(places)))
        assert meets(asked.constraint, [nodes[name].features for name in names])
        if asked.max_switches is not None:
            assert len({nodes[name].switch for name in names}) <= asked.max_switches
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
        if overlaps and each is not own and not each.parts:  # reservations of parts are checked in partcount
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
                    who for who, each in held for share in each.shares if share.node == name and share.cpus
                ]
                assert len(users) == 1, f"{users} share {name} with an exclusive job"


def _users_are_apart(view: PlannerView, plan: Plan) -> None:
    """Check that --exclusive=user is respected for started jobs. Suspended jobs still count."""
    jobs = {job.id: job for job in view.pending}
    parted = {part.name for part in view.partitions if part.exclusive_user}
    there = [
        (job.user, job.excludes_users or job.partition in parted, job.allocation.node_names())
        for job in view.running
    ]
    for start in plan.starts:
        job = jobs[start.job_id]
        apart = job.resources.share_with == "user" or start.partition in parted
        names = start.allocation.node_names()
        for user, wants, where in there:
            both = set(where) & set(names)
            assert not both or user == job.user or not (wants or apart), (
                f"{job.id} of {job.user} joins {user} on {both}"
            )
        there.append((job.user, apart, names))


def everyone_is_accounted_for(view: PlannerView, plan: Plan) -> None:
    """Every waiting job starts, ends, or has a pending reason, and no task starts twice."""
    answered = {start.job_id for start in plan.starts} | {end.job_id for end in plan.ends}
    assert len({(start.job_id, start.task) for start in plan.starts}) == len(plan.starts)
    for job in view.pending:
        assert job.id in answered or plan.pending_reasons[job.id].sentence, f"job {job.id} has no answer"
        if job.tasks:
            tasks = sum(start.job_id == job.id for start in plan.starts)
            there = sum(each.array_job_id == job.array_job_id for each in view.running)
            assert not job.throttle or tasks == 0 or tasks + there <= job.throttle


def the_future_fits(view: PlannerView, plan: Plan, now: float, limits_s: dict[JobId, float]) -> None:
    """Running jobs until their limits and reserved jobs in their time never exceed a node's capacity.

    `limits_s` is the run time of each reserved job. Victims have left when their preemptor's reserved start
    comes.
    """
    leaves = {}
    promised = {each.job_id: each.at_unix for each in plan.reserves}
    for told in plan.preempts:
        leaves[told.job_id] = promised.get(told.for_job_id, now)
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
        job = jobs[each.job_id]
        end = each.at_unix + limits_s[each.job_id]
        own = (job.user, job.resources.share_with == "user", each.nodes, each.at_unix, end)
        _nobody_is_in_the_way(own, stays)
        stays.append(own)
        for name in each.nodes:
            _node_has_room(view, name, job, (each.at_unix, end), spans, types)
        asked = job.resources
        count = asked.gpus.per_node or 0
        spans += [
            (
                name,
                each.at_unix,
                end,
                Share(
                    node=name,
                    cpus=max(asked.cpus_per_task, count * (asked.cpus_per_gpu or 0)),
                    mem_bytes=asked.mem_per_node_bytes or 0,
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


def _nobody_is_in_the_way(own: Stay, stays: list[Stay]) -> None:
    user, apart, names, begins, ends = own
    for other, wants, where, start, end in stays:
        meets = set(names) & set(where) and start < ends and begins < end
        assert not meets or other == user or not (apart or wants), f"{own} meets {other} on {where}"


def _node_has_room(
    view: PlannerView,
    name: NodeName,
    job: PendingJob,
    window: tuple[float, float],
    spans: list[tuple[NodeName, float, float, Share]],
    types: dict[str, str],
) -> None:
    node = next(node for node in view.nodes if node.name == name)
    assert not node.unavailable
    mine = [(begin, end, share) for where, begin, end, share in spans if where == name]
    moments = {window[0]} | {begin for begin, _, _ in mine if window[0] < begin < window[1]}
    asked = job.resources
    for moment in moments:
        there = [share for begin, end, share in mine if begin <= moment < end]
        assert sum(share.cpus for share in there) + asked.cpus_per_task <= node.cpus, f"CPUs of {name}"
        assert sum(share.mem_bytes for share in there) + (asked.mem_per_node_bytes or 0) <= node.mem_bytes
        usable = {gpu.index for gpu in node.gpus if not gpu.blocked}
        taken = {index for share in there for index in share.gpus if index >= 0} & usable
        unnamed = sum(1 for share in there for index in share.gpus if index < 0)
        if asked.gpus.per_node:
            assert len(taken) + unnamed + asked.gpus.per_node <= len(usable), f"GPUs of {name} at {moment}"
            if asked.gpus.type:
                kind = asked.gpus.type.lower()
                free = [gpu for gpu in node.gpus if gpu.index in usable - taken and gpu.type.lower() == kind]
                assert asked.gpus.per_node <= len(free), f"{kind} of {name} at {moment}"


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
    asked, gpus = job.resources, job.resources.gpus
    if "--exclusive=user" in advice:
        return msgspec.structs.replace(job, resources=msgspec.structs.replace(asked, share_with=""))
    if "--exclusive" in advice:
        return msgspec.structs.replace(job, resources=msgspec.structs.replace(asked, exclusive=False))
    if "any type" in advice:
        any_type = msgspec.structs.replace(asked, gpus=msgspec.structs.replace(gpus, type=""))
        return msgspec.structs.replace(job, resources=any_type)
    said = re.fullmatch(r".*--([a-z-]+)=(\S+)", advice)
    assert said is not None, advice
    option, value = said.groups()
    if option == "time":
        days, _, rest = value.rpartition("-")
        hours, minutes, seconds = (int(part) for part in rest.split(":"))
        total = int(days or 0) * 86_400 + hours * 3600 + minutes * 60 + seconds
        return msgspec.structs.replace(job, time_limit_s=total)
    if option == "partition":
        return msgspec.structs.replace(job, partition=value)
    count = int(value.rstrip("G").split(":")[-1])
    if option == "nodes":
        asked = msgspec.structs.replace(asked, nodes_min=count, nodes_max=count)
    elif option == "cpus-per-task":
        asked = msgspec.structs.replace(asked, cpus_per_task=count)
    elif option == "mem":
        asked = msgspec.structs.replace(asked, mem_per_node_bytes=count << 30)
    else:
        field = {"gpus-per-node": "per_node", "gpus": "total", "gpus-per-task": "per_task"}[option]
        asked = msgspec.structs.replace(asked, gpus=msgspec.structs.replace(gpus, **{field: count}))
    return msgspec.structs.replace(job, resources=asked)
