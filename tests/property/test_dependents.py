"""The cached verdicts about dependent jobs always equal freshly computed ones."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.core import ANN, ROOT, Core, make_request

from warpdeck.base.errors import InvalidTransition, UserError
from warpdeck.controller.events.events import Cancelled, Released, Requeued
from warpdeck.controller.loop.housekeeping import evict_finished
from warpdeck.controller.state.planner_view import build_view
from warpdeck.controller.state.view_cache import ViewCache
from warpdeck.model import ArraySpec, Dependencies, Dependency, JobId, Request
from warpdeck.policy import PlannerView

KINDS = ["after", "afterany", "afterok", "afternotok", "aftercorr", "singleton"]
CLAUSES = st.builds(
    Dependency,
    kind=st.sampled_from(KINDS),
    job_id=st.integers(1, 6).map(JobId),
    task=st.sampled_from([None, None, 1]),
    delay_s=st.sampled_from([0, 5]),
)
DEPENDENCIES = st.builds(
    Dependencies, clauses=st.lists(CLAUSES, min_size=1, max_size=3).map(tuple), any_of=st.booleans()
)
ARRAY = ArraySpec(ranges=((0, 3, 1),))
REQUESTS = st.builds(
    lambda dependencies, array, held: make_request(dependencies=dependencies, array=array, hold=held, gpus=2),
    st.one_of(st.none(), DEPENDENCIES),
    st.sampled_from([None, ARRAY]),
    st.booleans(),
)
STEPS = st.one_of(
    REQUESTS,
    st.tuples(st.sampled_from(["cancel", "release", "requeue", "end", "fail"]), st.integers(1, 9)),
    st.sampled_from(["plan", "later", "evict"]),
)


BEGIN = [
    make_request(hold=True),
    make_request(array=ARRAY, gpus=2),
    make_request(gpus=4),
    *(
        make_request(
            array=ARRAY, dependencies=Dependencies(clauses=(Dependency(kind=kind, job_id=JobId(number)),))
        )
        for number, kind in ((1, "afterok"), (2, "aftercorr"), (2, "afterany"), (3, "afternotok"))
    ),
]
"""The jobs on which others depend, and the dependent jobs."""


def do(core: Core, step: Request | tuple[str, int] | str) -> None:
    match step:
        case Request():
            core.submit(step)
        case ("cancel", number):
            core.apply(Cancelled(principal=ANN, jobs=(str(number),)))
        case ("release", number):
            core.apply(Released(principal=ROOT, jobs=(str(number),)))
        case ("requeue", number):
            core.apply(Requeued(principal=ANN, jobs=(str(number),)))
        case (word, number) if JobId(number) in core.state.jobs:
            if core.job(number).shares:
                core.end(number, exit_code=int(word == "fail"))
        case "plan":
            core.launch(core.plan().effects)
        case "evict":
            evict_finished(core.state, ended_before_unix=core.now)
    core.now += 3.0


def fresh_view(core: Core) -> PlannerView:
    state, kept = core.state, core.state.view_cache
    state.view_cache = ViewCache()
    try:
        return build_view(state, now=core.now)
    finally:
        state.view_cache = kept


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=3, max_size=14))
def test_cached_verdicts_equal_freshly_computed_ones(
    steps: list[Request | tuple[str, int] | str],
) -> None:
    core = Core("a", "b")
    for step in (*BEGIN, *steps):
        with contextlib.suppress(UserError, InvalidTransition):
            do(core, step)
        assert build_view(core.state, now=core.now) == fresh_view(core)


def test_a_change_of_one_dependency_recomputes_its_dependents() -> None:
    core = Core("a")
    firsts = [core.submit(make_request(hold=True)) for _ in range(3)]
    clauses = tuple(Dependency(kind="afterok", job_id=number) for number in firsts)
    waits = [core.submit(make_request(dependencies=Dependencies(clauses=clauses))) for _ in range(2)]

    def waiting_jobs() -> dict[int, object]:
        return {job.id: job for job in build_view(core.state, now=core.now).pending}

    before = waiting_jobs()
    core.submit(make_request())
    assert all(waiting_jobs()[number] is before[number] for number in waits)
    core.apply(Cancelled(principal=ANN, jobs=(str(firsts[2]),)))
    after = waiting_jobs()
    assert all(after[number] != before[number] for number in waits)
