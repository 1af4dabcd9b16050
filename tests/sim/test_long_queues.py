"""Long queues: each waiting job has an expected start, or the reason why its start is unknown."""

from __future__ import annotations

import pytest
from tests.sim.test_site_configuration import BOB, HOUR_S, Site, on_site

from warpdeck.controller.events.events import Submitted
from warpdeck.controller.planning.forecast import forecast_row
from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import GpuRequest, Job, Request, Resources
from warpdeck.protocol.job_rows import WhyRow
from warpdeck.protocol.site_rows import ForecastRow

RULES = "[scheduler]\nmax_forecasts = 5\n"


async def queue(site: Site, count: int, **changed: object) -> list[Job]:
    """Return `count` submitted jobs that wait behind one that runs for an hour."""
    await site.submit(gpus=8, seconds=HOUR_S, time_limit_s=HOUR_S)
    resources = Resources(gpus=GpuRequest(per_node=8))
    fields = {"name": "600", "script": "#!/bin/sh\n", "resources": resources, "time_limit_s": 600, **changed}
    jobs = []
    for _ in range(count):
        outcome = await site.controller.apply(Submitted(principal=BOB, request=Request(**fields)))  # type: ignore[arg-type]
        assert outcome.job is not None
        jobs.append(outcome.job)
    await site.advance(20)
    return jobs


def why(site: Site, job: Job) -> WhyRow:
    found = job_row(site.controller.state, site.job(job)).why
    assert found is not None
    return found


def forecast(site: Site, job: Job) -> ForecastRow:
    state, now = site.controller.state, site.controller.clock()
    return forecast_row(build_view(state, now=now), now, state.site.settings, job.id, label="")


@pytest.mark.slow
def test_the_last_job_of_a_long_queue_has_an_estimated_start() -> None:
    async def act(site: Site) -> None:
        begun = site.controller.clock()
        jobs = await queue(site, 100)
        reasons = [why(site, job) for job in jobs]
        assert not reasons[0].rough and reasons[-1].rough
        starts = [each.expected_start or 0.0 for each in reasons]
        for position, start in enumerate(starts):
            assert abs(start - begun - HOUR_S - 600 * position) < 60
        found = forecast(site, jobs[-1])
        assert found.ahead == 99 and found.expected_start is not None
        await site.advance(10 * HOUR_S)
        actual = [site.job(job).start_at_unix or 0.0 for job in jobs[:50]]
        assert all(abs(actual[position] - starts[position]) < 600 for position in range(50))

    on_site(RULES, act)


def test_a_start_behind_jobs_without_a_limit_is_reported_as_unknown() -> None:
    async def act(site: Site) -> None:
        jobs = await queue(site, 20, time_limit_s=None)
        last = why(site, jobs[-1])
        assert last.expected_start is None
        assert last.sentence.endswith("expected start unknown: it waits for jobs without a time limit")
        found = forecast(site, jobs[-1])
        assert found.expected_start is None and found.untold == "it waits for jobs without a time limit"

    on_site(RULES, act)


def test_a_forecast_of_a_held_job_names_the_hold() -> None:
    async def act(site: Site) -> None:
        held = await site.submit(hold=True)
        found = forecast(site, held)
        assert (found.code, found.untold) == ("JobHeldUser", "it is held")

    on_site(RULES, act)
