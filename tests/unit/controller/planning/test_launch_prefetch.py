"""Prefetched array tasks: their number, predecessors and resources, and their revocation."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.core import ANN, BOB, Core, make_request

from warpdeck.controller.events.effects import Effect, LaunchShare, Outcome, RevokeLaunches
from warpdeck.controller.events.events import (
    Cancelled,
    Held,
    LaunchRevoked,
    NodeDrained,
    NodeRemoved,
    Planned,
    Prefetch,
    Reported,
    Submitted,
)
from warpdeck.controller.planning.prefetch_revoker import PrefetchRevoker
from warpdeck.controller.presenters.job_columns import job_row
from warpdeck.controller.reducers.array_fast_path import MAX_PREFETCHED_PER_ALLOCATION, ArrayFastPath
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import (
    ArraySpec,
    JobId,
    JobState,
    NodeName,
    iter_tasks,
    ranges_of,
    split_ranges,
    with_task,
)
from warpdeck.policy import Plan

N = NodeName("a")
TASKS = 200


class TwoSlots(Core):
    """A node of four GPUs on which two tasks of an array run with two GPUs each; the rest waits."""

    def __init__(self, *, tasks: int = TASKS) -> None:
        super().__init__("a")
        self.array = self.submit(make_request(gpus=2, array=ArraySpec(ranges=((0, tasks - 1, 1),))))
        self.launch(self.plan().effects)
        self.first, self.other = sorted(self.state.index.active)

    def prefetch(self, behind: JobId, *tasks: int) -> Outcome:
        return self.apply(Planned(prefetches=(Prefetch(job_id=self.array, after=behind, tasks=tasks),)))

    def prefetched(self, behind: JobId, *tasks: int) -> list[JobId]:
        """Return the ids of these tasks after prefetching them."""
        return [
            effect.job_id
            for effect in self.prefetch(behind, *tasks).effects
            if isinstance(effect, LaunchShare)
        ]

    def states(self, *jobs: JobId) -> list[tuple[JobState, JobId | None, bool]]:
        return [(job.state, job.prefetched_after, job.holds_resources) for job in map(self.job, jobs)]

    def revoke(self, *jobs: JobId) -> Outcome:
        return self.apply(LaunchRevoked(name=N, launches=tuple((job_id, 0) for job_id in jobs)))


WAITS, RUNS, STARTS = JobState.PENDING, JobState.RUNNING, JobState.CONFIGURING


def test_a_prefetched_task_holds_no_resources_and_is_shown_as_waiting() -> None:
    core = TwoSlots()
    before = build_view(core.state, now=core.now)
    prefetched = core.prefetched(core.first, 2, 3)
    assert core.states(*prefetched) == [(STARTS, core.first, False), (STARTS, prefetched[0], False)]
    assert build_view(core.state, now=core.now).running == before.running
    row = job_row(core.state, core.job(prefetched[0]))
    assert (row.state, row.node_list, row.label) == ("PENDING", "", f"{core.array}_2")
    assert row.why is not None and row.why.code == "Resources"


def test_the_next_task_gets_the_resources_in_the_transaction_of_the_end() -> None:
    core = TwoSlots()
    one, two = core.prefetched(core.first, 2, 3)
    core.end(core.first)
    assert core.states(one, two) == [(STARTS, None, True), (STARTS, one, False)]
    assert core.job(one).allocation == core.job(core.first).allocation


def test_reports_of_a_prefetched_task_may_precede_its_predecessors_end() -> None:
    core = TwoSlots()
    one, two = core.prefetched(core.first, 2, 3)
    core.launch((LaunchShare(node=N, job_id=one),))
    assert core.states(one) == [(RUNS, core.first, False)]
    core.end(one, started_at=10.0, ended_at=12.0)
    assert core.states(two) == [(STARTS, core.first, False)], "the first is not known to have ended"
    core.end(core.first)
    assert core.states(two) == [(STARTS, None, True)]


def test_the_run_time_of_a_prefetched_task_is_charged_at_its_report() -> None:
    core = TwoSlots()
    (one,) = core.prefetched(core.first, 2)
    core.now += 100
    core.end(one, started_at=core.now - 10, ended_at=core.now - 4)
    used = sum(row.tres["gres/gpu"] for row in core.state.used.values())
    assert used == pytest.approx(12.0, abs=0.1), "six seconds of two GPUs"


def test_a_revoked_task_rejoins_the_record_of_its_array() -> None:
    core = TwoSlots()
    one, two, three = core.prefetched(core.first, 2, 3, 4)
    core.revoke(two)
    assert core.states(one, three) == [(STARTS, core.first, False), (STARTS, one, False)]
    assert two not in core.state.jobs and core.job(core.array).label() == f"{core.array}_[3,5-{TASKS - 1}]"
    assert two not in core.reload().jobs


def test_a_revoked_task_keeps_its_record_if_the_array_has_changed() -> None:
    core = TwoSlots()
    one, two = core.prefetched(core.first, 2, 3)
    core.apply(Held(principal=ANN, jobs=(f"{core.array}_[4-{TASKS - 1}]",)))
    core.revoke(two, one)
    assert core.states(one, two) == [(WAITS, None, False)] * 2
    assert core.job(two).restarts == 0 and core.job(two).allocation is None


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(1, 5))
def test_a_task_joins_the_ranges_of_the_other_tasks(tasks: set[int], step: int) -> None:
    numbers = sorted(number * step for number in tasks)
    for out in numbers:
        rest = ranges_of(number for number in numbers if number != out)
        joined = with_task(rest, out)
        assert list(iter_tasks(joined)) == numbers
        stepped = split_ranges(((0, 30 * step, step),), ((out, out, 1),))[1]
        joined = with_task(stepped, out)
        assert list(iter_tasks(joined)) == list(range(0, 30 * step + 1, step)) and len(joined) <= 2


def test_a_started_task_is_not_revoked() -> None:
    core = TwoSlots()
    (one,) = core.prefetched(core.first, 2)
    core.launch((LaunchShare(node=N, job_id=one),))
    core.revoke(one)
    assert core.states(one) == [(RUNS, core.first, False)]


def test_a_canceled_task_ends_when_it_is_revoked() -> None:
    core = TwoSlots()
    (one,) = core.prefetched(core.first, 2)
    core.apply(Cancelled(principal=ANN, jobs=(str(core.array) + "_2",)))
    assert core.job(one).state is JobState.COMPLETING
    core.revoke(one)
    assert core.job(one).state is JobState.CANCELLED


def test_prefetched_launches_are_sent_again_in_order_after_a_reconnect() -> None:
    core = TwoSlots()
    one, two = core.prefetched(core.first, 2, 3)
    core.lose("a")
    again = [effect.job_id for effect in core.up("a").effects if isinstance(effect, LaunchShare)]
    assert again == [one, two]


def test_prefetched_tasks_of_a_rebooted_node_count_as_started() -> None:
    core = TwoSlots()
    (one,) = core.prefetched(core.first, 2)
    core.lose("a")
    core.agents[N].reboot()
    core.up("a")
    job = core.job(one)
    assert (job.state, job.restarts, job.prefetched_after) == (WAITS, 1, None), (
        "it waits under another start count"
    )


def test_removing_a_node_ends_its_prefetched_tasks() -> None:
    core = TwoSlots()
    (one,) = core.prefetched(core.first, 2)
    core.apply(NodeRemoved(name=N, force=True))
    assert core.job(one).prefetched_after is None and core.job(one).restarts == 1


@pytest.mark.parametrize("change", ["held", "drained", "of another", "two behind one", "the last of it"])
def test_a_prefetch_that_no_longer_fits_the_state_is_ignored(change: str) -> None:
    core = TwoSlots(tasks=5)
    behind = core.first
    tasks = [2]
    if change == "held":
        core.apply(Held(principal=ANN, jobs=(str(core.array),)))
    elif change == "drained":
        core.apply(NodeDrained(name=N, reason="x"))
    elif change == "of another":
        core.end(core.first)
        behind = core.run(make_request(gpus=2), BOB)
    elif change == "two behind one":
        core.prefetch(behind, 3)
    else:
        tasks = [2, 3, 4]
    assert core.prefetch(behind, *tasks).effects == ()


# ---- Number of prefetched tasks


class Ran:
    """A fast path that has seen a task with this run time end."""

    def __init__(self, ran_s: float, *, tasks: int = TASKS) -> None:
        self.core = core = TwoSlots(tasks=tasks)
        self.fast_path = ArrayFastPath()
        self.fast_path.learn(core.state, Plan(), core.now)
        report = core.agents[N].end((core.first, 0), started_at=core.now, ended_at=core.now + ran_s)
        core.report("a", report)
        decided = self.fast_path.decide(core.state, [Reported(name=N, report=report)], core.now)
        assert decided is not None
        effects = core.launch(core.apply(decided).effects)
        self.holder = effects[0].job_id

    def ahead(self) -> tuple[Prefetch, ...]:
        return self.fast_path.prefetches(self.core.state, [self.holder])


@pytest.mark.parametrize(
    ("ran_s", "count"),
    [
        (0.0, MAX_PREFETCHED_PER_ALLOCATION),
        (0.002, MAX_PREFETCHED_PER_ALLOCATION),
        (0.005, 20),
        (0.03, 3),
        (0.5, 1),
        (2.0, 0),
    ],
)
def test_the_number_of_prefetched_tasks_follows_their_run_time(ran_s: float, count: int) -> None:
    ran = Ran(ran_s)
    assert sum(len(ahead.tasks) for ahead in ran.ahead()) == count


def test_prefetched_tasks_are_refilled_up_to_the_limit() -> None:
    ran = Ran(0.0)
    (made,) = ran.ahead()
    assert made.after == ran.holder and made.tasks == tuple(range(3, 3 + MAX_PREFETCHED_PER_ALLOCATION))
    ran.core.prefetch(made.after, *made.tasks[:5])
    (more,) = ran.ahead()
    assert len(more.tasks) == MAX_PREFETCHED_PER_ALLOCATION - 5
    ran.core.prefetch(more.after, *more.tasks)
    assert ran.ahead() == ()


def test_waiting_tasks_are_shared_among_the_slots() -> None:
    (made,) = Ran(0.012, tasks=16).ahead()
    assert len(made.tasks) == 13 // 4, "of 13 that wait, with two places"
    assert Ran(0.04, tasks=6).ahead() == (), "of three"


def test_waiting_tasks_of_very_short_jobs_are_shared_at_once() -> None:
    (made,) = Ran(0.0, tasks=16).ahead()
    assert len(made.tasks) == 13 // 2, "of 13 that wait, with two places"
    (made,) = Ran(0.0, tasks=6).ahead()
    assert len(made.tasks) == 3 // 2


# ---- Revocation


class Revocations:
    """Collects the orders that the revoker sends."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.revoker = PrefetchRevoker(self.effects.extend)


def test_a_pass_without_a_trusted_array_revokes_all_prefetched_tasks_once() -> None:
    core, revocations = TwoSlots(), Revocations()
    one, two = core.prefetched(core.first, 2, 3)
    revocations.revoker.revoke_unjustified(core.state, trusted=core.array)
    assert revocations.effects == []
    for _ in range(2):
        revocations.revoker.revoke_unjustified(core.state, trusted=None)
    assert revocations.effects == [RevokeLaunches(node=N, launches=((one, 0), (two, 0)))]


def test_prefetched_tasks_of_a_drained_node_are_revoked() -> None:
    core, revocations = TwoSlots(), Revocations()
    core.prefetched(core.first, 2)
    core.apply(NodeDrained(name=N, reason="x"))
    revocations.revoker.revoke_unjustified(core.state, trusted=core.array)
    assert len(revocations.effects) == 1


async def test_a_cancellation_waits_for_the_revocation_but_a_submission_does_not() -> None:
    core, revocations = TwoSlots(), Revocations()
    one, two = core.prefetched(core.first, 2, 3)
    await revocations.revoker.revoke_before(Submitted(principal=BOB, request=make_request()), core.state)
    order = asyncio.create_task(
        revocations.revoker.revoke_before(Cancelled(principal=BOB, jobs=("1",)), core.state)
    )
    while not revocations.effects:
        await asyncio.sleep(0)
    assert revocations.revoker.is_awaited
    core.revoke(one)
    revocations.revoker.after_commit(core.state)
    assert not order.done()
    core.launch((LaunchShare(node=N, job_id=two),))
    revocations.revoker.after_commit(core.state)
    await order
    assert not revocations.revoker.is_awaited


async def test_an_order_does_not_wait_for_a_silent_node() -> None:
    core, revocations = TwoSlots(), Revocations()
    core.prefetched(core.first, 2)
    await revocations.revoker.revoke_before(Held(principal=BOB, jobs=("1",)), core.state)
    assert not revocations.revoker.is_awaited
