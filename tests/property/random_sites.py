"""Random sites for the planner with unusual combinations of nodes, jobs, tables and settings."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from random import Random
from typing import Any

import msgspec

from warpdeck.model import (
    Allocation,
    GpuRequest,
    GpuUuid,
    JobId,
    NodeMinimum,
    NodeName,
    Resources,
    Share,
    Topology,
)
from warpdeck.model.reservation import ReservedPart
from warpdeck.policy import (
    AccountView,
    GpuView,
    NodeView,
    PartitionView,
    PendingJob,
    PlannerSettings,
    PlannerView,
    QosView,
    ReservationView,
    RunningJob,
    Weights,
)

from .random_tables import ACCOUNTS, GIB, NOW, USERS, reservations_of, tables_of

CONSTRAINTS = ("", "", "", "", "", "", "", "ib", "ib&new", "ib|new", "[ib|new]", "(ib|old)&new")
LENGTHS = (None, 60, 600, 3600, 86_400)
MINIMA = [
    NodeMinimum(tmp_disk_bytes=GIB),
    NodeMinimum(sockets=2, cores=2),
    NodeMinimum(sockets=5),
    NodeMinimum(threads=2),
]


def nodes_of(rng: Random) -> tuple[NodeView, ...]:
    """Return a few nodes. Some mix GPU types, some are unavailable, and some GPUs are blocked."""
    found = []
    mixes = rng.random() < 0.4
    for number in range(rng.randint(1, 5)):
        name = NodeName(f"n{number}")
        kinds = ["h100", "A100"] if mixes and rng.random() < 0.6 else [rng.choice(["h100", "A100"])]
        gpus = tuple(
            GpuView(
                index=index,
                uuid=GpuUuid(f"{name}-{index}"),
                type=rng.choice(kinds),
                mem_bytes=80 * GIB,
                blocked="held by a stranger" if rng.random() < 0.06 else "",
                numa_node=index // 2,
                island=index // 2 if rng.random() < 0.5 else -1,
            )
            for index in range(rng.choice([0, 1, 2, 4]))
        )
        found.append(
            NodeView(
                name=name,
                cpus=rng.randint(4, 16),
                mem_bytes=rng.randint(8, 32) * GIB,
                gpus=gpus,
                unavailable="drained" if rng.random() < 0.1 else "",
                features=frozenset(feature for feature in ("ib", "new", "old") if rng.random() < 0.5),
                switch=f"s{number // 2}" if rng.random() < 0.7 else "",
                weight=rng.randint(1, 2),
                topology=rng.choice([Topology(), Topology(sockets=2, cores=2, threads=2)]),
                tmp_disk_bytes=rng.choice([0, 50 * GIB]),
            )
        )
    return tuple(found)


def running_on(rng: Random, nodes: tuple[NodeView, ...]) -> tuple[RunningJob, ...]:
    """Return running and suspended jobs that fit on the nodes, with whole or shared GPUs and optional limits."""
    found: list[RunningJob] = []
    left = {node.name: [node.cpus, node.mem_bytes] for node in nodes}
    parts = {(node.name, gpu.index): 100 for node in nodes for gpu in node.gpus}
    for number in range(rng.randint(0, 8)):
        shares = []
        part = rng.choice([30, 50]) if rng.random() < 0.25 else 100
        for node in rng.sample(nodes, rng.choice([1, 1, min(2, len(nodes))])):
            free = [gpu for gpu in node.gpus if parts[node.name, gpu.index] >= part]
            count = 1 if part < 100 else rng.randint(0, len(free))
            cpus, mem = rng.randint(1, 4), rng.randint(0, 4) * GIB
            if len(free) < count or left[node.name][0] < cpus or left[node.name][1] < mem:
                continue
            taken = sorted(rng.sample(free, count), key=lambda gpu: gpu.index)
            left[node.name][0] -= cpus
            left[node.name][1] -= mem
            for gpu in taken:
                parts[node.name, gpu.index] -= part
            shares.append(
                Share(
                    node=node.name,
                    cpus=cpus,
                    mem_bytes=mem,
                    gpus=tuple(gpu.index for gpu in taken),
                    gpu_uuids=tuple(gpu.uuid for gpu in taken),
                    gpu_share_pct=part,
                )
            )
        if shares:
            found.append(_running(rng, number + 1, tuple(shares)))
    return tuple(found)


def _running(rng: Random, number: int, shares: tuple[Share, ...]) -> RunningJob:
    length = rng.choice([None, -5.0, 30.0, 600.0, 4000.0, 90_000.0])
    held = Allocation(shares=shares)
    job = RunningJob(
        id=JobId(number),
        array_job_id=JobId(number),
        allocation=held,
        ends_by_unix=None if length is None else NOW + length,
        user=rng.choice(USERS),
        account=rng.choice(ACCOUNTS),
        qos=rng.choice(["high", "low", "normal"]),
        partition=rng.choice(["p1", "p2"]),
        start_at_unix=NOW - rng.choice([0, 10, 1000]),
        requeue=rng.random() < 0.8,
    )
    fate = rng.random()
    if fate < 0.1:
        return msgspec.structs.replace(job, ending=True, ends_by_unix=NOW + rng.choice([-1, 20]))
    if fate < 0.25:
        stopped = tuple(msgspec.structs.replace(share, cpus=0) for share in shares)
        return msgspec.structs.replace(
            job, suspended=True, allocation=Allocation(shares=stopped), resumes_to=held
        )
    return job


def request_of(rng: Random, *, plain: bool = False) -> Resources:
    """Return a random request."""
    fewest = rng.choice([1, 1, 1, 1, 1, 2, 3])
    fields: dict[str, Any] = {"nodes_min": fewest, "nodes_max": fewest}
    kind = rng.choice(["", "", "", "", "h100", "a100"])
    count = rng.randint(0, 3)
    way = rng.random()
    if way < 0.6 or plain:
        gpus = GpuRequest(per_node=count, type=kind) if count else GpuRequest()
    elif way < 0.75:
        gpus = GpuRequest(total=max(1, count), type=kind)
    elif way < 0.85:
        gpus = GpuRequest(per_task=max(1, count), type=kind)
        fields["tasks"] = rng.randint(1, 4)
    else:
        gpus = GpuRequest(share_pct=rng.choice([30, 50, 60]), type=kind)
    fields["cpus_per_task"] = rng.randint(1, 4)
    fields["mem_per_node_bytes"] = rng.choice([None, None, None, GIB, 4 * GIB, 0])
    if not plain:
        fields["nodes_max"] = fewest + rng.choice([0, 0, 0, 1, 2])
        fields["exclusive"] = rng.random() < 0.1
        fields["constraint"] = rng.choice(CONSTRAINTS)
        fields["exclude"] = ("n0",) if rng.random() < 0.1 else ()
        fields["nodelist"] = (
            rng.choice([("n0", "n1", "n2"), ("n0", "n2"), ("n1",)]) if rng.random() < 0.15 else ()
        )
        fields["contiguous"] = rng.random() < 0.1
        fields["prefer"] = rng.choice(CONSTRAINTS) if rng.random() < 0.1 else ""
        if fewest == 1 and gpus.share_pct is None and rng.random() < 0.15:
            tasks = rng.randint(2, 6)
            fields.update(nodes_open=True, tasks=tasks, nodes_max=tasks)
        elif fewest > 1 and rng.random() < 0.5:
            fields["tasks"] = rng.randint(1, 16)
            fields["cpus_per_node_min"] = rng.choice([None, None, 3])
        fields["use_min_nodes"] = rng.random() < 0.1
        fields["node_minimum"] = rng.choice([NodeMinimum()] * 8 + MINIMA)
        fields["max_switches"] = 1 if rng.random() < 0.15 else None
        fields["cpus_per_gpu"] = rng.choice([None, None, 2])
    return Resources(gpus=gpus, **fields)


def queue_of(rng: Random, *, plain: bool = False, most: int = 8) -> tuple[PendingJob, ...]:
    """Return waiting jobs, several of them alike."""
    kinds = [request_of(rng, plain=plain) for _ in range(rng.randint(1, 5))]
    return tuple(
        _pending(rng, 100 + number, rng.choice(kinds), plain) for number in range(rng.randint(1, most))
    )


def _pending(rng: Random, number: int, resources: Resources, plain: bool) -> PendingJob:
    job = PendingJob(
        id=JobId(number),
        array_job_id=JobId(number),
        user=rng.choice(USERS),
        label=str(number),
        resources=resources,
        submit_at_unix=float(number),
        eligible_at_unix=float(number),
        time_limit_s=rng.choice(LENGTHS),
        partition=rng.choice(["p1", "p2"]),
        account=rng.choice(ACCOUNTS),
        qos=rng.choice(["high", "low", "normal"]),
    )
    if plain:
        return job
    odd: dict[str, Any] = {"partition": rng.choice(["p1", "p2", "p1", "p2", "p1,p2", "p2,p1"])}
    if rng.random() < 0.2 and job.time_limit_s:
        odd["time_min_s"] = job.time_limit_s // 2
    if rng.random() < 0.1:
        odd["deadline_unix"] = NOW + rng.choice([50, 700, 10_000])
    if rng.random() < 0.15:
        odd["tasks"], odd["throttle"] = ((0, 3, 1),), rng.choice([0, 1, 2])
    if rng.random() < 0.1:
        odd["licenses"] = (("matlab", rng.randint(1, 2)),)
    if rng.random() < 0.06:
        odd["reservation"] = rng.choice(["r0", "r1"])
    if rng.random() < 0.1:
        odd["priority"] = rng.randint(-5, 5)
    odd["held"] = rng.random() < 0.04
    odd["waits_for"] = "waits for job 1" if rng.random() < 0.04 else ""
    odd["never"] = "job 1 failed" if rng.random() < 0.04 else ""
    return msgspec.structs.replace(job, **odd)


def settings_of(rng: Random) -> PlannerSettings:
    """Return random settings."""
    return PlannerSettings(
        backfill=rng.choice(["easy", "easy", "conservative", "none"]),
        reservations=rng.choice([1, 1, 2, 5]),
        backfill_order=rng.choice(["priority", "shortest"]),
        preempt_by=rng.choice(["off", "qos", "partition"]),
        preempt_mode=rng.choice(["requeue", "requeue", "cancel", "suspend"]),
        suspend_keeps_gpus=rng.random() < 0.5,
        reclaim=rng.random() < 0.5,
        queue_order=rng.choice(["response", "submit"]),
        reservation_holds=rng.choice(["nodes", "nodes", "start"]),
        default_time_s=rng.choice([None, 1200]),
        default_mem_per_cpu_bytes=rng.choice([0, GIB // 2]),
        kill_invalid_dependency=rng.random() < 0.5,
    )


def site_of(rng: Random) -> tuple[PlannerView, PlannerSettings]:
    """Return a whole site."""
    nodes = nodes_of(rng)
    tables = tables_of(rng, nodes) if rng.random() < 0.7 else {}
    view = PlannerView(nodes=nodes, running=running_on(rng, nodes), pending=queue_of(rng), **tables)
    return with_exclusive_users(rng, view), settings_of(rng)


def with_exclusive_users(rng: Random, view: PlannerView) -> PlannerView:
    """Give some jobs and partitions --exclusive=user on some sites. Later random values stay the same."""
    rng = copy(rng)
    if rng.random() < 0.6:
        return view
    odds = rng.choice([0.1, 0.4])
    requests = {job.resources: job.resources for job in view.pending}
    for each in requests:
        if rng.random() < odds:
            requests[each] = msgspec.structs.replace(each, share_with="user")
    users = rng.sample(USERS, 2) if rng.random() < 0.5 else USERS
    return msgspec.structs.replace(
        view,
        pending=tuple(
            msgspec.structs.replace(job, resources=requests[job.resources], user=rng.choice(users))
            for job in view.pending
        ),
        running=tuple(
            msgspec.structs.replace(job, excludes_users=rng.random() < odds, user=rng.choice(users))
            for job in view.running
        ),
        partitions=tuple(
            msgspec.structs.replace(part, exclusive_user=rng.random() < odds) for part in view.partitions
        ),
    )


def reserved_site_of(rng: Random) -> tuple[PlannerView, PlannerSettings]:
    """Return a site with many kinds of reservations, and jobs that request them or may be placed in them."""
    view, chosen = site_of(rng)
    names = [node.name for node in view.nodes]
    some = lambda: frozenset(rng.sample(names, rng.randint(1, len(names))))  # noqa: E731
    made = (each for _ in range(6) for each in reservations_of(rng, some))
    reservations = tuple(
        msgspec.structs.replace(each, name=f"r{number}") for number, each in enumerate(made) if number < 4
    )
    pending = tuple(
        msgspec.structs.replace(job, reservation=rng.choice(["", "", "r0", "r1", "r2", "r3"]))
        for job in view.pending
    )
    return msgspec.structs.replace(view, reservations=reservations, pending=pending), chosen


def partially_reserved_site_of(rng: Random) -> tuple[PlannerView, PlannerSettings]:
    """Return a reserved site that also has reservations of parts of nodes, with some jobs running in them."""
    view, chosen = reserved_site_of(rng)
    nodes = {node.name: node for node in view.nodes}
    reservations = tuple(
        msgspec.structs.replace(each, parts=tuple(_part_of(rng, nodes[name]) for name in sorted(each.nodes)))
        if rng.random() < 0.7
        else each
        for each in view.reservations
    )
    left = {(each.name, part.node): [part.cpus, sum(count for _, count in part.gpus)]
            for each in reservations for part in each.parts}  # fmt: skip
    running = tuple(_perhaps_reserved(rng, job, reservations, left) for job in view.running)
    return msgspec.structs.replace(view, reservations=reservations, running=running), chosen


def _part_of(rng: Random, node: NodeView) -> ReservedPart:
    types = [gpu.type.lower() for gpu in node.gpus]
    some = rng.sample(types, rng.randint(0, len(types)))
    gpus = tuple((name, some.count(name)) for name in sorted(set(some)))
    return ReservedPart(node=node.name, cpus=rng.randint(1, node.cpus - 1), gpus=gpus)


def _perhaps_reserved(
    rng: Random,
    job: RunningJob,
    reservations: Sequence[ReservationView],
    left: dict[tuple[str, NodeName], list[int]],
) -> RunningJob:
    """Return the job, possibly placed in a reservation with large enough reserved parts."""
    held = (job.resumes_to or job.allocation).shares
    for each in reservations:
        remaining = [left.get((each.name, share.node), [0, 0]) for share in held]
        fits = all(
            share.cpus <= room[0] and share.gpu_share_pct == 100 and len(share.gpus) <= room[1]
            for share, room in zip(held, remaining, strict=True)
        )
        if each.start_unix <= NOW and fits and rng.random() < 0.7:
            for share, room in zip(held, remaining, strict=True):
                room[:] = room[0] - share.cpus, room[1] - len(share.gpus)
            ends = min(each.end_unix, ENDLESS if job.ends_by_unix is None else job.ends_by_unix)
            return msgspec.structs.replace(
                job, reservation=each.name, ends_by_unix=None if ends == ENDLESS else ends
            )
    return job


ENDLESS = float("inf")


def plain_site_of(rng: Random) -> tuple[PlannerView, PlannerSettings]:
    """Return nodes and jobs without tables.

    The resources of a reserved job then follow from its request alone.
    """
    nodes = nodes_of(rng)
    queue = tuple(
        msgspec.structs.replace(
            job,
            resources=msgspec.structs.replace(
                job.resources, mem_per_node_bytes=job.resources.mem_per_node_bytes or GIB
            ),
        )
        for job in queue_of(rng, plain=True)
    )
    chosen = msgspec.structs.replace(settings_of(rng), default_mem_per_cpu_bytes=0)
    running = tuple(job for job in running_on(rng, nodes) if not job.suspended)
    return with_exclusive_users(rng, PlannerView(nodes=nodes, running=running, pending=queue)), chosen


def contested_site_of(rng: Random) -> tuple[PlannerView, PlannerSettings]:
    """Return a site with conflicting claims.

    Tiers, QoS and quotas favor different jobs, and some jobs cannot be preempted. Waits, usage and end times are
    not round numbers.
    """
    view, chosen = site_of(rng)
    while not view.qos:
        view, chosen = site_of(rng)
    weights = Weights(fairshare=1000, age=100, qos=50, job_size=30, tres={"cpu": 10.0, "gres/gpu": 3.0})
    chosen = msgspec.structs.replace(
        chosen,
        preempt_by=rng.choice(["qos", "partition"]),
        reclaim=rng.random() < 0.7,
        weights=rng.choice([Weights(), weights]),
    )
    contested = msgspec.structs.replace(
        view,
        partitions=_contested_partitions(rng, view),
        qos=_ranked_qos(rng, view.qos),
        accounts=tuple(_used(rng, account) for account in view.accounts),
        users=tuple(msgspec.structs.replace(user, usage=rng.random() * 1000) for user in view.users),
        pending=tuple(_long_waiting(rng, job) for job in view.pending),
        running=tuple(_expected(rng, job) for job in view.running),
        longest_wait_s=rng.choice([0, 300.3, 4000]),
    )
    return contested, chosen


def _contested_partitions(rng: Random, view: PlannerView) -> tuple[PartitionView, ...]:
    third = PartitionView(name="p3", preempt_mode=rng.choice(["", "suspend", "cancel"]))
    return tuple(
        msgspec.structs.replace(
            part,
            priority_tier=rng.choice([1, 2, 3]),
            preempt_mode=rng.choice([part.preempt_mode, "", "requeue", rng.choice(["requeue", "off"])]),
            grace_s=rng.choice([0, 0, 120]),
        )
        for part in (*view.partitions, third)
    )


def _ranked_qos(rng: Random, table: tuple[QosView, ...]) -> tuple[QosView, ...]:
    preempts = {"high": {"low", "normal"}, "normal": {"low"}}
    return tuple(
        msgspec.structs.replace(
            qos, preempts=frozenset(preempts.get(qos.name, ())), grace_s=rng.choice([0, 0, 60])
        )
        for qos in table
    )


def _used(rng: Random, account: AccountView) -> AccountView:
    quota = {"gres/gpu": rng.randint(1, 4)} if rng.random() < 0.3 else account.quota
    return msgspec.structs.replace(account, shares=rng.randint(1, 3), usage=rng.random() * 1000, quota=quota)


def _long_waiting(rng: Random, job: PendingJob) -> PendingJob:
    return msgspec.structs.replace(
        job,
        eligible_at_unix=NOW - rng.choice([0, 1, 33.3, 1000.7, 50_000.1]),
        qos=rng.choice(["high", "low", "normal"]),
        partition=rng.choice(["p1", "p2", "p3", "p1,p3", "p2,p3", "p1,p2,p3"]),
    )


def _expected(rng: Random, job: RunningJob) -> RunningJob:
    ends = job.ends_by_unix
    return msgspec.structs.replace(
        job,
        start_at_unix=NOW - rng.choice([0, 7.7, 1000]),
        partition=rng.choice(["p1", "p2", "p3"]),
        expects_end_unix=None if ends is None else ends - rng.choice([0, 0.1, 13.37]),
    )
