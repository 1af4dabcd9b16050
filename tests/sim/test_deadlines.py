"""What the clock alone brings about happens when it is due, not at the next look: the real controller in virtual time."""

from __future__ import annotations

import msgspec
from tests.sim.test_site import BOB, HOUR_S, Site, on_site

from warpdeck.controller.events.events import ReservationMade
from warpdeck.controller.loop.planner import REPLAN_S
from warpdeck.model import Dependencies, JobState, NodeName, Reservation
from warpdeck.notation.values.dependencies import parse_dependencies


def test_a_job_starts_at_its_begin_time() -> None:
    async def act(site: Site) -> None:
        begin = site.controller.clock() + 7
        job = await site.submit(begin_at_unix=begin)
        assert site.why(job).startswith("BeginTime")
        await site.later(6)
        started = site.now(job).start_at_unix
        assert started is not None and begin <= started < begin + 1

    on_site("", act)


def test_a_job_that_cannot_keep_its_deadline_any_more_ends_at_once() -> None:
    async def act(site: Site) -> None:
        await site.submit(gpus=8, seconds=HOUR_S)
        deadline = site.controller.clock() + 110
        job = await site.submit(gpus=8, time_limit_s=100, deadline_unix=deadline)
        await site.later(9)
        ended = site.now(job)
        assert ended.state is JobState.DEADLINE and ended.end_at_unix is not None
        assert deadline - 100 <= ended.end_at_unix < deadline - 99

    on_site("", act)


def test_a_jobs_of_a_reservation_start_with_it_and_others_after_it() -> None:
    async def act(site: Site) -> None:
        now = site.controller.clock()
        made = Reservation(
            name="course", nodes=(NodeName("n0"),), start_unix=now + 11, end_unix=now + 17, users=("ann",)
        )
        await site.controller.apply(ReservationMade(reservation=made))
        inside = await site.submit(gpus=1, seconds=1, time_limit_s=5, reservation="course")
        after = await site.submit(BOB, gpus=1, time_limit_s=600)
        await site.later(20)
        for job, due in ((inside, now + 11), (after, now + 17)):
            started = site.now(job).start_at_unix
            assert started is not None and due <= started < due + 1

    on_site("", act)


def test_the_delay_of_a_dependency_is_kept_to_the_second() -> None:
    async def act(site: Site) -> None:
        first = await site.submit(gpus=1, seconds=HOUR_S)
        begun = site.now(first).start_at_unix or 0.0
        after = msgspec.convert(parse_dependencies(f"after:{first.id}+1"), Dependencies)
        second = await site.submit(gpus=1, dependencies=after)
        await site.later(62)
        started = site.now(second).start_at_unix
        assert started is not None and begun + 60 <= started < begun + 61

    on_site("", act)


def test_a_job_of_an_exempt_qos_leaves_when_its_exemption_is_over() -> None:
    rules = '[qos.low]\npreempt_exempt_s = 40\n[qos.high]\npreempts = ["low"]\n'

    async def act(site: Site) -> None:
        low = await site.submit(qos="low", gpus=8, seconds=HOUR_S)
        begun = site.now(low).start_at_unix or 0.0
        await site.submit(BOB, qos="high", gpus=8)
        await site.later(begun + 39 - site.controller.clock())
        assert site.now(low).state is JobState.RUNNING
        await site.later(2)
        assert site.now(low).state is not JobState.RUNNING

    on_site(rules, act)


def test_a_priority_that_has_moved_far_is_told_again() -> None:
    rules = '[scheduler]\nmax_age = "1-00:00:00"\nweights.age = 100000\n'

    async def act(site: Site) -> None:
        await site.submit(gpus=8, seconds=2 * HOUR_S)
        waits = await site.submit(gpus=8)
        await site.later(5 * REPLAN_S)
        before = site.controller.state.planned.priorities[waits.id]
        listener = site.controller.hub.listen()
        while waits.id not in listener.take()[0]:
            await site.later(REPLAN_S)
        assert site.controller.state.planned.priorities[waits.id] > 1.05 * before

    on_site(rules, act)
