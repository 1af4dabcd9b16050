"""Requests about nodes and other jobs, through the real controller on simulated nodes."""

from __future__ import annotations

import msgspec
import pytest
from tests.sim.test_site_configuration import BOB, HOUR_S, Site, on_site

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Submitted
from warpdeck.model import Dependencies, GpuRequest, Job, JobState, Request, Resources
from warpdeck.notation.values.dependencies import parse_dependencies

NODES = """
[nodes."n[0-1]"]
features = ["ivb"]
switch = "s0"
[nodes."n[2-3]"]
features = ["hsw"]
switch = "s1"
"""


async def gang(site: Site, *, nodes: int = 2, seconds: int = 600, **placement: object) -> Job:
    """Return a submitted job on whole nodes, after the controller had time to plan it."""
    wanted = Resources(nodes_min=nodes, nodes_max=nodes, gpus=GpuRequest(per_node=8), **placement)  # type: ignore[arg-type]
    request = Request(name=str(seconds), script="#!/bin/sh\n", resources=wanted, time_limit_s=seconds + 60)
    outcome = await site.controller.apply(Submitted(principal=BOB, request=request))
    assert outcome.job is not None
    await site.advance()
    return site.job(outcome.job)


@pytest.mark.parametrize(("constraint", "starts"), [("ivb|hsw", True), ("[ivb|hsw]", False)])
def test_a_constraint_in_brackets_requires_the_same_feature_on_all_nodes(
    constraint: str, starts: bool
) -> None:
    async def act(site: Site) -> None:
        for name in ("n0", "n2"):
            await site.submit(gpus=8, seconds=HOUR_S, nodelist=(name,))
        job = await gang(site, constraint=constraint)
        assert bool(site.nodes(job)) == starts
        await site.advance(HOUR_S)
        assert site.nodes(job) in (("n1", "n3"), ("n0", "n1"), ("n2", "n3"))
        if not starts:
            assert site.nodes(job) != ("n1", "n3")
            with pytest.raises(UserError, match="requests 3 nodes"):
                await gang(site, nodes=3, constraint=constraint)

    on_site(NODES, act, nodes=4)


def test_a_job_waits_for_few_switches_only_for_its_maximum_time() -> None:
    async def act(site: Site) -> None:
        for name in ("n0", "n2"):
            await site.submit(gpus=8, seconds=HOUR_S, nodelist=(name,))
        begun = site.controller.clock()
        job = await gang(site, max_switches=1, switches_wait_s=300)
        patient = await gang(site, max_switches=1, switches_wait_s=None)
        await site.advance(250)
        assert not site.nodes(job)
        await site.advance(60)
        assert site.nodes(job) == ("n1", "n3")
        assert 300 <= (site.job(job).start_at_unix or 0.0) - begun < 303
        await site.advance(HOUR_S)
        assert site.nodes(patient) in (("n0", "n1"), ("n2", "n3"))

    on_site(NODES, act, nodes=4)


@pytest.mark.parametrize(
    ("text", "starts"), [("afterok:{0}?afterok:{1}", True), ("afterok:{0},afterok:{1}", False)]
)
def test_one_of_several_alternative_dependencies_is_enough(text: str, starts: bool) -> None:
    async def act(site: Site) -> None:
        first, second = await site.submit(gpus=1, seconds=60), await site.submit(gpus=1, seconds=HOUR_S)
        wanted = msgspec.convert(parse_dependencies(text.format(first.id, second.id)), Dependencies)
        job = await site.submit(gpus=1, dependencies=wanted)
        assert site.why(job).startswith("Dependency")
        await site.advance(60)
        assert (site.job(job).state is JobState.RUNNING) == starts
        await site.advance(HOUR_S)
        assert site.job(job).start_at_unix is not None

    on_site("", act)


def test_a_preempted_job_runs_again_with_its_restart_count() -> None:
    rules = '[scheduler]\npreempt_grace_s = 5\n[qos.low]\n[qos.high]\npreempts = ["low"]\n'

    async def act(site: Site) -> None:
        low = await site.submit(gpus=8, qos="low", seconds=HOUR_S)
        for _ in range(2):
            high = await site.submit(BOB, gpus=8, qos="high", seconds=60)
            await site.advance(120)
            assert site.job(high).is_finished
        assert site.job(low).restarts == 2
        assert [seen for job_id, seen in site.cluster.launched if job_id == low.id] == ["", "1", "2"]

    on_site(rules, act)


def test_gpu_shares_are_preempted_and_run_again() -> None:
    rules = '[scheduler]\npreempt_grace_s = 5\n[qos.low]\n[qos.high]\npreempts = ["low"]\n'

    async def submit_share(site: Site, pct: int, *, qos: str, seconds: int) -> Job:
        wanted = Resources(gpus=GpuRequest(share_pct=pct))
        request = Request(
            name=str(seconds), script="#!/bin/sh\n", resources=wanted, time_limit_s=seconds + 60, qos=qos
        )
        outcome = await site.controller.apply(Submitted(principal=BOB, request=request))
        assert outcome.job is not None
        await site.advance()
        return site.job(outcome.job)

    async def act(site: Site) -> None:
        first = await submit_share(site, 60, qos="low", seconds=HOUR_S)
        second = await submit_share(site, 40, qos="low", seconds=HOUR_S)
        high = await submit_share(site, 30, qos="high", seconds=600)
        await site.advance(10)
        assert site.job(high).state is JobState.RUNNING
        assert (site.job(first).state, site.job(second).restarts) == (JobState.RUNNING, 1), (
            "the job that started later is preempted"
        )
        whole = await site.submit(gpus=1, qos="high", seconds=600)
        await site.advance(700)
        assert site.job(whole).start_at_unix is not None and site.job(first).restarts == 1
        await site.advance(2 * HOUR_S)
        assert site.job(first).state is JobState.COMPLETED and site.job(second).state is JobState.COMPLETED

    on_site(rules, act, gpus=1)
