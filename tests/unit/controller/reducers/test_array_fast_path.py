"""Array tasks that succeed each other in one slot without a planning pass, but only where a pass would decide
the same.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.core import ANN, BOB, Core, ask

from warpdeck.controller.events.events import Event, Held, MessagesRead, Planned, Reported
from warpdeck.controller.reducers.array_fast_path import TRUST_S, ArrayFastPath
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import ArraySpec, JobId, JobState, NodeName
from warpdeck.policy import Plan, PlannerSettings, plan

ARRAY = ArraySpec(ranges=((1, 9, 1),))


class Line(Core):
    """An array of nine tasks on a node with two slots, whose first two tasks a pass has started."""

    def __init__(self) -> None:
        super().__init__("a")
        self.succession = ArrayFastPath()
        self.array = self.submit(ask(gpus=2, array=ARRAY))
        self.pass_over()

    def pass_over(self) -> Plan:
        """Run a pass that the controller remembers. Started jobs run."""
        made = plan(build_view(self.state, now=self.now), self.now, PlannerSettings())
        self.succession.learn(self.state, made, self.now)
        self.launch(self.apply(Planned(starts=made.starts)).effects)
        return made

    def running(self) -> list[JobId]:
        return [job.id for job in self.state.jobs.values() if job.state is JobState.RUNNING]

    def end_one(self) -> Reported:
        """End the first running task, and return the event."""
        job = self.job(self.running()[0])
        said = self.agents[NodeName("a")].end((job.id, job.restarts))
        self.told("a", said)
        return Reported(name=NodeName("a"), report=said)

    def decide(self, *batch: Event) -> Planned | None:
        return self.succession.decide(self.state, batch, self.now)


def test_the_next_task_takes_the_place_of_each_that_ends_as_a_pass_would_have_it() -> None:
    line = Line()
    for _ in range(6):
        decided = line.decide(line.end_one())
        made = plan(build_view(line.state, now=line.now), line.now, PlannerSettings())
        assert decided is not None and decided.starts == made.starts
        line.launch(line.apply(decided).effects)
        assert len(line.running()) == 2
        assert not plan(build_view(line.state, now=line.now), line.now, PlannerSettings()).starts


def test_several_places_at_once_are_taken_by_as_many_tasks() -> None:
    line = Line()
    decided = line.decide(line.end_one(), line.end_one())
    assert decided is not None and [start.task for start in decided.starts] == [3, 4]
    assert len(line.launch(line.apply(decided).effects)) == 2


def test_the_last_task_is_left_to_a_pass() -> None:
    line = Line()
    while (decided := line.decide(line.end_one())) is not None:
        line.launch(line.apply(decided).effects)
    assert len(line.running()) == 1 and not line.job(line.array).is_finished
    assert line.pass_over().starts
    assert not line.state.index.pending


def _another_waits(line: Line) -> None:
    line.submit(ask(gpus=1), BOB)


def _time_passes(line: Line) -> None:
    line.now += 2 * TRUST_S


@pytest.mark.parametrize("change", [_another_waits, _time_passes])
def test_a_pass_decides_where_there_is_something_to_weigh(change: Callable[[Line], None]) -> None:
    line = Line()
    change(line)
    assert line.decide(line.end_one()) is None


def test_whatever_else_happens_calls_for_a_pass_also_for_the_ends_that_follow() -> None:
    line = Line()
    held = Held(principal=ANN, jobs=(line.array,))
    assert line.decide(line.end_one(), held) is None
    assert line.decide(line.end_one()) is None
    line.pass_over()
    assert line.decide(line.end_one()) is not None


def test_who_only_asks_whether_all_was_heard_calls_for_no_pass() -> None:
    line = Line()
    assert line.decide(MessagesRead()) is None
    assert line.decide(line.end_one(), MessagesRead()) is not None


def test_a_task_of_another_submission_is_not_followed() -> None:
    line = Core("a")
    succession = ArrayFastPath()
    other = line.run(ask(gpus=2))
    line.submit(ask(gpus=2, array=ARRAY))
    succession.learn(
        line.state, plan(build_view(line.state, now=line.now), line.now, PlannerSettings()), line.now
    )
    said = line.agents[NodeName("a")].end((other, 0))
    line.told("a", said)
    assert succession.decide(line.state, [Reported(name=NodeName("a"), report=said)], line.now) is None


def test_an_end_that_is_told_twice_starts_one_task() -> None:
    line = Line()
    ended = line.end_one()
    decided = line.decide(ended)
    assert decided is not None
    line.launch(line.apply(decided).effects)
    again = line.decide(ended)
    assert again is not None, "it cannot know"
    assert line.apply(again).effects == (), "the place is taken"


def test_what_failed_by_the_fault_of_its_node_is_not_followed() -> None:
    line = Line()
    job = line.job(line.running()[0])
    said = line.agents[NodeName("a")].end((job.id, 0), drain="the disk is full")
    line.told("a", said)
    assert line.decide(Reported(name=NodeName("a"), report=said)) is None
