"""The watch of idle GPUs: the decision, and its actions on jobs of a running controller."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.core import ANN, Agent, make_request
from tests.support.served import Served, served

from warpdeck.config import Config
from warpdeck.config.tables import IdleGpuRule, IdleGpus
from warpdeck.controller.events.events import Submitted
from warpdeck.daemon.idle_gpus import IdleGpuWatch, Warned, decide
from warpdeck.model import Job, JobId, JobState
from warpdeck.protocol import requests
from warpdeck_agent.wire import messages as wire

PAUSE = IdleGpus(action="pause", after_s=100, grace_s=50)


@pytest.mark.parametrize(
    ("action", "since", "warned", "due"),
    [
        ("pause", None, None, ""),
        ("pause", 901.0, None, ""),
        ("pause", 900.0, None, "warn"),
        ("pause", 900.0, Warned(960.0, 900.0), ""),
        ("pause", 900.0, Warned(950.0, 900.0), "pause"),
        ("pause", 890.0, Warned(900.0, 700.0), "warn"),
        ("pause", None, Warned(900.0, 700.0), ""),
        ("cancel", 900.0, Warned(950.0, 900.0), "cancel"),
        ("warn", 0.0, Warned(100.0, 0.0), ""),
        ("watch", 900.0, None, "watch"),
        ("watch", 900.0, Warned(950.0, 900.0), ""),
        ("none", 0.0, None, ""),
    ],
)
def test_a_job_is_warned_before_anything_happens_to_it(
    action: str, since: float | None, warned: Warned | None, due: str
) -> None:
    rule = IdleGpus(action=action, after_s=100, grace_s=50)  # type: ignore[arg-type]
    assert decide(rule, since_unix=since, warned=warned, now=1000.0) == due


def test_a_qos_changes_single_keys_of_the_rule() -> None:
    table = IdleGpus(action="warn", after_s=100, grace_s=50, qos={"debug": IdleGpuRule(action="cancel")})
    assert table.rule("normal") is table
    assert table.rule("debug") == IdleGpus(action="cancel", after_s=100, grace_s=50)
    assert IdleGpus(action="warn", qos={"x": IdleGpuRule(grace_s=0)}).rule("x").grace_s == 0


class Site:
    """A controller with two GPU nodes and a watch whose clock can be moved."""

    def __init__(self, site: Served, agents: list[Agent]) -> None:
        self.site = site
        self.agents = agents
        self.ahead_s = 0.0
        controller = site.controller
        self.watch = IdleGpuWatch(controller.state, controller.events, rules=controller.rules, clock=self.now)

    def now(self) -> float:
        return time.time() + self.ahead_s

    async def start(self, **options: Any) -> JobId:
        """Run a job on both nodes."""
        request = make_request(gpus=1, nodes=2, **options)
        outcome = await self.site.controller.apply(Submitted(principal=ANN, request=request))
        assert outcome.job is not None
        job = outcome.job.id
        await self.site.until(lambda: len(self.site.fleet.launches) >= 2)
        for agent in self.agents:
            await self.site.report(agent.name, agent.begin((job, 0)))
        assert self.job(job).state is JobState.RUNNING
        return job

    def job(self, job: JobId) -> Job:
        return self.site.controller.state.jobs[job]

    def tell(self, job: JobId, *since: float | None) -> None:
        """Send samples of the nodes, with the times since which the GPUs of the job are idle."""
        for agent, at in zip(self.agents, since, strict=True):
            idle = [] if at is None else [wire.IdleGpus(job_id=job, since_unix=at)]
            sample = wire.Sample(at_unix=self.now() + 60, cpu_pct=0.0, mem_used_bytes=0, idle_gpus=idle)
            self.site.controller.nodes.post((agent.name, sample))

    def notices(self) -> list[str]:
        return [each.text for each in self.site.fleet.sent if isinstance(each, wire.Notice)]


@asynccontextmanager
async def watched(folder: Path, rule: IdleGpus) -> AsyncIterator[Site]:
    async with served(folder / "h", config=Config(idle_gpus=rule)) as site:
        yield Site(site, [await site.add_node("a"), await site.add_node("b")])


async def test_a_job_is_paused_after_a_warning_and_its_time_of_grace(short_tmp: Path) -> None:
    async with watched(short_tmp, PAUSE) as site:
        job = await site.start()
        since = site.now() - 200
        site.tell(job, since, None)
        await site.watch.look()
        assert not site.notices(), "the GPU of one node is in use"
        site.tell(job, since, since + 150)
        await site.watch.look()
        assert not site.notices(), "all GPUs are idle for 50 seconds only"
        site.tell(job, since, since + 50)
        await site.watch.look()
        assert len(site.notices()) == 1 and "is paused in 00:00:50" in site.notices()[0]
        site.ahead_s = 49
        await site.watch.look()
        assert site.job(job).state is JobState.RUNNING and len(site.notices()) == 1
        site.ahead_s = 51
        await site.watch.look()
        assert (site.job(job).state, site.job(job).requeue_on_exit) == (JobState.COMPLETING, True)
        kills = [each for each in site.site.fleet.sent if isinstance(each, wire.Kill)]
        assert len(kills) == 2 and all(kill.saves for kill in kills)


async def test_use_after_the_warning_begins_everything_anew(short_tmp: Path) -> None:
    async with watched(short_tmp, PAUSE) as site:
        job = await site.start()
        since = site.now() - 200
        site.tell(job, since, since)
        await site.watch.look()
        site.ahead_s = 1000
        site.tell(job, since, since + 1190)
        await site.watch.look()
        assert len(site.notices()) == 1, "a GPU was used ten seconds ago"
        site.ahead_s = 1100
        await site.watch.look()
        assert len(site.notices()) == 2 and site.job(job).state is JobState.RUNNING


async def test_a_job_that_cannot_return_to_the_queue_is_only_warned(short_tmp: Path) -> None:
    async with watched(short_tmp, PAUSE) as site:
        job = await site.start(requeue=False)
        since = site.now() - 200
        site.tell(job, since, since)
        for site.ahead_s in (0, 1000):
            await site.watch.look()
        assert site.job(job).state is JobState.RUNNING
        assert len(site.notices()) == 1 and "end the job if it does not need them" in site.notices()[0]


async def test_a_job_is_canceled_where_the_rule_of_its_qos_says_so(short_tmp: Path) -> None:
    rule = IdleGpus(action="none", after_s=100, grace_s=50, qos={"normal": IdleGpuRule(action="cancel")})
    async with watched(short_tmp, rule) as site:
        job = await site.start()
        since = site.now() - 200
        site.tell(job, since, since)
        for site.ahead_s in (0, 60):
            await site.watch.look()
        assert site.job(job).state is JobState.COMPLETING and not site.job(job).requeue_on_exit


async def test_a_site_that_only_watches_tells_the_user_nothing(short_tmp: Path) -> None:
    async with (
        watched(short_tmp, IdleGpus(action="watch", after_s=100)) as site,
        await site.site.client() as client,
    ):
        job = await site.start()
        since = site.now() - 200
        site.tell(job, since, since)
        for site.ahead_s in (0, 1000):
            await site.watch.look()
        assert site.job(job).state is JobState.RUNNING and not site.notices()
        detail = await client.ask(requests.JobInfo(job=str(job)))
        texts = [event.text for event in detail.events]
        assert sum("the site only watches this" in text for text in texts) == 1, texts
