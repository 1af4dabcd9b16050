"""A job that a node suspects to hang is examined, and its verdict is recorded and withdrawn. The time is virtual."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, cast

import pytest
from tests.support.core import Core, make_request

from warpdeck.base.errors import RemoteError
from warpdeck.config import Config
from warpdeck.config.tables import Scheduler
from warpdeck.controller.events.effects import ShowNotice
from warpdeck.controller.events.events import HANG, HangJudged
from warpdeck.controller.loop.hang_watch import CHECK_S, LOOKS, HangWatch
from warpdeck.controller.state.measurements import to_reading
from warpdeck.model import JobId, NodeName
from warpdeck.sim.virtualtime import run_virtual
from warpdeck_agent.wire import messages as wire

WAITS = [wire.Frame("all_reduce", "distributed_c10d.py", 1, is_library=True)]
LOADS = [wire.Frame("load_batch", "train.py", 41)]
LONG_S = 600.0


class Rounds(asyncio.Event):
    """An event that counts the rounds of the watch, each of which clears it."""

    rounds = 0

    def clear(self) -> None:
        self.rounds += 1
        super().clear()


class Site:
    """Two nodes with a rank each. `hangs` tells whether the second rank has left the collective for good."""

    def __init__(self, *, hang_after_s: int = 180) -> None:
        self.core = Core("a", "b")
        self.job = self.core.run(make_request(nodes=2))
        self.config = Config(scheduler=Scheduler(hang_after_s=hang_after_s))
        self.stalls = Rounds()
        self.asked = 0
        self.is_cut = False
        self.moves = False

    async def evidence(self, name: NodeName, request: wire.AskEvidence) -> wire.Evidence:
        if self.is_cut and name == "b":
            raise RemoteError(name, "cut")
        self.asked += 1
        frames = WAITS if name == "a" else LOADS
        if self.moves:
            frames = [dataclasses.replace(frames[0], line=self.asked)]
        label = "0" if name == "a" else "1"
        return wire.Evidence(ask=0, ranks=[wire.RankEvidence(label, 7, frames=frames)])

    def put(self, event: HangJudged) -> None:
        self.core.apply(event)

    def hear(self, quiet_s: float | None, *, node: str = "a", job: JobId | None = None) -> None:
        """Receive samples of both nodes; `node` suspects the job if `quiet_s` is not None."""
        stall = wire.Stall(job or self.job, 0, quiet_s or 0.0)
        for name in ("a", "b"):
            stalls = [stall] if quiet_s is not None and name == node else []
            sample = wire.Sample(at_unix=1.0, cpu_pct=0.0, mem_used_bytes=0, stalls=stalls)
            self.core.state.node_status.readings[NodeName(name)] = to_reading(sample)
        if quiet_s is not None:
            self.stalls.set()

    @property
    def notice(self) -> str:
        return self.core.job(self.job).notice

    async def watch(self, during_s: float) -> None:
        """Run the watch for some time."""
        watch = HangWatch(
            self.core.state,
            cast("Any", self),
            fleet=cast("Any", self),
            rules=cast("Any", self),
            clock=asyncio.get_running_loop().time,
            stalls=self.stalls,
        )
        task = asyncio.ensure_future(watch.run())
        await asyncio.sleep(during_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def verdict_of(site: Site, **heard: Any) -> str:
    """Return the notice after a suspicion has been examined."""
    site.hear(**{"quiet_s": 240.0, **heard})
    await site.watch(LONG_S)
    return site.notice


def test_a_suspected_job_gets_a_verdict_once_and_loses_it_when_no_node_suspects_it() -> None:
    async def main() -> None:
        site = Site()
        assert "rank 1 on b is not in all_reduce: it is in load_batch (train.py:41)" in await verdict_of(site)
        assert site.asked == 2 * LOOKS
        await site.watch(LONG_S)
        assert site.asked == 2 * LOOKS, "a restarted controller does not examine it again"
        site.hear(None)
        await site.watch(LONG_S)
        assert site.notice == ""

    run_virtual(main())


@pytest.mark.parametrize(
    ("settings", "heard", "asked"),
    [
        ({}, {"quiet_s": 100.0}, 0),
        ({"hang_after_s": 0}, {}, 0),
        ({}, {"job": JobId(99)}, 0),
        ({"hang_after_s": 100}, {"quiet_s": 100.0}, 2 * LOOKS),
    ],
    ids=["not yet", "switched off", "an unknown job", "the site's time"],
)
def test_the_site_decides_when_a_job_is_examined(
    settings: dict[str, int], heard: dict[str, Any], asked: int
) -> None:
    async def main() -> None:
        site = Site(**settings)
        assert bool(await verdict_of(site, **heard)) is bool(asked)
        assert site.asked == asked

    run_virtual(main())


@pytest.mark.parametrize("reason", ["moves", "is_cut"])
def test_a_job_that_moves_or_cannot_be_asked_gets_no_verdict_and_is_asked_again_later(reason: str) -> None:
    async def main() -> None:
        site = Site()
        setattr(site, reason, True)
        assert await verdict_of(site) == ""
        seen = site.asked
        assert seen and (await verdict_of(site), site.asked) == ("", 2 * seen)
        setattr(site, reason, False)
        assert await verdict_of(site, quiet_s=400.0)

    run_virtual(main())


def test_a_node_without_a_share_of_the_job_is_not_believed() -> None:
    async def main() -> None:
        site = Site()
        site.core.state.node_status.readings[NodeName("c")] = to_reading(
            wire.Sample(at_unix=1.0, cpu_pct=0.0, mem_used_bytes=0, stalls=[wire.Stall(site.job, 0, LONG_S)])
        )
        site.stalls.set()
        await site.watch(LONG_S)
        assert not site.asked

    run_virtual(main())


def test_the_watch_sleeps_without_a_suspicion() -> None:
    async def main() -> None:
        site = Site()
        await site.watch(100 * CHECK_S)
        assert site.stalls.rounds == 0
        await verdict_of(site)
        assert site.stalls.rounds > 10, "the verdict is watched"

    run_virtual(main())


def test_a_verdict_is_told_once() -> None:
    site = Site()
    judged = HangJudged(job_id=site.job, restarts=0, sentence=HANG + "all wait")
    outcome = site.core.apply(judged)
    assert [effect.text for effect in outcome.effects if isinstance(effect, ShowNotice)] == [
        "the job makes no progress: all wait"
    ]
    assert not site.core.apply(judged).effects, "it is told once"
