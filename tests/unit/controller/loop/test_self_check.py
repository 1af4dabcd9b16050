"""The running controller finds and reports violated invariants, and continues."""

from __future__ import annotations

import msgspec
import pytest
from tests.support.core import Core, make_request

from warpdeck.controller.loop.self_check import JOBS_AT_ONCE, SelfCheck
from warpdeck.controller.state.invariants import violations
from warpdeck.model import JobState


def checked(core: Core, *, times: int = 3) -> None:
    """Run several checks. The first covers the jobs present at its creation; later ones start again."""
    check = SelfCheck(core.state)
    for _ in range(times):
        check.run_once()


def test_a_valid_state_produces_no_log_records(caplog: pytest.LogCaptureFixture) -> None:
    core = Core("a", "b")
    core.run()
    core.submit(make_request(hold=True))
    checked(core)
    assert violations(core.state) == []
    assert not caplog.records


@pytest.mark.bugs
def test_a_violation_is_reported_as_a_bug_and_the_check_continues(caplog: pytest.LogCaptureFixture) -> None:
    core = Core("a")
    job_id = core.submit(make_request(hold=True))
    core.state.jobs[job_id] = msgspec.structs.replace(core.job(job_id), state=JobState.COMPLETED)
    checked(core, times=1)
    (record, *_) = caplog.records
    assert record.name == "warpdeck.bugs"
    assert record.getMessage().startswith(f"a bug in the state: job {job_id} must ")
    checked(core, times=1)


@pytest.mark.bugs
def test_a_gpu_held_by_two_jobs_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    core = Core("a")
    first, second = core.run(make_request(gpus=1)), core.run(make_request(gpus=1))
    held = core.job(first).allocation
    core.state.upsert_job(msgspec.structs.replace(core.job(second), allocation=held))
    checked(core, times=1)
    assert any("once" in record.getMessage() for record in caplog.records)


@pytest.mark.bugs
def test_each_job_is_checked_in_turn(caplog: pytest.LogCaptureFixture) -> None:
    core = Core("a")
    jobs = [core.submit(make_request(hold=True)) for _ in range(JOBS_AT_ONCE + 1)]
    for job_id in jobs:
        core.state.jobs[job_id] = msgspec.structs.replace(core.job(job_id), end_at_unix=1.0)
    check = SelfCheck(core.state)
    check.run_once()
    assert len(caplog.records) == JOBS_AT_ONCE
    check.run_once()
    reported = [record.getMessage() for record in caplog.records]
    assert all(f"job {job_id} must" in line for job_id, line in zip(jobs, reported, strict=True))
