"""On random sites, the planner's decisions are allowed, complete, within limits, explained and deterministic."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property import plan_checks
from tests.property.limit_checks import no_limit_is_broken
from tests.property.partial_reservation_checks import parts_are_kept
from tests.property.random_sites import (
    contested_site_of,
    partially_reserved_site_of,
    plain_site_of,
    reserved_site_of,
    site_of,
)
from tests.property.random_tables import NOW

from warpdeck.model import JobId
from warpdeck.policy import Plan, PlannerSettings, PlannerView, admit, dry_run, plan

EXAMPLES = 200
ENDLESS_S = 20 * 365 * 86_400.0
"""Run time that the planner assumes for a job without a limit."""
seeds = st.integers(0, 2**32)
"""Sites are too large to be shrunk in reasonable time; a seed reproduces one."""


def check(view: PlannerView, made: Plan, now: float = NOW) -> None:
    plan_checks.nothing_is_held_twice(view, made)
    plan_checks.gangs_are_whole(view, made)
    plan_checks.placements_are_allowed(view, made, now)
    no_limit_is_broken(view, made, now)
    plan_checks.every_job_has_an_answer(view, made)


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_every_started_job_is_complete_allowed_and_within_limits(seed: int) -> None:
    view, chosen = site_of(Random(seed))
    check(view, plan(view, NOW, chosen))


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_started_jobs_respect_reservations(seed: int) -> None:
    view, chosen = reserved_site_of(Random(seed))
    check(view, plan(view, NOW, chosen))


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_parts_of_nodes_are_reserved_for_their_users(seed: int) -> None:
    view, chosen = partially_reserved_site_of(Random(seed))
    made = plan(view, NOW, chosen)
    check(view, made)
    parts_are_kept(view, made, NOW)


@settings(max_examples=EXAMPLES)
@given(seeds, st.sampled_from([site_of, contested_site_of, reserved_site_of, partially_reserved_site_of]))
@example(
    1977, partially_reserved_site_of
)  # parts of several reservations block the job; the reason named a random one
@example(234, site_of)  # two reservations start before the job could end; the reason named a random one
def test_the_plan_does_not_depend_on_the_order_of_lists(
    seed: int, make: Callable[[Random], tuple[PlannerView, PlannerSettings]]
) -> None:
    view, chosen = make(rng := Random(seed))
    tables = (
        "nodes",
        "running",
        "pending",
        "partitions",
        "qos",
        "accounts",
        "users",
        "reservations",
        "licenses",
    )
    mixed = {name: tuple(rng.sample(table, len(table))) for name in tables if (table := getattr(view, name))}
    made, again = plan(view, NOW, chosen), plan(msgspec.structs.replace(view, **mixed), NOW, chosen)
    assert (made.starts, made.reserves, made.resumes) == (again.starts, again.reserves, again.resumes)
    assert set(made.preempts) == set(again.preempts) and set(made.ends) == set(again.ends)
    assert made.pending_reasons == again.pending_reasons and made.priorities == again.priorities


def limit_of(view: PlannerView, chosen: PlannerSettings) -> dict[JobId, float]:
    return {job.id: float(job.time_limit_s or chosen.default_time_s or ENDLESS_S) for job in view.pending}


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_no_started_job_delays_a_reserved_job(seed: int) -> None:
    view, chosen = plain_site_of(Random(seed))
    chosen = msgspec.structs.replace(chosen, reservation_holds="nodes")
    made = plan(view, NOW, chosen)
    plan_checks.the_future_fits(view, made, NOW, limit_of(view, chosen))


@settings(max_examples=EXAMPLES)
@given(seeds, st.sampled_from(["nodes", "start"]))
def test_backfill_never_delays_the_first_reserved_job(seed: int, holds: str) -> None:
    view, chosen = plain_site_of(Random(seed))
    chosen = msgspec.structs.replace(chosen, reservation_holds=holds, preempt_by="off")
    made = plan(view, NOW, chosen)
    if not made.reserves:
        return
    head = made.reserves[0]
    again = plan(plan_checks.flushed(view, made, NOW, only=head.job_id), NOW, chosen)
    if holds == "start" and again.starts:
        return  # other jobs with a reserved start also prevented its start
    assert not again.starts
    assert again.reserves[0].at_unix <= head.at_unix


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_an_admitted_job_starts_on_the_empty_healthy_cluster(seed: int) -> None:
    view, chosen = site_of(Random(seed))
    empty = plan_checks.as_new(view)
    chosen = msgspec.structs.replace(chosen, max_starts=1000)
    for job in empty.pending:
        alone = msgspec.structs.replace(empty, pending=(job,))
        refused = admit(job, msgspec.structs.replace(view, pending=(), running=()), chosen)
        made = plan(alone, NOW, chosen)
        if job.deadline_unix is not None or job.reservation:
            continue
        wanted = set(job.resources.nodelist)
        if wanted - {node.name for node in view.nodes} or wanted & set(job.resources.exclude):
            assert refused is not None
        elif refused is None:
            assert made.starts, f"{job} was admitted: {made.pending_reasons}"
        elif made.starts:
            assert refused.code in ("InvalidAccount", "InvalidPrefer", "PartitionInactive"), f"{refused}"


@settings(max_examples=EXAMPLES // 2)
@given(seeds)
def test_an_advised_change_starts_the_job(seed: int) -> None:
    view, chosen = site_of(Random(seed))
    for job in view.pending:
        advice = dry_run(view, NOW, chosen, job.id)
        for change in advice.changes:
            changed = plan_checks.changed_as_advised(job, change)
            others = tuple(changed if each.id == job.id else each for each in view.pending)
            made = plan(msgspec.structs.replace(view, pending=others), NOW, chosen)
            assert any(start.job_id == job.id for start in made.starts), f"{job.id}: {change}"
