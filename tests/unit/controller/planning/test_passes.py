"""On a large site, a pass explains new jobs at once and all jobs every TELL_S, without delaying decisions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.core import ANN, ROOT, Core, make_request

from warpdeck.controller.events.effects import Outcome
from warpdeck.controller.events.events import Held, Planned, Released, Submitted, Suspended
from warpdeck.controller.planning.passes import REFRESH_S, SMALL_PASS, Passes, plans_inline
from warpdeck.model import JobId
from warpdeck.policy import Plan

LARGE = SMALL_PASS + 10


class Site:
    """A core with one full node, and passes over it."""

    def __init__(self, waiting: int) -> None:
        self.core = Core("a")
        self.passes = Passes()
        self.first = self.core.run(make_request(gpus=4))
        self.waiting = [self.core.submit(make_request(gpus=4, time_limit_s=600)) for _ in range(waiting)]

    def make(self) -> Plan:
        return self.passes.make(self.core.state, self.core.now)

    def run(self) -> set[JobId]:
        """Run and commit a pass. Return the jobs with a changed explanation."""
        made = self.make()
        self.core.apply(Planned(starts=made.starts))
        return set(self.passes.keep(self.core.state, made))


def test_every_pass_of_a_small_site_explains_all_jobs() -> None:
    site = Site(3)
    assert site.run() == set(site.waiting)
    assert set(site.make().pending_reasons) == set(site.waiting)
    assert site.passes.next_s(site.core.now, most_s=30.0) == 30.0


def test_passes_of_a_large_site_explain_new_jobs_at_once_and_all_soon() -> None:
    site = Site(LARGE)
    assert site.run() == set(site.waiting)
    new = site.core.submit(make_request(gpus=4))
    site.core.now += REFRESH_S / 4
    assert site.run() == {new}
    assert site.core.state.planned.pending_reasons[new].sentence and new in site.core.state.planned.priorities
    assert site.passes.next_s(site.core.now, most_s=30.0) == REFRESH_S * 3 / 4
    site.core.now += REFRESH_S
    assert set(site.make().pending_reasons) == {*site.waiting, new}
    assert site.passes.next_s(site.core.now, most_s=30.0) == 30.0


def test_a_changed_job_is_explained_at_once() -> None:
    site = Site(LARGE)
    site.run()
    job_id = site.waiting[7]
    site.core.apply(Held(principal=ANN, jobs=(str(job_id),)))
    assert site.run() == {job_id}
    assert site.core.state.planned.pending_reasons[job_id].code == "JobHeldUser"


def test_a_job_that_changes_during_a_pass_is_explained_in_the_next() -> None:
    site = Site(LARGE)
    site.run()
    new = site.core.submit(make_request(gpus=4))
    made = site.make()
    site.core.apply(Held(principal=ANN, jobs=(str(new),)))
    site.passes.keep(site.core.state, made)
    assert site.run() == {new}


def test_a_start_does_not_wait_for_explanations() -> None:
    site = Site(LARGE)
    site.run()
    site.core.end(site.first)
    made = site.make()
    assert [start.job_id for start in made.starts] == [site.waiting[0]] and not made.pending_reasons


def test_a_clock_that_was_set_back_stops_no_explanation() -> None:
    site = Site(LARGE)
    site.run()
    site.core.now -= 3600.0
    assert set(site.make().pending_reasons) == set(site.waiting)


@pytest.mark.parametrize(
    ("fields", "answered_first"), [({}, True), ({"hold": True}, False), ({"code_due_unix": 1060.0}, False)]
)
def test_submissions_that_cannot_start_are_answered_before_a_pass(
    fields: dict[str, Any], answered_first: bool
) -> None:
    core = Core("a")
    outcome = core.apply(Submitted(principal=ANN, request=make_request(**fields)))
    assert plans_inline(core.state, [(None, outcome)]) is answered_first
    assert plans_inline(core.state, [(None, outcome), (None, Outcome())])  # other events may let a job start
    assert not plans_inline(core.state, [(None, None)])


@pytest.mark.parametrize("waiting", [3, LARGE])
def test_events_cause_no_pass_if_all_jobs_are_held_and_explained(waiting: int) -> None:
    site = Site(waiting)
    for job_id in site.waiting:
        site.core.apply(Held(principal=ANN, jobs=(str(job_id),)))
    assert site.core.state.reacts_to_events
    assert site.run() == set(site.waiting)
    assert not site.core.state.reacts_to_events
    site.core.apply(Released(principal=ANN, jobs=(str(site.waiting[0]),)))
    site.run()
    assert site.core.state.reacts_to_events


def test_a_held_job_with_a_deadline_is_still_planned() -> None:
    site = Site(0)
    site.core.submit(make_request(hold=True, time_limit_s=60, deadline_unix=site.core.now + 100))
    site.run()
    assert site.core.state.reacts_to_events
    site.core.now += 50
    assert [end.code for end in site.make().ends] == ["DeadLine"]


def test_a_suspended_job_makes_the_planner_react_to_events() -> None:
    site = Site(0)
    site.core.submit(make_request(hold=True))
    site.run()
    assert not site.core.state.reacts_to_events
    site.core.apply(Suspended(principal=ROOT, jobs=(str(site.first),)))
    assert site.core.state.reacts_to_events
