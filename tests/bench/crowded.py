"""Full clusters with long queues, and sequences of events on them, for the planning benchmarks.

The events keep the site full: a job is submitted; a job ends, and the job started in its place runs; a node
fails or returns. As in the controller, the next pass uses the pass cache and explains only the new job.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from tests.support import builders
from warpdeck.model import Allocation, GpuRequest, JobId, NodeName, Resources, Share
from warpdeck.policy import (
    AccountView,
    Limits,
    NodeView,
    PartitionView,
    PassCache,
    PendingJob,
    Plan,
    PlannerSettings,
    PlannerView,
    QosView,
    ReservationView,
    RunningJob,
    Start,
    UserView,
    Weights,
    plan,
)

NOW = 1_000_000.0
SHAPES = 200
USERS, ACCOUNTS = 50, 10
WEIGHTED = PlannerSettings(weights=Weights(age=1000, fairshare=10_000, job_size=100, partition=100, qos=1000))
FREE_ONE_IN = 50
"""One of this number of nodes is free."""


def crowded_site(nodes: int, pending: int, *, reservations: int = 0, free: bool = True) -> PlannerView:
    """Return a site on which jobs of many sizes hold nearly all nodes.

    The waiting jobs have 200 kinds of requests, including multi-node requests.
    """
    rng = Random(nodes * 1_000_003 + pending)
    machines = [
        msgspec.structs.replace(builders.node(f"n{number:05}"), switch=f"s{number // 32}")
        for number in range(nodes)
    ]
    idle = set(range(0, nodes, FREE_ONE_IN)) if free else set()
    held: list[RunningJob] = []
    for number, machine in enumerate(machines):
        if number not in idle:
            held += _jobs_on(rng, machine, len(held) + 1)
    kinds = [_kind(rng) for _ in range(SHAPES)]
    jobs = [_waiting(rng, len(held) + 1 + number, kinds) for number in range(pending)]
    reserved = tuple(
        ReservationView(
            name=f"r{number:02}",
            nodes=frozenset(machine.name for machine in rng.sample(machines, 4)),
            start_unix=NOW + 1000 * number,
            end_unix=NOW + 1000 * number + 7200,
        )
        for number in range(reservations)
    )
    return msgspec.structs.replace(builders.view(machines, jobs, held), reservations=reserved)


def _jobs_on(rng: Random, machine: NodeView, first_id: int) -> list[RunningJob]:
    found: list[RunningJob] = []
    at = 0
    while at < len(machine.gpus):
        gpus = machine.gpus[at : at + rng.choice((1, 1, 2, 4, 8))]
        at += len(gpus)
        share = Share(
            node=NodeName(machine.name),
            cpus=8 * len(gpus),
            mem_bytes=32 * builders.GIB * len(gpus),
            gpus=tuple(gpu.index for gpu in gpus),
            gpu_uuids=tuple(gpu.uuid for gpu in gpus),
        )
        number = JobId(first_id + len(found))
        found.append(
            RunningJob(
                id=number,
                array_job_id=number,
                allocation=Allocation(shares=(share,)),
                ends_by_unix=NOW + rng.randint(1, 100_000),
                user=f"u{rng.randrange(USERS)}",
                start_at_unix=NOW - 1000,
            )
        )
    return found


def _kind(rng: Random) -> tuple[Resources, int]:
    nodes = rng.choice((1, 1, 1, 1, 2, 4, 8))
    asked = Resources(
        nodes_min=nodes,
        nodes_max=nodes,
        cpus_per_task=rng.randint(1, 32),
        mem_per_node_bytes=rng.randint(1, 256) * builders.GIB,
        gpus=GpuRequest(per_node=rng.choice((1, 1, 2, 4, 8))),
    )
    return asked, rng.choice((600, 3600, 7200, 86_400))


def _waiting(rng: Random, number: int, kinds: list[tuple[Resources, int]]) -> PendingJob:
    asked, limit_s = rng.choice(kinds)
    return builders.pending(number, resources=asked, limit_s=limit_s, user=f"u{rng.randrange(USERS)}")


class Site:
    """A full cluster that changes by one event at a time."""

    def __init__(
        self,
        nodes: int,
        pending: int,
        *,
        reservations: int = 0,
        settings: PlannerSettings | None = None,
        exclusive_users: bool = False,
    ) -> None:
        self._rng = Random(pending)
        self.settings = settings or PlannerSettings()
        self.view = crowded_site(nodes, pending, reservations=reservations, free=False)
        if settings is not None:
            self.view = with_tables(self.view)
        if exclusive_users:
            self.view = with_exclusive_users(self.view)
        self.memory = PassCache()
        self.now = NOW
        self._next_id = max(job.id for job in self.view.pending) + 1

    def submitted(self) -> Callable[[], Plan]:
        """Add a waiting job of an existing kind. Return the next pass."""
        like = self._rng.choice(self.view.pending)
        number = JobId(self._next_id)
        self._next_id += 1
        new = msgspec.structs.replace(like, id=number, array_job_id=number, eligible_at_unix=self.now)
        return self._happened([number], pending=(*self.view.pending, new))

    def ended(self) -> Callable[[], Plan]:
        """End a running job. Return the next pass."""
        gone = self._rng.randrange(len(self.view.running))
        return self._happened([], running=self.view.running[:gone] + self.view.running[gone + 1 :])

    def node_changed(self) -> Callable[[], Plan]:
        """Drain a node, or resume it."""
        nodes = list(self.view.nodes)
        at = self._rng.randrange(len(nodes))
        out = "" if nodes[at].unavailable else "does not answer"
        nodes[at] = msgspec.structs.replace(nodes[at], unavailable=out)
        return self._happened([], nodes=tuple(nodes))

    def _happened(self, tell: list[JobId], **changed: object) -> Callable[[], Plan]:
        self.now += 1.0
        self.view = msgspec.structs.replace(self.view, **changed)
        return lambda: self.follow(
            plan(self.view, self.now, self.settings, cache=self.memory, explain_only=tell)
        )

    def full_pass(self) -> Plan:
        """Run a pass that explains all waiting jobs."""
        return plan(self.view, self.now, self.settings, cache=self.memory)

    def follow(self, made: Plan) -> Plan:
        """Schedule the plan's started jobs to run before the next event."""
        self._made = made
        return made

    def settle(self) -> None:
        """Turn the last plan's started jobs into running jobs."""
        started = {start.job_id: start for start in self._made.starts}
        waiting = {job.id: job for job in self.view.pending if job.id in started}
        begun = [_begun(waiting[start.job_id], start, self.now) for start in started.values()]
        self.view = msgspec.structs.replace(
            self.view,
            running=tuple(sorted((*self.view.running, *begun), key=lambda job: job.id)),
            pending=tuple(job for job in self.view.pending if job.id not in started),
        )


def _begun(job: PendingJob, start: Start, now: float) -> RunningJob:
    return RunningJob(
        id=job.id,
        array_job_id=job.array_job_id,
        allocation=start.allocation,
        ends_by_unix=now + (start.time_limit_s or 0),
        user=job.user,
        account=job.account,
        qos=job.qos,
        partition=start.partition,
        start_at_unix=now,
        excludes_users=job.resources.share_with == "user",
    )


def with_exclusive_users(view: PlannerView) -> PlannerView:
    """Return the site with --exclusive=user for all jobs. Jobs that already share nodes stay there."""
    requests = {id(job.resources): job.resources for job in view.pending}
    apart = {key: msgspec.structs.replace(asked, share_with="user") for key, asked in requests.items()}
    pending = tuple(msgspec.structs.replace(job, resources=apart[id(job.resources)]) for job in view.pending)
    running = tuple(msgspec.structs.replace(job, excludes_users=True) for job in view.running)
    return msgspec.structs.replace(view, pending=pending, running=running)


def with_tables(view: PlannerView) -> PlannerView:
    """Return the site with partitions, QoS, accounts and limits, so that a job's owner matters."""
    rng = Random(5)
    accounts = {f"u{number}": f"a{number % ACCOUNTS}" for number in range(USERS)}
    half = frozenset(node.name for node in view.nodes[: len(view.nodes) // 2])

    def of(job: RunningJob | PendingJob) -> RunningJob | PendingJob:
        return msgspec.structs.replace(
            job,
            account=accounts[job.user],
            qos="high" if rng.random() < 0.1 else "normal",
            partition=rng.choice(("gpu", "short")) if isinstance(job, PendingJob) else "gpu",
        )

    return msgspec.structs.replace(
        view,
        running=tuple(map(of, view.running)),
        pending=tuple(map(of, view.pending)),
        partitions=(
            PartitionView(name="gpu", max_time_s=172_800),
            PartitionView(name="short", nodes=half, max_time_s=86_400),
        ),
        qos=(
            QosView(name="high", priority=10, limits=Limits(max_tres_per_user={"gres/gpu": 64})),
            QosView(name="normal", limits=Limits(max_jobs_per_user=2000)),
        ),
        accounts=(
            *(
                AccountView(
                    name=f"a{number}",
                    parent="root",
                    usage=1000.0 * number,
                    limits=Limits(grp_tres={"gres/gpu": 2000}),
                )
                for number in range(ACCOUNTS)
            ),
            AccountView(name="root"),
        ),
        users=tuple(
            UserView(user=user, account=account, usage=float(at))
            for at, (user, account) in enumerate(sorted(accounts.items(), key=lambda pair: pair[::-1]))
        ),
    )
