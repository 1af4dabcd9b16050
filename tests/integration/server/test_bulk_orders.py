"""Commands for many jobs run on a few jobs at a time, so that other requests are served between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.core import ANN, make_request
from tests.support.served import served

from warpdeck.base.errors import UserError
from warpdeck.controller.events.events import Submitted
from warpdeck.engines.native.jobs.orders import ORDERED_AT_ONCE
from warpdeck.model import ArraySpec, JobState
from warpdeck.protocol import requests


async def test_many_tasks_are_cancelled_in_chunks_and_each_once(short_tmp: Path) -> None:
    async with served(short_tmp / "h") as site:
        array = ArraySpec(ranges=((0, 999, 1),))
        await site.controller.apply(Submitted(principal=ANN, request=make_request(array=array, hold=True)))
        before = site.controller.statistics.counters.events
        tasks = [f"1_{2 * number}" for number in range(2 * ORDERED_AT_ONCE + 1)]
        async with await site.client() as client:
            done = await client.ask(requests.Cancel(jobs=(*tasks, "1_1000", *tasks)))
        assert site.controller.statistics.counters.events - before == 3
        cancelled = [job for job in site.controller.state.jobs.values() if job.state is JobState.CANCELLED]
        assert sorted(job.array_task_id or 0 for job in cancelled) == [2 * n for n in range(len(tasks))]
        assert len(done.jobs) == len(tasks) and done.errors == [
            "job 1_1000 is not known (see `warpdeck queue --all`)"
        ]


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("1.7", "step 1.7 is not running (see `warpdeck show 1`)"),
        ("9.0", "job 9 is not known (see `warpdeck queue --all`)"),
        ("1.x", "'1.x' is not a step that can be canceled (use JOB.STEP, such as 12.0)"),
    ],
)
async def test_a_step_that_cannot_be_ended_is_reported_with_the_next_step(
    short_tmp: Path, named: str, text: str
) -> None:
    async with served(short_tmp / "h") as site:
        await site.controller.apply(Submitted(principal=ANN, request=make_request()))
        async with await site.client() as client:
            with pytest.raises(UserError) as refused:
                await client.ask(requests.Cancel(jobs=(named,)))
            assert refused.value.message == text
            assert (await client.ask(requests.Cancel(jobs=(named, "1")))).errors == [text]
