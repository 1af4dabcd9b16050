"""A plan with a pass cache equals one without it, after any events and with few explained jobs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.pass_player import started_job
from tests.property.random_sites import LENGTHS, nodes_of, queue_of, running_on, settings_of, site_of
from tests.property.random_tables import NOW, tables_of

from warpdeck.model import JobId
from warpdeck.policy import PassCache, Plan, PlannerSettings, PlannerView, Weights, plan

EXAMPLES = 60
STEPS = 8
seeds = st.integers(0, 2**32)


def replaced(view: PlannerView, **fields: object) -> PlannerView:
    return msgspec.structs.replace(view, **fields)


def next_id(view: PlannerView) -> int:
    return max([*(job.id for job in view.pending), *(job.id for job in view.running)], default=0) + 1


def one_submitted(rng: Random, view: PlannerView) -> PlannerView:
    """Add a waiting job of an existing kind or a new one."""
    (new,) = queue_of(rng, most=1)
    number = JobId(next_id(view))
    resources = rng.choice(view.pending).resources if view.pending and rng.random() < 0.6 else new.resources
    new = msgspec.structs.replace(
        new, id=number, array_job_id=number, label=str(number), resources=resources, eligible_at_unix=NOW
    )
    return replaced(view, pending=(*view.pending, new))


def some_removed(rng: Random, view: PlannerView) -> PlannerView:
    return replaced(view, pending=tuple(job for job in view.pending if rng.random() < 0.8))


def one_updated(rng: Random, view: PlannerView) -> PlannerView:
    changed = rng.randrange(max(1, len(view.pending)))
    pending = list(view.pending)
    for at in range(changed, min(changed + 1, len(pending))):
        pending[at] = msgspec.structs.replace(
            pending[at], nice=rng.randint(-3, 3), held=rng.random() < 0.2, time_limit_s=rng.choice(LENGTHS)
        )
    return replaced(view, pending=tuple(pending))


def equal_values_as_new_objects(rng: Random, view: PlannerView) -> PlannerView:
    return replaced(
        view,
        nodes=tuple(msgspec.structs.replace(node) for node in view.nodes),
        running=tuple(msgspec.structs.replace(job) for job in view.running),
        pending=tuple(
            msgspec.structs.replace(job, resources=msgspec.structs.replace(job.resources))
            for job in view.pending
        ),
    )


def some_ended(rng: Random, view: PlannerView) -> PlannerView:
    return replaced(view, running=tuple(job for job in view.running if rng.random() < 0.7))


def other_running_jobs(rng: Random, view: PlannerView) -> PlannerView:
    return replaced(view, running=running_on(rng, view.nodes))


def one_node_changed(rng: Random, view: PlannerView) -> PlannerView:
    nodes = list(view.nodes)
    at = rng.randrange(len(nodes))
    gpus = tuple(
        msgspec.structs.replace(gpu, blocked="ill" if rng.random() < 0.3 else "") for gpu in nodes[at].gpus
    )
    out = rng.choice(["", "", "drained", "does not answer"])
    nodes[at] = msgspec.structs.replace(nodes[at], unavailable=out, gpus=gpus)
    return replaced(view, nodes=tuple(nodes))


def one_node_upgraded(rng: Random, view: PlannerView) -> PlannerView:
    nodes = list(view.nodes)
    at = rng.randrange(len(nodes))
    features = frozenset(each for each in ("ib", "new", "old") if rng.random() < 0.5)
    nodes[at] = msgspec.structs.replace(
        nodes[at], features=features, weight=rng.randint(1, 2), mem_bytes=nodes[at].mem_bytes + 2**30
    )
    return replaced(view, nodes=tuple(nodes))


def other_nodes(rng: Random, view: PlannerView) -> PlannerView:
    nodes = nodes_of(rng)
    return replaced(view, nodes=nodes, running=running_on(rng, nodes))


def other_tables(rng: Random, view: PlannerView) -> PlannerView:
    return replaced(view, **tables_of(rng, view.nodes))


def usage_was_charged(rng: Random, view: PlannerView) -> PlannerView:
    accounts = tuple(
        msgspec.structs.replace(each, usage=each.usage + rng.random() * 1000) for each in view.accounts
    )
    return replaced(view, accounts=accounts)


CHANGES: tuple[Callable[[Random, PlannerView], PlannerView], ...] = (
    one_submitted,
    one_submitted,
    some_removed,
    one_updated,
    equal_values_as_new_objects,
    some_ended,
    some_ended,
    other_running_jobs,
    one_node_changed,
    one_node_changed,
    one_node_upgraded,
    other_nodes,
    other_tables,
    other_tables,
    usage_was_charged,
)


def started(view: PlannerView, made: Plan, now: float) -> PlannerView:
    """Return the view in which the jobs started by the plan run."""
    waiting = {job.id: job for job in view.pending}
    fresh = [
        started_job(waiting.pop(start.job_id), start, now) for start in made.starts if start.job_id in waiting
    ]
    running = sorted((*view.running, *fresh), key=lambda job: job.id)
    return replaced(view, running=tuple(running), pending=tuple(waiting.values()))


def decisions(made: Plan) -> tuple[object, ...]:
    return made.starts, made.reserves, made.preempts, made.resumes, made.ends, made.more


def check_partial_explanations(
    rng: Random, view: PlannerView, made: Plan, now: float, chosen: PlannerSettings
) -> None:
    """Check that decisions and explanations are the same.

    Expected starts without a reservation may differ.
    """
    few = [job.id for job in view.pending if rng.random() < 0.4]
    brief = plan(view, now, chosen, explain_only=few)
    assert decisions(brief) == decisions(made)
    assert brief.priorities == {job_id: made.priorities[job_id] for job_id in few}
    assert brief.pending_reasons.keys() == made.pending_reasons.keys() & set(few)
    for job_id, why in brief.pending_reasons.items():
        assert (why.code, why.sentence) == (
            made.pending_reasons[job_id].code,
            made.pending_reasons[job_id].sentence,
        )
        assert why.expected_start_unix in (None, made.pending_reasons[job_id].expected_start_unix)


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(seeds)
def test_a_pass_cache_changes_the_speed_of_a_plan_but_not_the_plan(seed: int) -> None:
    rng = Random(seed)
    view, chosen = site_of(rng)
    view = replaced(view, pending=queue_of(rng, most=40))
    chosen = msgspec.structs.replace(
        chosen,
        weights=rng.choice([Weights(), Weights(age=1000, fairshare=3000, job_size=50, tres={"cpu": 7.0})]),
    )
    cache, now = PassCache(), NOW
    for _ in range(STEPS):
        made = plan(view, now, chosen, cache=cache)
        assert made == plan(view, now, chosen)
        check_partial_explanations(rng, view, made, now, chosen)
        if rng.random() < 0.6:
            view = started(view, made, now)
        for change in rng.sample(CHANGES, rng.choice([0, 1, 1, 2])):
            view = change(rng, view)
        now += rng.choice([0.0, 0.02, 5.0, 700.0, 5000.0])
        if rng.random() < 0.05:
            chosen = settings_of(rng)
