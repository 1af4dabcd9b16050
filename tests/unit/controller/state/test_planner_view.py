"""Unchanged parts of the view are the same objects in the next pass, so they are not computed again."""

from __future__ import annotations

from tests.support.core import ANN, GIB, Core, make_request

from warpdeck.controller.events.events import Cancelled, NodeDrained
from warpdeck.controller.state.measurements import to_reading
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import JobId, NodeName
from warpdeck.policy import PlannerView
from warpdeck_agent.wire import messages as wire


def view_of(core: Core) -> PlannerView:
    return build_view(core.state, now=core.now)


def sample(*processes: wire.GpuProcess, unexplained_bytes: int = 0) -> wire.Sample:
    gpus = [
        wire.GpuSample(index=index, processes=list(processes), unexplained_bytes=unexplained_bytes)
        for index in range(4)
    ]
    return wire.Sample(at_unix=1.0, cpu_pct=0.0, mem_used_bytes=0, gpus=gpus)


def test_only_changed_parts_of_the_view_are_rebuilt() -> None:
    core = Core("a", "b")
    first, second = core.run(make_request(gpus=4)), core.run(make_request(gpus=4))
    waiting = [core.submit(make_request(gpus=4)) for _ in range(3)]
    before = view_of(core)
    core.apply(Cancelled(principal=ANN, jobs=(str(waiting[1]),)))
    core.end(second)
    core.now += 60
    after = view_of(core)
    assert [job.id for job in after.pending] == [waiting[0], waiting[2]]
    assert after.pending[0] is before.pending[0] and after.pending[1] is before.pending[2]
    assert [job.id for job in after.running] == [first] and after.running[0] is before.running[0]
    assert after.nodes is before.nodes
    core.apply(NodeDrained(name=NodeName("a"), reason="fan"))
    drained = view_of(core)
    assert drained.nodes[0].unavailable == "drained: fan" and drained.nodes[1] is after.nodes[1]


def test_equal_resource_requests_are_one_object() -> None:
    core = Core("a")
    core.submit(make_request(gpus=2, hold=True))
    core.submit(make_request(gpus=2, hold=True))
    first, second = view_of(core).pending
    assert first.resources is second.resources


def test_a_measurement_without_effect_on_planning_keeps_the_node_object() -> None:
    core = Core("a")
    name, state = NodeName("a"), core.state
    state.node_status.readings[name] = to_reading(sample())
    before = view_of(core).nodes
    state.node_status.readings[name] = to_reading(sample())
    assert view_of(core).nodes is before
    job_id = core.run(make_request(gpus=4))
    own = wire.GpuProcess(pid=7, mem_bytes=GIB, job_id=job_id)
    state.node_status.readings[name] = to_reading(sample(own))
    assert view_of(core).nodes is before, "a job's own process blocks nothing"
    core.end(JobId(job_id))
    assert "held by job" in view_of(core).nodes[0].gpus[0].blocked, (
        "it has ended, and its process is still there"
    )


def test_unexplained_gpu_memory_blocks_an_unallocated_gpu() -> None:
    core = Core("a")
    core.run(make_request(gpus=3))
    core.state.node_status.readings[NodeName("a")] = to_reading(sample(unexplained_bytes=31 * GIB))
    blocked = [gpu.blocked for gpu in view_of(core).nodes[0].gpus]
    assert sorted(blocked) == ["", "", "", "31.0 GiB of its memory are used by no visible process"]
