"""The events of nodes and the use of GPUs over a range of time, as clients get them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.core import make_request
from tests.support.served import Raw, Served, served

from warpdeck.controller.events.events import NodeDrained, NodeLost, NodeResumed, Submitted
from warpdeck.engines.shared.timeline import GpuUse, node_events
from warpdeck.model import Condition, NodeName
from warpdeck.ports.caller import Principal
from warpdeck_agent.wire import messages as wire

ANN = Principal(user="ann", uid=4001)


@pytest.fixture
async def site(short_tmp: Path) -> AsyncIterator[Served]:
    async with served(short_tmp / "home") as served_site:
        for name in ("a", "b"):
            await served_site.add_node(name)
        yield served_site


@pytest.fixture
async def raw(site: Served) -> AsyncIterator[Raw]:
    new_raw = await Raw.connect(site.paths)
    yield new_raw
    await new_raw.close()


async def test_drains_outages_and_large_jobs_are_events_of_the_timeline(site: Served, raw: Raw) -> None:
    since = time.time()
    outcome = await site.controller.apply(
        Submitted(principal=ANN, request=make_request(gpus=3, name="vit-l"))
    )
    assert outcome.job is not None
    await site.until(lambda: len(site.fleet.launches) > 0)
    job = int(outcome.job.id)
    started = time.time()
    await site.report("a", wire.JobReport(job, 0, phase="running", started_at=started))
    await site.controller.apply(NodeDrained(name=NodeName("a"), reason="a fan"))
    await site.controller.apply(NodeResumed(name=NodeName("a")))
    await site.controller.apply(NodeLost(name=NodeName("b"), reason="no route"))
    answer = await raw.request("timeline", since=since, until=time.time() + 60, steps=4)
    told: dict[str, Any] = answer["result"]
    events = [(event["kind"], event["node"], event["text"]) for event in told["events"]]
    assert events[-3:] == [("drain", "a", "a fan"), ("resume", "a", ""), ("down", "b", "no route")]
    [start] = [event for event in told["events"] if event["kind"] == "job"]
    assert (start["job"], start["user"], start["gpus"], start["node"], start["text"]) == (
        str(job),
        "ann",
        3,
        "a",
        "vit-l",
    )
    assert told["gpus"] == 8 and len(told["allocated"]) == len(told["util_pct"]) == 4
    assert 0 < max(told["allocated"]) <= 3 and not told["is_partial"]


@pytest.mark.parametrize(
    ("since", "until", "error"),
    [(100.0, 100.0, "is empty"), (2e11, 3e11, "is empty"), (0.0, 1e9, "too long")],
)
async def test_a_range_that_is_empty_or_too_long_is_refused(
    raw: Raw, since: float, until: float, error: str
) -> None:
    answer = await raw.request("timeline", since=since, until=until)
    assert answer["t"] == "error" and error in answer["message"]


def test_a_job_counts_only_while_it_runs_and_inside_the_range() -> None:
    use = GpuUse(100.0, 140.0, steps=4)
    use.add(50.0, 115.0, gpus=4, util_pct=50.0)
    use.add(110.0, 200.0, gpus=2, util_pct=None)
    assert use.allocated == [4.0, 4.0, 2.0, 2.0]
    assert use.util_pct == [50.0, 50.0, None, None]


def test_a_condition_before_the_range_is_no_event_but_its_end_is_one() -> None:
    def at(seconds: float, **fields: Any) -> Condition:
        return Condition(node=NodeName("a"), at_unix=seconds, **fields)

    drained = at(10.0, drained=True, reason="disk")
    both = at(30.0, drained=True, reason="disk", down=True, down_reason="no route")
    events = node_events([drained, both, at(40.0)], 20.0)
    assert [(event.at, event.kind, event.text) for event in events] == [
        (30.0, "down", "no route"),
        (40.0, "up", ""),
        (40.0, "resume", ""),
    ]
