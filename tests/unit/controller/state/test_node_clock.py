"""Accounting uses the controller's clock and ignores the nodes' clocks."""

from __future__ import annotations

import pytest
from tests.support.core import Core

from warpdeck.controller.events.events import HealthReported
from warpdeck.model import JobState, NodeName
from warpdeck_agent.wire import messages as wire

A = NodeName("a")
HOUR = 3600.0


def ran(core: Core, *, began: float, ended: float, took: float) -> tuple[float, float]:
    """Return start and end of a job with these times by the node's clock. It took `took` seconds by our clock."""
    job_id = core.submit()
    core.plan()
    core.report("a", wire.JobReport(job_id, 0, phase="running", started_at=began))
    core.now += took
    core.report("a", wire.JobReport(job_id, 0, phase="exited", started_at=began, ended_at=ended))
    job = core.job(job_id)
    assert job.state is JobState.COMPLETED
    assert job.start_at_unix is not None and job.end_at_unix is not None
    return job.start_at_unix - core.now, job.end_at_unix - core.now


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR])
def test_a_node_clock_that_jumps_does_not_change_the_run_time(jump: float) -> None:
    core = Core("a")
    assert ran(core, began=core.now, ended=core.now + 12 + jump, took=12) == (-12, 0)


def test_a_start_in_the_future_is_moved_to_the_present() -> None:
    core = Core("a")
    ahead = core.now + HOUR
    assert ran(core, began=ahead, ended=ahead + 12, took=12) == (-12, 0)


def test_an_end_that_is_reported_late_counts_at_its_own_time() -> None:
    core = Core("a")
    assert ran(core, began=core.now, ended=core.now + 12, took=HOUR) == (-HOUR, 12 - HOUR)


@pytest.mark.parametrize("off", [2 * HOUR, -2 * HOUR])
def test_times_of_a_node_with_a_known_clock_difference_are_corrected(off: float) -> None:
    core = Core("a")
    job_id = core.submit()
    core.plan()
    health = wire.Health(at_unix=core.now + off, asked_at_unix=core.now, checks=[])
    core.apply(HealthReported(name=A, health=health, received_unix=core.now))
    began = core.now + off
    core.report("a", wire.JobReport(job_id, 0, phase="running", started_at=began))
    core.now += 3 * HOUR
    core.report("a", wire.JobReport(job_id, 0, phase="exited", started_at=began, ended_at=began + HOUR))
    job = core.job(job_id)
    assert (job.start_at_unix, job.end_at_unix) == (core.now - 3 * HOUR, core.now - 2 * HOUR)
