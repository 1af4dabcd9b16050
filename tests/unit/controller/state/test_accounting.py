"""Usage is counted each minute, and immediately when a job ends."""

from __future__ import annotations

import pytest
from tests.support.core import ANN, Core, make_request

from warpdeck.config import build_site, decode
from warpdeck.controller.events.events import Requeued

HOUR_S = 3600.0
RULES = """
[fairshare]
half_life = "UNLIMITED"
[accounts.lab.users.ann]
"""


def test_usage_of_running_jobs_grows_each_minute_and_of_ended_jobs_at_once() -> None:
    core = Core("a")
    core.state.site = rules = build_site(decode(RULES, "f").config)

    def used() -> float:
        return core.state.accounting.charged(core.state, rules, now=core.now).accounts[0].usage

    job_id = core.run(make_request(account="lab"))
    assert used() == 0.0
    core.now += 30
    assert used() == 0.0, "counted before its time"
    core.now += 30
    assert used() == pytest.approx(60.0)
    core.now += 10
    core.end(job_id, ended_at=core.now)
    assert used() == pytest.approx(70.0)
    core.now += HOUR_S
    assert used() == pytest.approx(70.0), "use is forgotten, where it should be kept for ever"


def test_a_requeued_job_is_charged_once_for_each_start() -> None:

    core = Core("a")
    core.state.site = rules = build_site(decode(RULES, "f").config)
    job_id = core.run(make_request(account="lab"))
    core.now += 61
    core.state.accounting.charged(core.state, rules, now=core.now)
    core.apply(Requeued(principal=ANN, jobs=(str(job_id),)))
    core.end(job_id, ended_at=core.now)
    core.launch(core.plan().effects)
    core.now += 5
    found = core.state.accounting.charged(core.state, rules, now=core.now)
    assert found.accounts[0].usage == pytest.approx(61.0)


def test_a_budget_of_minutes_is_never_exceeded() -> None:
    text = RULES.replace("[accounts.lab.users.ann]", "[accounts.lab]\ngrp_wall = '2:00:00'\nusers.ann = {}")
    core = Core("a")
    rules = build_site(decode(text, "f").config)
    for step in range(40):
        core.state.site = core.state.accounting.charged(core.state, rules, now=core.now)
        core.submit(make_request(account="lab", time_limit_s=600))
        core.launch(core.plan().effects)
        core.now += 37 + step  # between the counts, which happen each minute
        for job_id in list(core.state.index.active):
            ends = core.job(job_id).ends_by_unix()
            if ends is not None and ends <= core.now:
                core.end(job_id, cause="timeout", ended_at=ends)
    core.now += 3600
    for job_id in list(core.state.index.active):
        core.end(job_id, cause="timeout", ended_at=core.job(job_id).ends_by_unix())
    used = sum(job.ran_s() or 0.0 for job in core.state.jobs.values())
    assert used == 7200.0, "all of it is used, and no second more"
