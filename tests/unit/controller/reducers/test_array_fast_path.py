"""Array tasks follow each other in one slot without a planning pass if a pass would decide the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.core import ANN, BOB, Core, make_request

from warpdeck.controller.events.events import Event, Held, MessagesRead, Planned, Reported
from warpdeck.controller.reducers.array_fast_path import TRUST_S, ArrayFastPath
from warpdeck.controller.state.planner_view import build_view
from warpdeck.model import ArraySpec, JobId, JobState, NodeName
from warpdeck.policy import Plan, PlannerSettings, plan

ARRAY = ArraySpec(ranges=((1, 9, 1),))


class RunningArray(Core):
    """An array of nine tasks on a node with two slots. A pass has started two tasks."""

    def __init__(self) -> None:
        super().__init__("a")
        self.fast_path = ArrayFastPath()
        self.array = self.submit(make_request(gpus=2, array=ARRAY))
        self.run_pass()

    def run_pass(self) -> Plan:
        """Run a pass that the controller remembers. Started jobs run."""
        made = plan(build_view(self.state, now=self.now), self.now, PlannerSettings())
        self.fast_path.learn(self.state, made, self.now)
        self.launch(self.apply(Planned(starts=made.starts)).effects)
        return made

    def running(self) -> list[JobId]:
        return [job.id for job in self.state.jobs.values() if job.state is JobState.RUNNING]

    def end_one(self) -> Reported:
        """End the first running task, and return the event."""
        job = self.job(self.running()[0])
        report = self.agents[NodeName("a")].end((job.id, job.restarts))
        self.report("a", report)
        return Reported(name=NodeName("a"), report=report)

    def decide(self, *batch: Event) -> Planned | None:
        return self.fast_path.decide(self.state, batch, self.now)


def test_the_next_task_starts_after_each_end_as_a_pass_would_decide() -> None:
    core = RunningArray()
    for _ in range(6):
        decided = core.decide(core.end_one())
        made = plan(build_view(core.state, now=core.now), core.now, PlannerSettings())
        assert decided is not None and decided.starts == made.starts
        core.launch(core.apply(decided).effects)
        assert len(core.running()) == 2
        assert not plan(build_view(core.state, now=core.now), core.now, PlannerSettings()).starts


def test_several_ends_at_once_start_as_many_tasks() -> None:
    core = RunningArray()
    decided = core.decide(core.end_one(), core.end_one())
    assert decided is not None and [start.task for start in decided.starts] == [3, 4]
    assert len(core.launch(core.apply(decided).effects)) == 2


def test_the_last_task_is_left_to_a_planning_pass() -> None:
    core = RunningArray()
    while (decided := core.decide(core.end_one())) is not None:
        core.launch(core.apply(decided).effects)
    assert len(core.running()) == 1 and not core.job(core.array).is_finished
    assert core.run_pass().starts
    assert not core.state.index.pending


def _another_waits(core: RunningArray) -> None:
    core.submit(make_request(gpus=1), BOB)


def _time_passes(core: RunningArray) -> None:
    core.now += 2 * TRUST_S


@pytest.mark.parametrize("change", [_another_waits, _time_passes])
def test_a_planning_pass_decides_if_another_job_waits_or_time_passes(
    change: Callable[[RunningArray], None],
) -> None:
    core = RunningArray()
    change(core)
    assert core.decide(core.end_one()) is None


def test_any_other_event_disables_the_fast_path_until_the_next_pass() -> None:
    core = RunningArray()
    held = Held(principal=ANN, jobs=(str(core.array),))
    assert core.decide(core.end_one(), held) is None
    assert core.decide(core.end_one()) is None
    core.run_pass()
    assert core.decide(core.end_one()) is not None


def test_a_messages_read_event_keeps_the_fast_path() -> None:
    core = RunningArray()
    assert core.decide(MessagesRead()) is None
    assert core.decide(core.end_one(), MessagesRead()) is not None


def test_the_end_of_another_submission_starts_no_task() -> None:
    core = Core("a")
    fast_path = ArrayFastPath()
    other = core.run(make_request(gpus=2))
    core.submit(make_request(gpus=2, array=ARRAY))
    fast_path.learn(
        core.state, plan(build_view(core.state, now=core.now), core.now, PlannerSettings()), core.now
    )
    report = core.agents[NodeName("a")].end((other, 0))
    core.report("a", report)
    assert fast_path.decide(core.state, [Reported(name=NodeName("a"), report=report)], core.now) is None


def test_an_end_that_is_reported_twice_starts_one_task() -> None:
    core = RunningArray()
    ended = core.end_one()
    decided = core.decide(ended)
    assert decided is not None
    core.launch(core.apply(decided).effects)
    again = core.decide(ended)
    assert again is not None, "the fast path cannot know that the end is a repetition"
    assert core.apply(again).effects == (), "the slot is already in use"


def test_a_failure_caused_by_the_node_starts_no_task() -> None:
    core = RunningArray()
    job = core.job(core.running()[0])
    report = core.agents[NodeName("a")].end((job.id, 0), drain="the disk is full")
    core.report("a", report)
    assert core.decide(Reported(name=NodeName("a"), report=report)) is None
