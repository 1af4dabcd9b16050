"""Effects of each table of config.toml. The real controller runs on simulated nodes in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from warpdeck.base.errors import UserError
from warpdeck.config import ConfigError, decode
from warpdeck.controller.events.events import ReservationMade, ReservationRemoved, Submitted
from warpdeck.controller.loop.controller import Controller
from warpdeck.model import GpuRequest, Job, JobState, NodeName, Request, Reservation, Resources
from warpdeck.ports.caller import Principal
from warpdeck.sim.cluster import EPOCH_UNIX, SimCluster
from warpdeck.sim.faults import Faults
from warpdeck.sim.virtualtime import run_virtual
from warpdeck_agent.wire import messages as wire

ANN, BOB = Principal(user="ann", uid=1), Principal(user="bob", uid=2)
A_MOMENT_S = 2.0
HOUR_S = 3600


class SiteCluster(SimCluster):
    """Nodes that never fail. The name of a job is its run time in seconds.

    `launched` holds the job id and the restart count of each start.
    """

    def __init__(self, rules: str, *, nodes: int, gpus: int) -> None:
        config = decode(rules, "f").config
        super().__init__(1, nodes=nodes, gpus=gpus, faults=Faults(refuse=0.0, fail=0.0), config=config)
        self.launched: list[tuple[int, str]] = []

    def run_time(self, launch: wire.Launch) -> tuple[float, int]:
        self.launched.append((launch.job_id, launch.env.get("SLURM_RESTART_COUNT", "")))
        return float(launch.env["SLURM_JOB_NAME"]), 0


class Site:
    """A controller of a SiteCluster, and the actions of its users."""

    def __init__(self, cluster: SiteCluster, controller: Controller) -> None:
        self.cluster = cluster
        self.controller = controller

    async def submit(self, who: Principal = ANN, *, gpus: int = 4, seconds: int = 600, **fields: Any) -> Job:
        """Return the submitted job after the controller had time to plan it."""
        where = {name: fields.pop(name) for name in ("constraint", "nodelist") if name in fields}
        request = Request(
            name=str(seconds),
            script="#!/bin/sh\n",
            resources=Resources(gpus=GpuRequest(per_node=gpus) if gpus else GpuRequest(), **where),
            **{"time_limit_s": seconds + 60, **fields},
        )
        outcome = await self.controller.apply(Submitted(principal=who, request=request))
        assert outcome.job is not None
        await self.advance()
        return self.job(outcome.job)

    async def advance(self, seconds: float = A_MOMENT_S) -> None:
        """Let virtual time pass with all its events. This takes no real time."""
        await asyncio.sleep(seconds)

    def job(self, job: Job) -> Job:
        return self.controller.state.jobs[job.id]

    def why(self, job: Job) -> str:
        assert self.job(job).state is JobState.PENDING
        why = self.controller.state.planned.pending_reasons[job.id]
        return f"{why.code}: {why.sentence}"

    def nodes(self, job: Job) -> tuple[str, ...]:
        allocation = self.job(job).allocation
        return allocation.node_names() if allocation else ()

    async def refused(self, who: Principal = ANN, **fields: Any) -> str:
        with pytest.raises(UserError) as caught:
            await self.submit(who, **fields)
        return caught.value.message


def on_site(
    rules: str, *acts: Callable[[Site], Awaitable[None]], nodes: int = 1, gpus: int = 8
) -> SiteCluster:
    """Run the acts, each with its own controller. The controller is killed between two acts."""
    cluster = SiteCluster(rules, nodes=nodes, gpus=gpus)

    async def run() -> None:
        for act in acts:
            async with cluster.controller(on_change=lambda controller: None) as controller:
                site = Site(cluster, controller)
                await site.advance()
                await act(site)

    run_virtual(run())
    return cluster


def test_a_partition_restricts_nodes_and_time_limits() -> None:
    rules = '[partitions.short]\nnodes = "n0"\nmax_time = "1:00:00"\n[partitions.long]\nnodes = "n1"\n'

    async def act(site: Site) -> None:
        first = await site.submit(partition="short", gpus=8)
        second = await site.submit(partition="short", gpus=8)
        assert site.nodes(first) == ("n0",) and not site.nodes(second)
        assert site.why(second).startswith("Resources")
        assert "partition short allows 1 h" in await site.refused(partition="short", seconds=2 * HOUR_S)
        assert site.nodes(await site.submit(partition="long", seconds=2 * HOUR_S)) == ("n1",)
        assert "no partition cpu" in await site.refused(partition="cpu")
        unlimited = await site.submit(partition="short", time_limit_s=None, gpus=0)
        assert site.job(unlimited).time_limit_s == HOUR_S

    on_site(rules, act, nodes=2)


def test_a_qos_limits_the_gpus_of_each_user() -> None:
    async def act(site: Site) -> None:
        await site.submit(qos="normal")
        second = await site.submit(qos="normal")
        assert site.why(second).startswith(
            "QOSMaxGRESPerUser: limit of QoS normal for user ann: 4 GPUs; 4 are in"
        )
        assert site.nodes(await site.submit(BOB, qos="normal"))
        await site.advance(700)
        assert site.nodes(second)

    on_site('[qos.normal]\nmax_tres_per_user = "gres/gpu=4"\n', act)


TWO_LABS = """
[scheduler]
preempt_grace_s = 60
[accounts.vision]
quota = "gres/gpu=4"
users.ann = {}
[accounts.speech]
quota = "gres/gpu=4"
users.bob = {}
"""


def test_an_account_reclaims_its_quota_and_the_borrower_runs_again() -> None:
    ids: list[int] = []

    async def act(site: Site) -> None:
        own = await site.submit(BOB, seconds=3000)
        borrowed = await site.submit(BOB, seconds=3000)
        assert site.nodes(own) and site.nodes(borrowed), "unused GPUs are lent"
        reclaiming = await site.submit(ANN, seconds=600)
        await site.advance(70)
        assert site.job(reclaiming).state is JobState.RUNNING
        preempted, stayed = sorted((site.job(own), site.job(borrowed)), key=lambda job: job.state.value)
        assert (preempted.state, stayed.state) == (JobState.PENDING, JobState.RUNNING)
        ids.append(preempted.id)
        await site.advance(700)
        assert site.job(preempted).state is JobState.RUNNING and site.job(preempted).restarts == 1

    cluster = on_site(TWO_LABS, act)
    assert [count for job_id, count in cluster.launched if job_id == ids[0]] == ["", "1"]


FAIR = """
[scheduler.weights]
fairshare = 1000
[accounts.lab.users.ann]
[accounts.lab.users.bob]
"""


def test_the_user_with_less_usage_starts_first_also_after_a_restart() -> None:
    async def use(site: Site) -> None:
        await site.submit(ANN, seconds=5000, gpus=8)
        await site.advance(5100)

    async def compete(site: Site) -> None:
        last = await site.submit(BOB, seconds=60, gpus=8)
        heavy = await site.submit(ANN, seconds=600, gpus=8)
        light = await site.submit(BOB, seconds=600, gpus=8)
        assert site.nodes(last)
        await site.advance(100)
        assert site.nodes(light) and not site.nodes(heavy)
        used = {(user.user): user.usage for user in site.controller.state.site.users}
        assert used["ann"] > used["bob"] > 0.0

    on_site(FAIR, use, compete)


def test_used_minutes_still_count_after_a_restart() -> None:
    rules = (
        '[fairshare]\nhalf_life = "UNLIMITED"\n[accounts.lab]\ngrp_tres_mins = "gres/gpu=100"\nusers.ann = {}'
    )

    async def use(site: Site) -> None:
        await site.submit(seconds=600)  # 40 of the minutes, and 4 that it did not need
        await site.advance(700)
        await site.submit(seconds=600)
        await site.advance(300)

    async def ask(site: Site) -> None:
        third = await site.submit(seconds=600)
        assert site.why(third).startswith("AssocGrpGRESMinutes: limit of account lab: 100 minutes of GPUs")
        assert site.nodes(await site.submit(seconds=120))

    on_site(rules, use, ask)


def test_a_job_that_would_overlap_maintenance_waits_with_a_reason() -> None:
    begins = datetime.fromtimestamp(EPOCH_UNIX + HOUR_S, tz=UTC).isoformat()
    rules = f'[reservations.cooling]\nstart = {begins}\nduration = "2:00:00"\nmaintenance = true\n'

    async def act(site: Site) -> None:
        long = await site.submit(seconds=2 * HOUR_S)
        assert site.why(long).startswith("ReqNodeNotAvail") and "cooling" in site.why(long)
        assert site.nodes(await site.submit(seconds=1800))
        await site.advance(3 * HOUR_S)
        assert site.job(long).state is JobState.RUNNING

    on_site(rules, act)


def test_a_license_is_used_by_one_job_at_a_time() -> None:
    async def act(site: Site) -> None:
        await site.submit(licenses=(("matlab", 1),), seconds=100)
        second = await site.submit(licenses=(("matlab", 1),))
        assert site.why(second) == "Licenses: needs 1 licenses of matlab; 0 are free"
        await site.advance(120)
        assert site.nodes(second)
        assert "2 licenses of matlab" in await site.refused(licenses=(("matlab", 2),))

    on_site("[licenses]\nmatlab = 1\n", act)


def test_constraints_select_nodes_by_their_features() -> None:
    async def act(site: Site) -> None:
        assert site.nodes(await site.submit(constraint="ib&new")) == ("n1",)
        assert "ib&old" in await site.refused(constraint="ib&old")

    on_site('[nodes."n[0-1]"]\nfeatures = ["new"]\n[nodes.n1]\nfeatures = ["ib"]\n', act, nodes=2)


def test_a_job_gets_its_users_account_and_the_accounts_qos_by_default() -> None:
    rules = '[qos.normal]\n[accounts.lab]\ndefault_qos = "normal"\nusers.ann = {}\n'

    async def act(site: Site) -> None:
        request = (await site.submit()).request
        assert (request.account, request.qos) == ("lab", "normal")
        assert "bob has no default account" in await site.refused(BOB)

    on_site(rules, act)


def test_submit_limits_count_waiting_and_running_jobs() -> None:
    async def act(site: Site) -> None:
        await site.submit(seconds=100)
        await site.submit(hold=True)
        assert "2 jobs in the queue in total; there are 2" in await site.refused()
        await site.advance(120)
        await site.submit()

    on_site("[accounts.lab]\ngrp_submit = 2\nusers.ann = {}\n", act)


def test_a_reservation_made_at_run_time_survives_a_restart() -> None:
    waiting: list[Job] = []

    async def make(site: Site) -> None:
        made = Reservation(
            name="class", nodes=(NodeName("n0"),), start_unix=site.cluster.now_unix(), users=("bob",)
        )
        await site.controller.apply(ReservationMade(reservation=made))
        waiting.append(await site.submit(ANN, gpus=8, nodelist=("n0",)))

    async def use(site: Site) -> None:
        await site.advance()
        assert "class" in site.why(waiting[0])
        member = await site.submit(BOB, gpus=8, seconds=100, reservation="class")
        assert site.nodes(member) == ("n0",)
        assert "reservation class" in await site.refused(ANN, reservation="class")
        await site.controller.apply(ReservationRemoved(name="class"))
        await site.advance(200)
        assert site.nodes(waiting[0]) == ("n0",)

    on_site("", make, use, nodes=2)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"users": ("ann",)}, ""),
        ({"name": "old", "maintenance": True}, "reservation old already exists"),
        ({"nodes": (NodeName("n9"),), "maintenance": True}, "there is no node n9"),
        ({"nodes": (), "maintenance": True}, "the reservation has no nodes"),
        ({}, "has no users or accounts"),
        ({"accounts": ("lab",)}, "there is no account lab"),
        ({"users": ("ann",), "end_unix": 5.0}, "already have ended"),
        ({"users": ("ann",), "nodes": None}, "n1 belongs to reservation old at that time"),
        ({"users": ("ann",), "nodes": None, "overlap": True}, ""),
        ({"users": ("ann",), "nodes": None, "maintenance": True}, ""),
        ({"users": ("ann",), "nodes": None, "end_unix": EPOCH_UNIX + 1000}, ""),
    ],
)
def test_an_invalid_reservation_is_refused(fields: dict[str, Any], sentence: str) -> None:
    async def act(site: Site) -> None:
        late = EPOCH_UNIX + 2000
        old = Reservation(name="old", nodes=(NodeName("n1"),), start_unix=late, maintenance=True)
        await site.controller.apply(ReservationMade(reservation=old))
        wanted = Reservation(**{"name": "new", "nodes": (NodeName("n0"),), "start_unix": 0.0, **fields})
        if sentence:
            with pytest.raises(UserError, match=sentence):
                await site.controller.apply(ReservationMade(reservation=wanted))
        else:
            await site.controller.apply(ReservationMade(reservation=wanted))
        assert set(site.controller.state.reserved) == ({"old"} if sentence else {"old", "new"})

    on_site("", act, nodes=2)


def test_a_recurring_reservation_blocks_long_jobs_and_admits_its_own() -> None:
    minute_s = 60

    async def act(site: Site) -> None:
        start = site.controller.clock() + 20 * minute_s
        made = Reservation(
            name="class",
            nodes=(NodeName("n0"),),
            start_unix=start,
            end_unix=start + 20 * minute_s,
            users=("ann",),
            repeat="hourly",
        )
        await site.controller.apply(ReservationMade(reservation=made))
        long = await site.submit(BOB, gpus=1, seconds=41 * minute_s, time_limit_s=41 * minute_s)
        short = await site.submit(BOB, gpus=1, seconds=39 * minute_s, time_limit_s=39 * minute_s)
        own = [await site.submit(gpus=8, seconds=15 * minute_s, reservation="class") for _ in range(3)]
        await site.advance(3 * HOUR_S)
        assert site.why(long).startswith("ReqNodeNotAvail: would fit now, but reservation class")
        begun = [site.job(job).start_at_unix or 0.0 for job in (short, *own)]
        assert [round((at - start) / minute_s) for at in begun] == [20, 0, 15, 60]
        ended = [
            (site.job(job).state, round(((site.job(job).end_at_unix or 0.0) - start) / minute_s))
            for job in own
        ]
        assert ended == [("COMPLETED", 15), ("TIMEOUT", 20), ("COMPLETED", 75)], (
            "the second job ends with its reservation"
        )
        await site.controller.apply(ReservationRemoved(name="class"))
        await site.advance()
        assert site.nodes(long) == ("n0",)

    on_site("", act)


def test_a_configured_reservation_may_recur_and_is_validated() -> None:
    tomorrow = datetime.fromtimestamp(EPOCH_UNIX + HOUR_S, UTC).isoformat()
    rules = (
        f'[reservations.class]\nstart = {tomorrow}\nduration = "1:00:00"\nusers = ["ann"]\nrepeat = "daily"\n'
    )

    async def act(site: Site) -> None:
        await site.advance(3 * 24 * HOUR_S)
        assert site.nodes(await site.submit(BOB, gpus=1, seconds=600)) == ("n0",)
        job = await site.submit(gpus=8, seconds=600, reservation="class")
        await site.advance(2 * HOUR_S)
        assert site.nodes(job) == ("n0",)

    on_site(rules, act)
    with pytest.raises(ConfigError, match="starts again before its end"):
        decode(rules.replace("1:00:00", "25:00:00"), "f")
    with pytest.raises(ConfigError, match="repeat: needs a start and a duration"):
        decode(rules.replace('duration = "1:00:00"\n', ""), "f")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"end_unix": None}, "needs a duration"),
        ({"end_unix": EPOCH_UNIX + 25 * HOUR_S}, "start again before its end"),
        ({"end_unix": EPOCH_UNIX + 2 * HOUR_S}, "n0 belongs to reservation old"),
    ],
)
def test_an_invalid_recurring_reservation_is_refused(fields: dict[str, Any], words: str) -> None:
    async def act(site: Site) -> None:
        later = EPOCH_UNIX + 49 * HOUR_S
        old = Reservation(
            name="old", nodes=(NodeName("n0"),), start_unix=later, end_unix=later + HOUR_S, maintenance=True
        )
        await site.controller.apply(ReservationMade(reservation=old))
        base = {"name": "new", "nodes": (NodeName("n0"),), "start_unix": EPOCH_UNIX, "users": ("ann",)}
        wanted = Reservation(**{**base, "repeat": "daily", **fields})
        with pytest.raises(UserError, match=words):
            await site.controller.apply(ReservationMade(reservation=wanted))

    on_site("", act)
