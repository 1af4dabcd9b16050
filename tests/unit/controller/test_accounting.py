"""What was used is counted anew each minute, and at once where a job ends."""

from __future__ import annotations

import pytest
from tests.core import ANN, Core, ask

from warpdeck.config import build_site, decode
from warpdeck.controller.events import Requeued

HOUR_S = 3600.0
RULES = """
[fairshare]
half_life = "UNLIMITED"
[accounts.lab.users.ann]
"""


def test_use_of_running_jobs_grows_by_the_minute_and_that_of_ended_ones_counts_at_once() -> None:
    core = Core("a")
    core.state.site = rules = build_site(decode(RULES, "f").config)

    def used() -> float:
        return core.state.accounting.charged(core.state, rules, now=core.now).accounts[0].usage

    job_id = core.run(ask(account="lab"))
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


def test_a_requeued_job_is_charged_for_each_of_its_starts_once() -> None:

    core = Core("a")
    core.state.site = rules = build_site(decode(RULES, "f").config)
    job_id = core.run(ask(account="lab"))
    core.now += 61
    core.state.accounting.charged(core.state, rules, now=core.now)
    core.apply(Requeued(who=ANN, jobs=(str(job_id),)))
    core.end(job_id, ended_at=core.now)
    core.launch(core.plan().effects)
    core.now += 5
    found = core.state.accounting.charged(core.state, rules, now=core.now)
    assert found.accounts[0].usage == pytest.approx(61.0)
