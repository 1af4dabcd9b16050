"""Prefetched array tasks: their number, predecessors and resources, and their revocation."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.core import ANN, BOB, Core, ask

from warpdeck.controller.events.events import (
    Cancelled,
    Effect,
    Held,
    LaunchRevoked,
    LaunchShare,
    NodeDrained,
    NodeRemoved,
    Outcome,
    Planned,
    Prefetch,
    Reported,
    RevokeLaunches,
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


class Place(Core):
    """A node of four GPUs on which two tasks of an array run with two GPUs each; the rest waits."""

    def __init__(self, *, tasks: int = TASKS) -> None:
        super().__init__("a")
        self.array = self.submit(ask(gpus=2, array=ArraySpec(ranges=((0, tasks - 1, 1),))))
        self.launch(self.plan().effects)
        self.first, self.other = sorted(self.state.index.active)

    def hand(self, behind: JobId, *tasks: int) -> Outcome:
        return self.apply(Planned(prefetches=(Prefetch(job_id=self.array, after=behind, tasks=tasks),)))

    def handed(self, behind: JobId, *tasks: int) -> list[JobId]:
        """Return the ids of these tasks after prefetching them."""
        return [
            effect.job_id for effect in self.hand(behind, *tasks).effects if isinstance(effect, LaunchShare)
        ]

    def states(self, *jobs: JobId) -> list[tuple[JobState, JobId | None, bool]]:
        return [(job.state, job.prefetched_after, job.holds_resources) for job in map(self.job, jobs)]

    def give_back(self, *jobs: JobId) -> Outcome:
        return self.apply(LaunchRevoked(name=N, launches=tuple((job_id, 0) for job_id in jobs)))


WAITS, RUNS, STARTS = JobState.PENDING, JobState.RUNNING, JobState.CONFIGURING


def test_a_handed_task_holds_nothing_and_is_shown_as_waiting() -> None:
    place = Place()
    before = build_view(place.state, now=place.now)
    handed = place.handed(place.first, 2, 3)
    assert place.states(*handed) == [(STARTS, place.first, False), (STARTS, handed[0], False)]
    assert build_view(place.state, now=place.now).running == before.running
    row = job_row(place.state, place.job(handed[0]))
    assert (row.state, row.node_list, row.label) == ("PENDING", "", f"{place.array}_2")
    assert row.why is not None and row.why.code == "Resources"


def test_the_next_moves_up_in_the_transaction_of_the_end() -> None:
    place = Place()
    one, two = place.handed(place.first, 2, 3)
    place.end(place.first)
    assert place.states(one, two) == [(STARTS, None, True), (STARTS, one, False)]
    assert place.job(one).allocation == place.job(place.first).allocation


def test_words_may_come_before_those_of_the_one_before() -> None:
    place = Place()
    one, two = place.handed(place.first, 2, 3)
    place.launch((LaunchShare(node=N, job_id=one),))
    assert place.states(one) == [(RUNS, place.first, False)]
    place.end(one, started_at=10.0, ended_at=12.0)
    assert place.states(two) == [(STARTS, place.first, False)], "the first is not known to have ended"
    place.end(place.first)
    assert place.states(two) == [(STARTS, None, True)]


def test_what_it_has_run_is_charged_whenever_its_end_is_told() -> None:
    place = Place()
    (one,) = place.handed(place.first, 2)
    place.now += 100
    place.end(one, started_at=place.now - 10, ended_at=place.now - 4)
    used = sum(row.tres["gres/gpu"] for row in place.state.used.values())
    assert used == pytest.approx(12.0, abs=0.1), "six seconds of two GPUs"


def test_what_is_given_back_waits_again_in_the_record_of_its_array() -> None:
    place = Place()
    one, two, three = place.handed(place.first, 2, 3, 4)
    place.give_back(two)
    assert place.states(one, three) == [(STARTS, place.first, False), (STARTS, one, False)]
    assert (
        two not in place.state.jobs and place.job(place.array).label() == f"{place.array}_[3,5-{TASKS - 1}]"
    )
    assert two not in place.reload().jobs


def test_what_is_given_back_stays_apart_where_the_rest_is_not_as_it_was() -> None:
    place = Place()
    one, two = place.handed(place.first, 2, 3)
    place.apply(Held(principal=ANN, jobs=(f"{place.array}_[4-{TASKS - 1}]",)))
    place.give_back(two, one)
    assert place.states(one, two) == [(WAITS, None, False)] * 2
    assert place.job(two).restarts == 0 and place.job(two).allocation is None


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(1, 5))
def test_a_task_joins_the_ranges_of_the_others(tasks: set[int], step: int) -> None:
    numbers = sorted(number * step for number in tasks)
    for out in numbers:
        rest = ranges_of(number for number in numbers if number != out)
        joined = with_task(rest, out)
        assert list(iter_tasks(joined)) == numbers
        stepped = split_ranges(((0, 30 * step, step),), ((out, out, 1),))[1]
        joined = with_task(stepped, out)
        assert list(iter_tasks(joined)) == list(range(0, 30 * step + 1, step)) and len(joined) <= 2


def test_what_has_begun_is_not_given_back() -> None:
    place = Place()
    (one,) = place.handed(place.first, 2)
    place.launch((LaunchShare(node=N, job_id=one),))
    place.give_back(one)
    assert place.states(one) == [(RUNS, place.first, False)]


def test_one_that_was_cancelled_ends_when_it_is_given_back() -> None:
    place = Place()
    (one,) = place.handed(place.first, 2)
    place.apply(Cancelled(principal=ANN, jobs=(str(place.array) + "_2",)))
    assert place.job(one).state is JobState.COMPLETING
    place.give_back(one)
    assert place.job(one).state is JobState.CANCELLED


def test_after_a_cut_link_what_was_handed_is_sent_again_in_its_order() -> None:
    place = Place()
    one, two = place.handed(place.first, 2, 3)
    place.lose("a")
    again = [effect.job_id for effect in place.up("a").effects if isinstance(effect, LaunchShare)]
    assert again == [one, two]


def test_a_rebooted_node_may_have_begun_them() -> None:
    place = Place()
    (one,) = place.handed(place.first, 2)
    place.lose("a")
    place.agents[N].reboot()
    place.up("a")
    job = place.job(one)
    assert (job.state, job.restarts, job.prefetched_after) == (WAITS, 1, None), (
        "it waits under another start count"
    )


def test_a_node_that_is_removed_loses_them_too() -> None:
    place = Place()
    (one,) = place.handed(place.first, 2)
    place.apply(NodeRemoved(name=N, force=True))
    assert place.job(one).prefetched_after is None and place.job(one).restarts == 1


@pytest.mark.parametrize("change", ["held", "drained", "of another", "two behind one", "the last of it"])
def test_nothing_is_handed_that_does_not_fit_the_state(change: str) -> None:
    place = Place(tasks=5)
    behind = place.first
    tasks = [2]
    if change == "held":
        place.apply(Held(principal=ANN, jobs=(str(place.array),)))
    elif change == "drained":
        place.apply(NodeDrained(name=N, reason="x"))
    elif change == "of another":
        place.end(place.first)
        behind = place.run(ask(gpus=2), BOB)
    elif change == "two behind one":
        place.hand(behind, 3)
    else:
        tasks = [2, 3, 4]
    assert place.hand(behind, *tasks).effects == ()


# ---- Number of prefetched tasks


class Ran:
    """A succession that has seen a task with this run time end."""

    def __init__(self, ran_s: float, *, tasks: int = TASKS) -> None:
        self.place = place = Place(tasks=tasks)
        self.succession = ArrayFastPath()
        self.succession.learn(place.state, Plan(), place.now)
        said = place.agents[N].end((place.first, 0), started_at=place.now, ended_at=place.now + ran_s)
        place.told("a", said)
        decided = self.succession.decide(place.state, [Reported(name=N, report=said)], place.now)
        assert decided is not None
        effects = place.launch(place.apply(decided).effects)
        self.holder = effects[0].job_id

    def ahead(self) -> tuple[Prefetch, ...]:
        return self.succession.prefetches(self.place.state, [self.holder])


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
def test_a_place_is_handed_what_runs_in_a_moment(ran_s: float, count: int) -> None:
    ran = Ran(ran_s)
    assert sum(len(ahead.tasks) for ahead in ran.ahead()) == count


def test_a_line_is_filled_up_and_no_further() -> None:
    ran = Ran(0.0)
    (made,) = ran.ahead()
    assert made.after == ran.holder and made.tasks == tuple(range(3, 3 + MAX_PREFETCHED_PER_ALLOCATION))
    ran.place.hand(made.after, *made.tasks[:5])
    (more,) = ran.ahead()
    assert len(more.tasks) == MAX_PREFETCHED_PER_ALLOCATION - 5
    ran.place.hand(more.after, *more.tasks)
    assert ran.ahead() == ()


def test_what_is_left_is_for_all_places() -> None:
    (made,) = Ran(0.012, tasks=16).ahead()
    assert len(made.tasks) == 13 // 4, "of 13 that wait, with two places"
    assert Ran(0.04, tasks=6).ahead() == (), "of three"


def test_what_is_left_of_a_moments_work_is_shared_out_at_once() -> None:
    (made,) = Ran(0.0, tasks=16).ahead()
    assert len(made.tasks) == 13 // 2, "of 13 that wait, with two places"
    (made,) = Ran(0.0, tasks=6).ahead()
    assert len(made.tasks) == 3 // 2


# ---- Revocation


class Asked:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.recall = PrefetchRevoker(self.effects.extend)


def test_a_pass_that_relies_on_nothing_asks_for_all_once() -> None:
    place, asked = Place(), Asked()
    one, two = place.handed(place.first, 2, 3)
    asked.recall.revoke_unjustified(place.state, trusted=place.array)
    assert asked.effects == []
    for _ in range(2):
        asked.recall.revoke_unjustified(place.state, trusted=None)
    assert asked.effects == [RevokeLaunches(node=N, launches=((one, 0), (two, 0)))]


def test_a_drained_node_is_asked() -> None:
    place, asked = Place(), Asked()
    place.handed(place.first, 2)
    place.apply(NodeDrained(name=N, reason="x"))
    asked.recall.revoke_unjustified(place.state, trusted=place.array)
    assert len(asked.effects) == 1


async def test_an_order_waits_for_what_was_handed_and_for_no_other_event() -> None:
    place, asked = Place(), Asked()
    one, two = place.handed(place.first, 2, 3)
    await asked.recall.revoke_before(Submitted(principal=BOB, request=ask()), place.state)
    order = asyncio.create_task(
        asked.recall.revoke_before(Cancelled(principal=BOB, jobs=("1",)), place.state)
    )
    while not asked.effects:
        await asyncio.sleep(0)
    assert asked.recall.is_awaited
    place.give_back(one)
    asked.recall.after_commit(place.state)
    assert not order.done()
    place.launch((LaunchShare(node=N, job_id=two),))
    asked.recall.after_commit(place.state)
    await order
    assert not asked.recall.is_awaited


async def test_an_order_does_not_wait_for_a_node_that_says_nothing() -> None:
    place, asked = Place(), Asked()
    place.handed(place.first, 2)
    await asked.recall.revoke_before(Held(principal=BOB, jobs=("1",)), place.state)
    assert not asked.recall.is_awaited
