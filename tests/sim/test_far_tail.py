"""However long the queue: every job that waits has a start that is to be expected, or is told why none can be told."""

from __future__ import annotations

import pytest
from tests.sim.test_site import BOB, HOUR_S, Site, on_site

from warpdeck.controller.events.events import Submitted
from warpdeck.controller.planning.forecast import forecast_row
from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import GpuRequest, Job, Request, Resources
from warpdeck.protocol.job_rows import WhyRow
from warpdeck.protocol.site_rows import ForecastRow

RULES = "[scheduler]\nmax_forecasts = 5\n"


async def queue(site: Site, count: int, **asked: object) -> list[Job]:
    """So many jobs behind one that runs for an hour."""
    await site.submit(gpus=8, seconds=HOUR_S, time_limit_s=HOUR_S)
    resources = Resources(gpus=GpuRequest(per_node=8))
    fields = {"name": "600", "script": "#!/bin/sh\n", "resources": resources, "time_limit_s": 600, **asked}
    jobs = []
    for _ in range(count):
        outcome = await site.controller.apply(Submitted(principal=BOB, request=Request(**fields)))  # type: ignore[arg-type]
        assert outcome.job is not None
        jobs.append(outcome.job)
    await site.later(20)
    return jobs


def why(site: Site, job: Job) -> WhyRow:
    found = job_row(site.controller.state, site.now(job)).why
    assert found is not None
    return found


def forecast(site: Site, job: Job) -> ForecastRow:
    state, now = site.controller.state, site.controller.clock()
    return forecast_row(build_view(state, now=now), now, state.site.settings, job.id, label="")


@pytest.mark.slow
def test_the_last_of_a_long_queue_has_a_start_too_and_it_says_how_it_was_found() -> None:
    async def act(site: Site) -> None:
        begun = site.controller.clock()
        jobs = await queue(site, 100)
        told = [why(site, job) for job in jobs]
        assert not told[0].rough and told[-1].rough
        starts = [each.expected_start or 0.0 for each in told]
        for place, start in enumerate(starts):
            assert abs(start - begun - HOUR_S - 600 * place) < 60
        found = forecast(site, jobs[-1])
        assert found.ahead == 99 and found.expected_start is not None
        await site.later(10 * HOUR_S)
        came = [site.now(job).start_at_unix or 0.0 for job in jobs[:50]]
        assert all(abs(came[place] - starts[place]) < 600 for place in range(50))

    on_site(RULES, act)


def test_where_endless_jobs_are_in_the_way_that_is_said() -> None:
    async def act(site: Site) -> None:
        jobs = await queue(site, 20, time_limit_s=None)
        last = why(site, jobs[-1])
        assert last.expected_start is None
        assert last.sentence.endswith("expected start unknown: it waits for jobs without a time limit")
        found = forecast(site, jobs[-1])
        assert found.expected_start is None and found.untold == "it waits for jobs without a time limit"

    on_site(RULES, act)


def test_who_waits_for_something_else_than_room_is_told_what() -> None:
    async def act(site: Site) -> None:
        held = await site.submit(hold=True)
        found = forecast(site, held)
        assert (found.code, found.untold) == ("JobHeldUser", "it is held")

    on_site(RULES, act)
