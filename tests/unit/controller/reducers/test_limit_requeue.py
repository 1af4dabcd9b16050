"""Jobs that return to the queue at their time limit (--requeue=limit), and jobs that are paused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.core import ANN, Core, make_request

from warpdeck.controller.events.effects import KillShare
from warpdeck.controller.events.events import Cancelled, Requeued
from warpdeck.model import JobState
from warpdeck.model.request import WarnSignal
from warpdeck_agent.wire import messages as wire

PENDING, TIMEOUT, COMPLETED = JobState.PENDING, JobState.TIMEOUT, JobState.COMPLETED
CHECKPOINT = {"checkpoint_at": 900.0}
AT_LIMIT: dict[str, Any] = {"requeue_at_limit": True}


@pytest.mark.parametrize(
    ("request_fields", "end", "state"),
    [
        (AT_LIMIT, {"cause": "timeout", **CHECKPOINT}, PENDING),
        (AT_LIMIT, {"cause": "timeout"}, TIMEOUT),
        (AT_LIMIT, CHECKPOINT, COMPLETED),
        ({}, {"cause": "timeout", **CHECKPOINT}, TIMEOUT),
        ({**AT_LIMIT, "requeue": False}, {"cause": "timeout", **CHECKPOINT}, TIMEOUT),
    ],
)
def test_a_job_returns_to_the_queue_at_its_limit_if_it_asked_for_it_and_has_checkpointed(
    request_fields: dict[str, Any], end: dict[str, Any], state: JobState
) -> None:
    core = Core("a")
    job_id = core.run(make_request(**request_fields))
    core.end(job_id, **end)
    job = core.job(job_id)
    assert (job.state, job.restarts) == (state, int(state is PENDING))


def test_a_job_without_a_checkpoint_since_its_last_start_ends_at_its_limit() -> None:
    core = Core("a")
    job_id = core.run(make_request(**AT_LIMIT))
    core.end(job_id, cause="timeout", **CHECKPOINT)
    core.launch(core.plan().effects)
    core.end(job_id, cause="timeout")
    assert (core.job(job_id).state, core.job(job_id).restarts) == (TIMEOUT, 1)


@pytest.mark.parametrize(
    ("warn", "asked_s", "grace_s"),
    [
        (None, None, 120.0),
        (WarnSignal(number=10, before_s=45), None, 45.0),
        (WarnSignal(number=10, before_s=0), None, 120.0),
        (WarnSignal(number=10, before_s=45), 7.0, 7.0),
    ],
)
def test_a_paused_job_has_the_time_that_was_asked_for(
    warn: WarnSignal | None, asked_s: float | None, grace_s: float
) -> None:
    core = Core("a")
    job_id = core.run(make_request(warn=warn))
    outcome = core.apply(Requeued(principal=ANN, jobs=(str(job_id),), saves=True, saving_s=asked_s))
    [kill] = [effect for effect in outcome.effects if isinstance(effect, KillShare)]
    assert (kill.saves, kill.grace_s, kill.cause) == (True, grace_s, "requeued")


def test_a_repeated_order_to_save_has_the_time_that_is_left_and_a_cancel_has_none() -> None:
    core = Core("a")
    job_id = core.run(make_request())
    core.apply(Requeued(principal=ANN, jobs=(str(job_id),), saves=True, saving_s=50.0))
    core.now += 20.0
    [again] = [effect for effect in core.up("a").effects if isinstance(effect, KillShare)]
    assert (again.saves, again.grace_s) == (True, 30.0)
    core.apply(Cancelled(principal=ANN, jobs=(str(job_id),)))
    [last] = [effect for effect in core.up("a").effects if isinstance(effect, KillShare)]
    assert (last.saves, last.grace_s) == (False, None)
    core.end(job_id)
    assert (core.job(job_id).state, core.job(job_id).restarts) == (JobState.CANCELLED, 0)


@pytest.mark.parametrize("at_limit", [True, False])
def test_all_nodes_save_their_work_when_the_first_one_says_that_the_limit_has_come(at_limit: bool) -> None:
    core = Core("a", "b")
    job_id = core.run(make_request(nodes=2, requeue_at_limit=at_limit))
    running = wire.JobReport(job_id=job_id, restarts=0, phase="running", pid=1, cause="timeout")
    outcome = core.report("a", running)
    kills = [effect for effect in outcome.effects if isinstance(effect, KillShare)]
    assert sorted((kill.node, kill.saves, kill.cause) for kill in kills) == (
        [("a", True, "timeout"), ("b", True, "timeout")] if at_limit else []
    )
    if at_limit:
        core.end(job_id, cause="timeout", **CHECKPOINT)
        assert (core.job(job_id).state, core.job(job_id).restarts) == (PENDING, 1)
