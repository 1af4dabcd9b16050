"""Preemption over many passes: preempted jobs may be preempted, are needed, and preemption does not cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property import plan_checks
from tests.property.pass_player import PassPlayer
from tests.property.preemption_sites import preemptions_to_rest
from tests.property.random_sites import contested_site_of, site_of
from tests.property.random_tables import NOW

from warpdeck.model import GpuUuid, JobId
from warpdeck.policy import Plan, PlannerSettings, PlannerView, Preempt, RunningJob, plan

EXAMPLES = 150
STEPS = 40
seeds = st.integers(0, 2**32)


def preempting_site(seed: int) -> tuple[PlannerView, PlannerSettings]:
    rng = Random(seed)
    view, chosen = site_of(rng)
    while not view.qos:
        view, chosen = site_of(rng)
    chosen = msgspec.structs.replace(chosen, preempt_by=rng.choice(["qos", "partition"]), reclaim=True)
    jobs = tuple(
        msgspec.structs.replace(
            job,
            tasks=(),
            throttle=0,
            deadline_unix=None,
            qos=rng.choice(["high", "high", job.qos]),
            account=rng.choice(["vision", job.account]),
        )
        for job in view.pending
    )
    held = tuple(
        msgspec.structs.replace(job, qos=rng.choice(["low", "low", job.qos]), start_at_unix=NOW - 1000)
        for job in view.running
    )
    parts = tuple(
        msgspec.structs.replace(part, priority_tier=tier)
        for part, tier in zip(view.partitions, (3, 1), strict=True)
    )
    qos = tuple(
        msgspec.structs.replace(each, preempts=frozenset({"low"})) if each.name == "high" else each
        for each in view.qos
    )
    return msgspec.structs.replace(view, pending=jobs, running=held, qos=qos, partitions=parts), chosen


def without(view: PlannerView, orders: tuple[Preempt, ...]) -> PlannerView:
    gone = {each.job_id for each in orders}
    return msgspec.structs.replace(view, running=tuple(job for job in view.running if job.id not in gone))


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_preempted_jobs_run_and_may_be_preempted(seed: int) -> None:
    view, chosen = preempting_site(seed)
    made = plan(view, NOW, chosen)
    running = {job.id: job for job in view.running}
    waiting = {job.id: job for job in view.pending}
    qos = {each.name: each for each in view.qos}
    tiers = {part.name: part.priority_tier for part in view.partitions}
    assert len({each.job_id for each in made.preempts}) == len(made.preempts)
    for order in made.preempts:
        victim, job = running[order.job_id], waiting[order.for_job_id]
        assert not victim.ending and not victim.suspended and order.sentence
        assert NOW - victim.start_at_unix >= qos[victim.qos].preempt_exempt_s
        by_qos = chosen.preempt_by == "qos" and victim.qos in qos[job.qos].preempts
        tier = max(tiers[name] for name in job.partition.split(","))
        by_tier = chosen.preempt_by == "partition" and tier > tiers[victim.partition]
        assert by_qos or by_tier or victim.account != job.account
        assert order.job_id not in {start.job_id for start in made.starts}


@settings(max_examples=EXAMPLES)
@given(seeds)
@example(1_213_918)
def test_every_preempted_job_is_needed_and_together_they_suffice(seed: int) -> None:
    view, chosen = preempting_site(seed)
    made = plan(view, NOW, chosen)
    modes = {each.mode for each in made.preempts}
    if not made.preempts or "suspend" in modes:
        return
    for number in {each.for_job_id for each in made.preempts}:
        orders = tuple(each for each in made.preempts if each.for_job_id == number)
        assert starts(made, view, chosen, number, orders)
        for spared in orders:
            rest = tuple(each for each in orders if each is not spared)
            reserved = next(each for each in made.reserves if each.job_id == number)
            assert not starts(made, view, chosen, number, rest, reserved.nodes), f"{spared} is not needed"


def starts(
    made: Plan,
    view: PlannerView,
    chosen: PlannerSettings,
    number: JobId,
    orders: tuple[Preempt, ...],
    nodes: tuple[str, ...] | None = None,
) -> bool:
    """Return whether the job would start without the preempted jobs and without other waiting jobs.

    `nodes` restricts the nodes. Jobs that start and end during the grace time are ignored.
    """
    later = plan_checks.flushed(without(view, orders), made, NOW, only=number)
    begun = {start.job_id for start in made.starts}
    ready = next(each.at_unix for each in made.reserves if each.job_id == number)
    over = [
        job.id for job in later.running if job.id in begun and job.ends_by_unix and job.ends_by_unix <= ready
    ]
    later = msgspec.structs.replace(later, running=tuple(job for job in later.running if job.id not in over))
    if nodes is not None:
        inside = tuple(node for node in view.nodes if node.name in nodes)
        held = tuple(job for job in later.running if set(job.allocation.node_names()) <= set(nodes))
        if len(held) < len(later.running):
            return False  # other jobs extend beyond these nodes, so this check cannot decide
        later = msgspec.structs.replace(later, nodes=inside, running=held)
    again = plan(later, NOW, msgspec.structs.replace(chosen, preempt_by="off", reclaim=False))
    return any(start.job_id == number for start in again.starts)


def contested_site(seed: int) -> tuple[PlannerView, PlannerSettings]:
    view, chosen = contested_site_of(Random(seed))
    jobs = tuple(
        msgspec.structs.replace(job, tasks=(), throttle=0, deadline_unix=None) for job in view.pending
    )
    return msgspec.structs.replace(view, pending=jobs), chosen


@settings(max_examples=EXAMPLES)
@given(seeds, st.sampled_from([preempting_site, contested_site]))
@example(1631, preempting_site)  # one of two preempting jobs started on resources freed for the other
@example(2_001_316, preempting_site)  # whole nodes exceeded the quota that reclaimed them
@example(1_000_321, preempting_site)  # a job within its quota took resources freed for a borrowing job
def test_no_job_is_preempted_in_vain_or_in_a_cycle(
    seed: int, make: Callable[[int], tuple[PlannerView, PlannerSettings]]
) -> None:
    view, chosen = make(seed)
    player = PassPlayer(view, chosen, NOW)
    preempted: dict[JobId, int] = {}
    pairs: Counter[tuple[JobId, JobId]] = Counter()
    for _ in range(STEPS):
        made = player.step()
        for order in made.preempts:
            preempted[order.job_id] = preempted.get(order.job_id, 0) + 1
            pairs[order.job_id, order.for_job_id] += 1
        again = player.step()
        twice = {each.for_job_id for each in made.preempts} & {each.for_job_id for each in again.preempts}
        assert not twice, f"further jobs are preempted for {twice} while it waits for the first ones"
        if not player.wait():
            break
    assert all(count <= len(view.pending) for count in preempted.values()), (
        f"preemption in a cycle: {preempted}"
    )
    # Once each way is allowed: a third job that started may have taken guaranteed resources.
    mutual = [pair for pair in pairs if pairs[pair] > 1 and pairs[pair[::-1]]]
    assert not mutual, f"jobs preempt each other repeatedly: {pairs}"


@settings(max_examples=2 * EXAMPLES)
@given(seeds)
@example(98)  # three jobs preempted each other by QoS, by tier and by quota
@example(1883)  # the same, with two of them within one quota
def test_preemption_ends_on_a_site_where_no_job_ends_by_itself(seed: int) -> None:
    for pairs in preemptions_to_rest(Random(seed)):
        assert len(pairs) == len(set(pairs)), f"a job preempted the same job again: {pairs}"


def _released_gpus(job: RunningJob) -> set[GpuUuid]:
    """Return the GPUs that a suspended job has released."""
    assert job.resumes_to is not None
    kept = {uuid for share in job.allocation.shares for uuid in share.gpu_uuids}
    return {uuid for share in job.resumes_to.shares for uuid in share.gpu_uuids} - kept


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_suspended_jobs_resume_when_the_others_have_ended(seed: int) -> None:
    view, chosen = preempting_site(seed)
    player = PassPlayer(view, chosen, NOW)
    for _ in range(STEPS):
        player.step()
        if not player.wait():
            break
    if player.view.pending or any(
        job.ends_by_unix is None and not job.suspended for job in player.view.running
    ):
        return
    free = msgspec.structs.replace(player.view, reservations=())
    left = plan(free, player.now, chosen).resumes
    out = {node.name for node in free.nodes if node.unavailable}
    blocked = {gpu.uuid for node in free.nodes for gpu in node.gpus if gpu.blocked}
    suspended = [
        job
        for job in free.running
        if job.suspended and job.resumes_to and not out.intersection(job.allocation.node_names())
    ]
    suspended = [job for job in suspended if blocked.isdisjoint(_released_gpus(job))]
    assert not suspended or left
