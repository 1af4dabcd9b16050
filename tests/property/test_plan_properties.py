"""Invariants of the planner over random clusters and queues."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import invariants
from tests.support.builders import node, pending, view

from warpdeck.policy import NodeView, PendingJob, Plan, PlannerSettings, PlannerView, RunningJob, plan

NOW = 1000.0

nodes_of = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["h100", "a100"]), st.integers(1, 8), st.booleans()),
    min_size=1,
    max_size=4,
)
jobs_of = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 3),
        st.sampled_from([None, 60, 600, 3600]),
        st.integers(0, 3),
        st.booleans(),
    ),
    max_size=12,
)


def cluster(raw: list[tuple[int, str, int, bool]]) -> list[NodeView]:
    return [
        node(f"n{index}", gpus=gpus, gpu_type=kind, cpus=cpus, unavailable="drained" if out else "")
        for index, (gpus, kind, cpus, out) in enumerate(raw)
    ]


def queue(raw: list[tuple[int, int, int | None, int, bool]]) -> list[PendingJob]:
    return [
        pending(
            number, gpus=gpus, nodes=count, limit_s=limit, held=held, tasks=((0, tasks, 1),) if tasks else ()
        )
        for number, (gpus, count, limit, tasks, held) in enumerate(raw, start=1)
    ]


def run_on(current: PlannerView, made: Plan) -> PlannerView:
    """Return the view after the plan, with the remaining jobs."""
    ends = {job.id: job.time_limit_s for job in current.pending}
    begun = [
        RunningJob(
            id=start.job_id,
            array_job_id=start.job_id,
            allocation=start.allocation,
            ends_by_unix=None if ends[start.job_id] is None else NOW + (ends[start.job_id] or 0),
        )
        for start in made.starts
    ]
    left = {start.job_id for start in made.starts}
    waiting = tuple(job for job in current.pending if job.id not in left)
    return msgspec.structs.replace(current, running=current.running + tuple(begun), pending=waiting)


@settings(max_examples=150, deadline=None)
@given(nodes_of, jobs_of)
def test_every_plan_keeps_the_invariants(
    raw_nodes: list[tuple[int, str, int, bool]], raw_jobs: list[tuple[int, int, int | None, int, bool]]
) -> None:
    current = view(cluster(raw_nodes), queue(raw_jobs))
    made = plan(current, NOW, PlannerSettings())
    for holds in invariants.ALL:
        holds(current, made)
    second = run_on(current, made)
    again = plan(second, NOW, PlannerSettings())
    for holds in invariants.ALL:
        holds(second, again)


@settings(max_examples=60, deadline=None)
@given(nodes_of, jobs_of)
def test_equal_inputs_give_equal_plans(
    raw_nodes: list[tuple[int, str, int, bool]], raw_jobs: list[tuple[int, int, int | None, int, bool]]
) -> None:
    current = view(cluster(raw_nodes), queue(raw_jobs))
    assert plan(current, NOW, PlannerSettings()) == plan(current, NOW, PlannerSettings())


@settings(max_examples=150, deadline=None)
@given(nodes_of, jobs_of)
def test_backfill_never_delays_the_first_job(
    raw_nodes: list[tuple[int, str, int, bool]], raw_jobs: list[tuple[int, int, int | None, int, bool]]
) -> None:
    current = view(cluster(raw_nodes), queue([job[:3] + (0, False) for job in raw_jobs]))
    made = plan(current, NOW, PlannerSettings())
    if not made.reserves:
        return
    head = made.reserves[0]
    after = run_on(current, made)
    alone = msgspec.structs.replace(
        after, pending=tuple(job for job in after.pending if job.id == head.job_id)
    )
    again = plan(alone, NOW, PlannerSettings())
    assert not again.starts
    assert again.reserves[0].at_unix <= head.at_unix
