"""An unexpected error affects only the job or node that caused it; the controller continues for all others.

The errors here are real: values that the types forbid, as a missing check would let them in.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.core import ANN, make_request
from tests.support.served import QuietFleet, Served, served

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import NodeUp, Reported, Submitted
from warpdeck.model import JobId, JobState, Link, NodeName
from warpdeck.store import SqliteStore
from warpdeck_agent.wire import json_frame
from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.bugs
A = NodeName("a")
WRONG: Any = "no number"
TOO_MUCH = 2**70
"""Larger than any store accepts."""


async def submitted(site: Served, **fields: Any) -> JobId:
    outcome = await site.controller.apply(Submitted(principal=ANN, request=make_request(**fields)))
    assert outcome.job is not None
    return outcome.job.id


async def test_an_event_with_a_bug_changes_nothing_and_is_reported(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        await site.add_node("a")
        job_id = await submitted(site)
        await site.until(lambda: bool(site.fleet.launches))
        before = site.controller.state.jobs[job_id]
        report = wire.JobReport(job_id, 0, phase="running", started_at=WRONG)
        with pytest.raises(UserError, match="an error inside the controller: nothing was changed"):
            await site.report("a", report)
        assert site.controller.state.jobs[job_id] is before
        await site.report("a", wire.JobReport(job_id, 0, phase="running", started_at=1.0))
        assert site.controller.state.jobs[job_id].state is JobState.RUNNING


async def test_a_node_whose_welcome_meets_a_bug_is_down_with_a_reason(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        agent = await site.add_node("a")
        job_id = await submitted(site)
        await site.until(lambda: bool(site.fleet.launches))
        agent.jobs[job_id, 0] = wire.JobReport(job_id, 0, phase="running", started_at=WRONG)
        site.controller.nodes.post((A, agent.welcome()))
        state = site.controller.state
        await site.until(lambda: state.node_status.links[A] is Link.LOST)
        assert "controller's log" in state.node_status.link_reasons[A]
        agent.jobs[job_id, 0] = wire.JobReport(job_id, 0, phase="running", started_at=1.0)
        await site.controller.apply(NodeUp(name=A, welcome=agent.welcome()))
        assert state.jobs[job_id].state is JobState.RUNNING and A not in state.node_status.link_reasons


async def test_a_value_that_cannot_be_stored_refuses_only_its_request(short_tmp: Path) -> None:
    store = await SqliteStore.open(str(short_tmp / "state.db"))
    async with served(short_tmp / "h", store=store) as site:
        agent = await site.add_node("a")
        job_id = await submitted(site)
        await site.until(lambda: bool(site.fleet.launches))
        await site.report("a", agent.begin((job_id, 0)))
        wrong = Reported(name=A, report=wire.JobReport(job_id, 0, phase="exited", peak_mem_bytes=TOO_MUCH))
        requested = [
            asyncio.ensure_future(submitted(site, hold=True)),
            asyncio.ensure_future(site.controller.apply(wrong)),
            asyncio.ensure_future(submitted(site, hold=True)),
        ]
        first, refused, second = await asyncio.gather(*requested, return_exceptions=True)
        assert isinstance(refused, UserError) and "inside the controller" in str(refused)
        assert (first, second) == (2, 3)
        assert site.controller.state.jobs[job_id].state is JobState.RUNNING
        assert [job.id for job in (await store.load(finished_since_unix=0.0)).jobs] == [1, 2, 3]
        await site.report("a", agent.end((job_id, 0)))
        assert site.controller.state.jobs[job_id].state is JobState.COMPLETED
    await store.close()


async def test_a_job_that_cannot_be_planned_does_not_stop_the_others(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        ids = [await submitted(site, gpus=1) for _ in range(5)]
        state = site.controller.state
        broken = state.jobs[ids[2]]
        resources = msgspec.structs.replace(broken.request.resources, nodes_min=WRONG)
        request = msgspec.structs.replace(broken.request, resources=resources)
        state.upsert_job(msgspec.structs.replace(broken, request=request))
        await site.add_node("a")
        await site.until(lambda: state.planned.pending_reasons.get(ids[2], None) is not None)
        await site.until(lambda: len(site.fleet.launches) == 4)
        why = state.planned.pending_reasons[ids[2]]
        assert why.code == "SystemFailure" and "error inside the controller" in why.sentence
        state.upsert_job(broken)  # a different one now
        await site.report("a", wire.JobReport(ids[0], 0, phase="exited"))
        await site.until(lambda: len(site.fleet.launches) == 5)


class FramedFleet(QuietFleet):
    """A fleet that checks that each message is of the right kind and fits into a frame."""

    async def launch(self, name: NodeName, launch: wire.Launch, tree: Any) -> None:
        json_frame(wire.encode(launch))
        await super().launch(name, launch, tree)


@pytest.mark.parametrize(
    ("script", "text"),
    [("#!/bin/sh\n" + "x" * 9_000_000, "too large to be sent to a"), (b"#!/bin/sh\n", "error inside the controller")],
    ids=["too large", "a bug"],
)  # fmt: skip
async def test_a_launch_that_cannot_be_encoded_fails_only_its_job(
    script: Any, text: str, short_tmp: Path
) -> None:
    async with served(short_tmp / "h", fleet=FramedFleet()) as site:
        fleet, control = site.fleet, site.controller
        await site.add_node("a")
        bad = await submitted(site, script=script)
        good = await submitted(site)
        await site.until(lambda: control.state.jobs[bad].is_finished)
        ended = control.state.jobs[bad]
        assert ended.state is JobState.FAILED and ended.exit is not None and text in ended.exit.message
        await site.until(lambda: [launch.job_id for launch in fleet.launches] == [good])
