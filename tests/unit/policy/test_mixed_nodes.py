"""Nodes with several GPU types: a job that accepts any type keeps the same GPUs for its whole time."""

from __future__ import annotations

import msgspec
from tests.support.builders import node, pending, running, view

from warpdeck.model import GpuRequest, JobId, Resources
from warpdeck.policy import PlannerSettings, plan
from warpdeck.policy.input.view import NodeView

NOW = 1000.0


def mixed() -> NodeView:
    """A node with two GPUs: 0 is an A100, 1 an H100."""
    made = node("a", gpus=2)
    first = msgspec.structs.replace(made.gpus[0], type="a100")
    return msgspec.structs.replace(made, gpus=(first, made.gpus[1]))


def test_a_reservation_of_any_gpu_type_uses_one_gpu_for_the_whole_time() -> None:
    large = Resources(cpus_per_task=32, gpus=GpuRequest(per_node=1, type="a100"))
    jobs = [
        pending(1, resources=large, limit_s=1000),  # its CPUs, and so the A100, are free from 300 on
        pending(2, gpus=1, limit_s=400),
    ]
    held = [running(8, "a", (0,), ends=NOW + 100), running(9, "a", (1,), ends=NOW + 300, cpus=60)]
    made = plan(view([mixed()], jobs, held), NOW, PlannerSettings(reservations=2, queue_order="submission"))
    starts = {each.job_id: each.at_unix - NOW for each in made.reserves}
    assert starts == {JobId(1): 300.0, JobId(2): 300.0}, "one is free from 100 on, but not the same one"
