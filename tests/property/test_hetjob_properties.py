"""Heterogeneous jobs on random sites: all components start or none, and a failed attempt leaves no trace."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property import plan_checks
from tests.property.limit_checks import no_limit_is_broken
from tests.property.pass_player import PassPlayer, started_job, with_claims
from tests.property.preemption_sites import preemption_site, run_to_rest
from tests.property.random_sites import plain_site_of, site_of
from tests.property.random_tables import NOW

from warpdeck.model import JobId
from warpdeck.policy import PassCache, PendingJob, PlannerSettings, PlannerView, plan
from warpdeck.policy.resources.timeline import ENDLESS_S

EXAMPLES = 150
seeds = st.integers(0, 2**32)


def grouped(rng: Random, view: PlannerView) -> PlannerView:
    """Return the view with some waiting jobs turned into components of others."""
    pending: list[PendingJob] = []
    leaders: list[JobId] = []
    for job in view.pending:
        last = pending[-1] if pending else None
        if last is not None and not job.tasks and not last.tasks and not job.held and rng.random() < 0.5:
            plain = msgspec.structs.replace(job, waits_for="", never="", deadline_unix=None, user=last.user)
            pending[-1] = msgspec.structs.replace(last, components=(*last.components, plain))
            if last.id not in leaders:
                leaders.append(last.id)
        else:
            pending.append(job)
    return msgspec.structs.replace(view, pending=tuple(pending), hetjob_leaders=tuple(leaders))


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_all_components_start_or_none_and_waiting_ones_have_reasons(seed: int) -> None:
    rng = Random(seed)
    view, chosen = site_of(rng)
    view = grouped(rng, view)
    made = plan(view, NOW, chosen)
    started = {start.job_id for start in made.starts}
    for job in view.pending:
        parts = {each.id for each in (job, *job.components)}
        assert not job.components or parts <= started or not parts & started
        ended = {end.job_id for end in made.ends}
        assert parts & started or parts & ended or all(made.pending_reasons[each].sentence for each in parts)
    components_too = tuple(part for job in view.pending for part in (job, *job.components))
    separate = msgspec.structs.replace(view, pending=components_too)
    plan_checks.nothing_is_held_twice(separate, made)
    plan_checks.gangs_are_whole(separate, made)
    plan_checks.placements_are_allowed(separate, made, NOW)
    no_limit_is_broken(separate, made, NOW)


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_reservations_of_components_fit_with_all_other_jobs(seed: int) -> None:
    rng = Random(seed)
    view, chosen = plain_site_of(rng)
    view, chosen = grouped(rng, view), msgspec.structs.replace(chosen, reservation_holds="nodes")
    made = plan(view, NOW, chosen)
    components_too = tuple(part for job in view.pending for part in (job, *job.components))
    start_times = {
        job.id: {r.at_unix for r in made.reserves if r.job_id in _ids(job)} for job in view.pending
    }
    assert all(len(found) <= 1 for found in start_times.values()), (
        "all components of a job have the same start"
    )
    limits = {
        job.id: float(job.time_limit_s or chosen.default_time_s or 2 * ENDLESS_S) for job in components_too
    }
    plan_checks.the_future_fits(msgspec.structs.replace(view, pending=components_too), made, NOW, limits)


def _ids(job: PendingJob) -> set[JobId]:
    return {each.id for each in (job, *job.components)}


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_a_pass_cache_does_not_change_the_plan(seed: int) -> None:
    rng = Random(seed)
    (view, chosen), cache = site_of(rng), PassCache()
    view = grouped(rng, view)
    first = plan(view, NOW, chosen, cache=cache)
    assert first == plan(view, NOW, chosen)
    rest = tuple(
        job
        for job in view.pending
        if job.id not in {start.job_id for start in first.starts} and rng.random() < 0.7
    )
    later = msgspec.structs.replace(
        view, pending=rest, hetjob_leaders=tuple(job.id for job in rest if job.components)
    )
    assert plan(later, NOW + 5, chosen, cache=cache) == plan(later, NOW + 5, chosen)


@settings(max_examples=EXAMPLES)
@given(seeds)
@example(seed=4264)
@example(seed=1519)
def test_a_waiting_hetjob_takes_nothing_from_others_without_reservations(seed: int) -> None:
    """Without reservations, the other jobs start as if the waiting heterogeneous job did not exist."""
    rng = Random(seed)
    view = grouped(rng, site_of(rng)[0])
    chosen = PlannerSettings(reservations=0, queue_order="submit", overdue_reservations=0)
    made = plan(view, NOW, chosen)
    started = {start.job_id for start in made.starts}
    left = tuple(job for job in view.pending if not job.components or job.id in started)
    assert plan(msgspec.structs.replace(view, pending=left), NOW, chosen).starts == made.starts


def contested(seed: int) -> PassPlayer:
    """Return a site with waiting jobs that may preempt running ones, without other obstacles."""
    rng = Random(seed)
    view, chosen, jobs = preemption_site(rng)
    first = len(jobs) // 2
    player = PassPlayer(msgspec.structs.replace(view, pending=tuple(jobs[:first])), chosen, NOW)
    for _ in range(3):
        player.step()
        player.wait()
    waiting = (*player.view.pending, *jobs[first:])
    player.view = grouped(rng, msgspec.structs.replace(player.view, pending=waiting))
    player.origin = {job.id: job for job in jobs}
    return player


@settings(max_examples=2 * EXAMPLES)
@given(seeds)
def test_preempted_jobs_free_enough_for_all_components(seed: int) -> None:
    player = contested(seed)
    view, now = player.view, player.now
    made = plan(view, now, player.settings)
    preempted = {each.job_id for each in made.preempts}
    assert len(preempted) == len(made.preempts) and preempted <= {
        job.id for job in view.running if not job.ending
    }
    jobs = {part.id: part for job in view.pending for part in (job, *job.components)}
    started_too = tuple(started_job(jobs[start.job_id], start, now) for start in made.starts)
    left = tuple(job for job in (*view.running, *started_too) if job.id not in preempted)
    for number in sorted({each.for_job_id for each in made.preempts}):
        leader = next(job for job in view.pending if job.id == number)
        own = next(each for each in made.preempts if each.for_job_id == number)
        assert {each.job_id for each in made.reserves} >= _ids(leader)
        assert {number, *dict(own.component_claims)} == _ids(leader)
        alone = msgspec.structs.replace(
            view,
            running=left,
            pending=(with_claims(leader, own),),
            hetjob_leaders=(number,) if leader.components else (),
        )
        started = {start.job_id for start in plan(alone, now, player.settings).starts}
        assert _ids(leader) <= started, f"the preempted jobs do not free enough for {number}: {preempted}"


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_preemption_for_components_comes_to_rest(seed: int) -> None:
    run_to_rest(contested(seed))
