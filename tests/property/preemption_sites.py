"""Random sites on which QoS, tiers and quotas favor different jobs, and no job ends normally.

Preemption is the only event, and it must stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec
from tests.property.pass_player import PassPlayer
from tests.property.random_tables import GIB, NOW

from warpdeck.model import GpuRequest, GpuUuid, JobId, NodeName, Resources
from warpdeck.policy import (
    AccountView,
    GpuView,
    NodeView,
    PartitionView,
    PendingJob,
    PlannerSettings,
    PlannerView,
    QosView,
)

QOS = (
    QosView(name="high", priority=10, preempts=frozenset({"low", "normal"})),
    QosView(name="normal", priority=5, preempts=frozenset({"low"})),
    QosView(name="low"),
)
CLAIM_EXPIRED_S = 200.0
"""Longer than freed resources are kept for the job that preempted others."""
MOST_PASSES = 80
"""Maximum number of passes until a site of a few jobs is at rest; about ten are usual."""


def preemption_site(rng: Random) -> tuple[PlannerView, PlannerSettings, list[PendingJob]]:
    """Return an empty site and the jobs that arrive."""
    nodes = tuple(_node(f"n{number}", rng.choice([2, 4])) for number in range(rng.randint(1, 3)))
    names = [node.name for node in nodes]
    tiers = rng.sample([1, 2, 3], 3)
    partitions = tuple(
        PartitionView(
            name=f"p{number}",
            priority_tier=tier,
            nodes=frozenset(rng.sample(names, rng.randint(1, len(names)))) if rng.random() < 0.3 else None,
        )
        for number, tier in enumerate(tiers)
    )
    accounts = (
        AccountView(name="guests"),
        AccountView(name="lab", quota=_quota(rng) if rng.random() < 0.3 else {}),
        AccountView(name="speech", parent="lab", quota=_quota(rng)),
        AccountView(name="vision", parent="lab", quota=_quota(rng)),
        AccountView(name="bio", quota=_quota(rng)),
    )
    chosen = PlannerSettings(
        preempt_by=rng.choice(["qos", "partition"]), reclaim=True, preempt_mode="requeue"
    )
    jobs = [_job(rng, 100 + number) for number in range(rng.randint(3, 9))]
    rng.shuffle(jobs)
    view = PlannerView(nodes=nodes, pending=(), running=(), partitions=partitions, qos=QOS, accounts=accounts)
    return view, msgspec.structs.replace(chosen, grace_s=0), jobs


def _node(name: str, gpus: int) -> NodeView:
    made = tuple(
        GpuView(index=index, uuid=GpuUuid(f"{name}-{index}"), type="h100", mem_bytes=80 * GIB)
        for index in range(gpus)
    )
    return NodeView(name=NodeName(name), cpus=8, mem_bytes=64 * GIB, gpus=made)


def _quota(rng: Random) -> dict[str, int]:
    kind = rng.random()
    found = {"gres/gpu": rng.randint(1, 5)} if 0.4 < kind < 0.95 else {}
    if kind > 0.85:
        found["cpu"] = rng.randint(2, 10)
    return found


def _job(rng: Random, number: int) -> PendingJob:
    gpus, nodes = rng.choice([0, 0, 1, 1, 2, 3, 4]), rng.choice([1, 1, 1, 2])
    resources = Resources(
        nodes_min=nodes,
        nodes_max=nodes,
        cpus_per_task=rng.randint(1, 8),
        gpus=GpuRequest(per_node=gpus) if gpus else GpuRequest(),
        exclusive=rng.random() < 0.1,
    )
    return PendingJob(
        id=JobId(number),
        array_job_id=JobId(number),
        user=rng.choice(["ann", "bob"]),
        label=str(number),
        resources=resources,
        submit_at_unix=float(number),
        eligible_at_unix=float(number),
        time_limit_s=None,
        partition=rng.choice(["p0", "p1", "p2", "p0", "p1", "p2", "p0,p1", "p1,p2"]),
        account=rng.choice(["guests", "lab", "speech", "vision", "bio"]),
        qos=rng.choice(["high", "low", "normal"]),
    )


def preemptions_to_rest(rng: Random) -> Iterator[list[tuple[JobId, JobId]]]:
    """Yield the preemptions (preemptor, victim) after each arrival until there are no more.

    Too many passes raise AssertionError.
    """
    view, chosen, coming = preemption_site(rng)
    player = PassPlayer(view, chosen, NOW)
    while coming:
        wave, coming = coming[: (count := rng.randint(1, 3))], coming[count:]
        player.origin.update({job.id: job for job in wave})
        waiting = sorted((*player.view.pending, *wave), key=lambda job: job.id)
        player.view = msgspec.structs.replace(player.view, pending=tuple(waiting))
        yield run_to_rest(player)


def run_to_rest(player: PassPlayer) -> list[tuple[JobId, JobId]]:
    """Run passes until nothing changes, and return the preemptions."""
    preemptions: list[tuple[JobId, JobId]] = []
    was_quiet = False
    for _ in range(MOST_PASSES):
        made = player.step()
        preemptions += [(each.for_job_id, each.job_id) for each in made.preempts]
        is_quiet = not (made.starts or made.preempts or any(job.ending for job in player.view.running))
        if is_quiet and was_quiet:
            return preemptions
        was_quiet = is_quiet
        if is_quiet:
            player.now += CLAIM_EXPIRED_S
        elif not player.wait():
            player.now += 1.0
    raise AssertionError(f"the site does not come to rest: {preemptions[-12:]}")
