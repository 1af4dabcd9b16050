"""Preemption, suspension and jobs that can never start, through the real controller over simulated nodes."""

from __future__ import annotations

import msgspec
import pytest
from tests.sim.test_controller import ANN, BOB, Rig, no_gpu_has_two_jobs, ready, request, submit, until

from warpdeck.controller.events.events import Cancelled, Resumed, Submitted, Suspended
from warpdeck.model import Dependencies, JobId, JobState
from warpdeck.notation.values.dependencies import parse_dependencies
from warpdeck.ports.caller import Principal

ROOT = Principal(user="root", uid=0, admin=True)
RULES = """
[scheduler]
preempt_by = "qos"
preempt_mode = "{mode}"
suspend_keeps_gpus = false
[qos.low]
[qos.high]
preempts = ["low"]
"""


@pytest.mark.parametrize(("mode", "restarts"), [("requeue", 1), ("suspend", 0)])
async def test_a_preempted_job_runs_again(mode: str, restarts: int) -> None:
    rig = Rig(21, rules=RULES.format(mode=mode))
    async with rig.controller() as controller:
        await ready(controller)
        jobs = controller.state.jobs
        low = await submit(controller, request("endless", gpus=4, nodes=3, qos="low"))
        await until(controller, lambda: jobs[low.id].state is JobState.RUNNING)
        high = await submit(controller, request(gpus=4, nodes=2, qos="high"), BOB)
        await until(controller, lambda: jobs[high.id].is_finished)
        no_gpu_has_two_jobs(controller)
        assert jobs[high.id].state is JobState.COMPLETED
        await until(controller, lambda: jobs[low.id].state is JobState.RUNNING)
        assert jobs[low.id].restarts == restarts


@pytest.mark.parametrize("mode", ["requeue", "suspend", "cancel"])
async def test_components_preempt_jobs_and_run_on_the_freed_nodes(mode: str) -> None:
    rig = Rig(25, rules=RULES.format(mode=mode))
    async with rig.controller() as controller:
        await ready(controller)
        jobs = controller.state.jobs
        low = [await submit(controller, request("endless", gpus=4, qos="low")) for _ in range(3)]
        await until(controller, lambda: all(jobs[job.id].state is JobState.RUNNING for job in low))
        parts = (request(gpus=4, qos="high"), request(gpus=4, qos="high"))
        outcome = await controller.apply(Submitted(principal=BOB, request=parts[0], components=parts[1:]))
        assert outcome.job is not None
        both = [outcome.job.id, JobId(outcome.job.id + 1)]
        await until(controller, lambda: all(jobs[number].preempted_claim is not None for number in both))
        claims = [jobs[number].preempted_claim for number in both]
        await until(controller, lambda: all(jobs[number].is_finished for number in both))
        assert all(jobs[number].state is JobState.COMPLETED for number in both)
        ran_on = [share.node for number in both for share in jobs[number].shares]
        assert ran_on == [name for claim in claims if claim for name in claim.nodes]
        no_gpu_has_two_jobs(controller)
        stayed = [job for job in low if not jobs[job.id].restarts and jobs[job.id].state is JobState.RUNNING]
        assert mode == "suspend" or len(stayed) == 1


async def test_a_job_preempted_by_cancellation_ends_as_preempted() -> None:
    rig = Rig(22, rules=RULES.format(mode="cancel"))
    async with rig.controller() as controller:
        await ready(controller)
        jobs = controller.state.jobs
        low = await submit(controller, request("endless", gpus=4, nodes=3, qos="low"))
        await until(controller, lambda: jobs[low.id].state is JobState.RUNNING)
        await submit(controller, request(gpus=4, qos="high"), BOB)
        await until(controller, lambda: jobs[low.id].is_finished)
        assert jobs[low.id].state is JobState.PREEMPTED


async def test_a_suspension_by_an_admin_survives_a_killed_controller() -> None:
    rig = Rig(23)
    async with rig.controller() as controller:
        await ready(controller)
        job = await submit(controller, request("endless", gpus=4))
        await until(controller, lambda: controller.state.jobs[job.id].state is JobState.RUNNING)
        await controller.apply(Suspended(principal=ROOT, jobs=(str(job.id),)))
    async with rig.controller() as controller:
        jobs = controller.state.jobs
        assert jobs[job.id].state is JobState.SUSPENDED
        await ready(controller)
        node = next(node for node in rig.nodes if (job.id, 0) in node.reports)
        await until(controller, lambda: node.reports[job.id, 0].suspended)
        await controller.apply(Resumed(principal=ROOT, jobs=(str(job.id),)))
        await until(controller, lambda: not node.reports[job.id, 0].suspended)
        await controller.apply(Suspended(principal=ROOT, jobs=(str(job.id),)))
        await controller.apply(Cancelled(principal=ANN, jobs=(str(job.id),)))
        await until(controller, lambda: jobs[job.id].state is JobState.CANCELLED)


async def test_a_job_that_depends_on_a_failure_ends_unless_it_opted_out() -> None:
    rig = Rig(24)
    async with rig.controller() as controller:
        await ready(controller)
        jobs = controller.state.jobs
        first = await submit(controller, request("fails"))
        after = msgspec.convert(parse_dependencies(f"afterok:{first.id}"), Dependencies)
        ends = await submit(controller, request(dependencies=after))
        stays = await submit(controller, request(dependencies=after, kill_on_invalid_dep=False))
        await until(controller, lambda: jobs[ends.id].is_finished)
        ended = jobs[ends.id]
        assert ended.state is JobState.CANCELLED and ended.exit is not None
        assert "depends on the success of job" in ended.exit.message
        await until(controller, lambda: stays.id in controller.state.planned.pending_reasons)
        await until(
            controller,
            lambda: controller.state.planned.pending_reasons[stays.id].code == "DependencyNeverSatisfied",
        )
        assert jobs[stays.id].state is JobState.PENDING
