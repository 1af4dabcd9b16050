"""Components of heterogeneous jobs, over random sites: all start or none, and a try that failed leaves nothing behind."""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import recount
from tests.property.disputed import disputed_site, to_rest
from tests.property.play import Stage, begun, with_rooms
from tests.property.recountlimits import no_limit_is_broken
from tests.property.sites import plain_site_of, site_of
from tests.property.sitetables import NOW

from warpdeck.model import JobId
from warpdeck.policy import PassCache, PendingJob, PlannerSettings, PlannerView, plan
from warpdeck.policy.resources.timeline import ENDLESS_S

EXAMPLES = 150
seeds = st.integers(0, 2**32)


def grouped(rng: Random, view: PlannerView) -> PlannerView:
    """Some of the waiting jobs become components of others."""
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
def test_all_start_or_none_and_the_others_are_told(seed: int) -> None:
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
    everyone = tuple(part for job in view.pending for part in (job, *job.components))
    apart = msgspec.structs.replace(view, pending=everyone)
    recount.nothing_is_held_twice(apart, made)
    recount.gangs_are_whole(apart, made)
    recount.placements_are_allowed(apart, made, NOW)
    no_limit_is_broken(apart, made, NOW)


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_reservations_of_components_fit_beside_all_else(seed: int) -> None:
    rng = Random(seed)
    view, chosen = plain_site_of(rng)
    view, chosen = grouped(rng, view), msgspec.structs.replace(chosen, reservation_holds="nodes")
    made = plan(view, NOW, chosen)
    everyone = tuple(part for job in view.pending for part in (job, *job.components))
    moments = {job.id: {r.at_unix for r in made.reserves if r.job_id in _ids(job)} for job in view.pending}
    assert all(len(found) <= 1 for found in moments.values()), "one moment for all of a job"
    limits = {job.id: float(job.time_limit_s or chosen.default_time_s or 2 * ENDLESS_S) for job in everyone}
    recount.the_future_fits(msgspec.structs.replace(view, pending=everyone), made, NOW, limits)


def _ids(job: PendingJob) -> set[JobId]:
    return {each.id for each in (job, *job.components)}


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_with_a_memory_the_plan_is_the_same(seed: int) -> None:
    rng = Random(seed)
    (view, chosen), memory = site_of(rng), PassCache()
    view = grouped(rng, view)
    first = plan(view, NOW, chosen, cache=memory)
    assert first == plan(view, NOW, chosen)
    rest = tuple(
        job
        for job in view.pending
        if job.id not in {start.job_id for start in first.starts} and rng.random() < 0.7
    )
    later = msgspec.structs.replace(
        view, pending=rest, hetjob_leaders=tuple(job.id for job in rest if job.components)
    )
    assert plan(later, NOW + 5, chosen, cache=memory) == plan(later, NOW + 5, chosen)


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_who_cannot_start_takes_nothing_from_the_others(seed: int) -> None:
    """Without reservations for those who wait: the others start where they would if it were not there."""
    rng = Random(seed)
    view = grouped(rng, site_of(rng)[0])
    chosen = PlannerSettings(reservations=0, queue_order="submit", overdue_reservations=0)
    made = plan(view, NOW, chosen)
    started = {start.job_id for start in made.starts}
    left = tuple(job for job in view.pending if not job.components or job.id in started)
    assert plan(msgspec.structs.replace(view, pending=left), NOW, chosen).starts == made.starts


def disputed(seed: int) -> Stage:
    """Those who wait have claims on those who run, and nothing else is in the way."""
    rng = Random(seed)
    view, chosen, jobs = disputed_site(rng)
    first = len(jobs) // 2
    stage = Stage(msgspec.structs.replace(view, pending=tuple(jobs[:first])), chosen, NOW)
    for _ in range(3):
        stage.step()
        stage.wait()
    waiting = (*stage.view.pending, *jobs[first:])
    stage.view = grouped(rng, msgspec.structs.replace(stage.view, pending=waiting))
    stage.origin = {job.id: job for job in jobs}
    return stage


@settings(max_examples=2 * EXAMPLES)
@given(seeds)
def test_those_who_leave_for_components_are_enough_for_all_of_them(seed: int) -> None:
    stage = disputed(seed)
    view, now = stage.view, stage.now
    made = plan(view, now, stage.settings)
    told = {each.job_id for each in made.preempts}
    assert len(told) == len(made.preempts) and told <= {job.id for job in view.running if not job.ending}
    jobs = {part.id: part for job in view.pending for part in (job, *job.components)}
    begun_too = tuple(begun(jobs[start.job_id], start, now) for start in made.starts)
    left = tuple(job for job in (*view.running, *begun_too) if job.id not in told)
    for number in sorted({each.for_job_id for each in made.preempts}):
        leader = next(job for job in view.pending if job.id == number)
        own = next(each for each in made.preempts if each.for_job_id == number)
        assert {each.job_id for each in made.reserves} >= _ids(leader)
        assert {number, *dict(own.component_claims)} == _ids(leader)
        alone = msgspec.structs.replace(
            view,
            running=left,
            pending=(with_rooms(leader, own),),
            hetjob_leaders=(number,) if leader.components else (),
        )
        started = {start.job_id for start in plan(alone, now, stage.settings).starts}
        assert _ids(leader) <= started, f"{number} has not enough: {told}"


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_who_has_others_leave_for_components_comes_to_rest(seed: int) -> None:
    to_rest(disputed(seed))
