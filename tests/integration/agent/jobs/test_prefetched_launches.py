"""Launches handed to an agent ahead of time.

Each starts after its predecessor, or is returned and never starts.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire

LONG_S = 600.0
HELD = "while [ ! -e {gate} ]; do sleep 0.02; done\n"


class Place:
    """A launch that runs until its gate opens, and a file in which each of its successors writes a line."""

    def __init__(self, agent: AgentProcess) -> None:
        self.agent = agent
        self.patience_s = LONG_S
        self.first = agent.new_id()
        self.gate = agent.folder.parent / f"gate-{self.first}"
        self.begun = agent.folder.parent / f"begun-{self.first}"
        agent.launch(self.first, HELD.format(gate=self.gate))
        agent.link.report(self.first, "running")

    def hand(self, behind: int, script: str = "") -> int:
        """Hand over a launch that waits for the launch `behind`; return its id."""
        job_id = self.agent.new_id()
        script = f"echo {job_id} >>{self.begun}\n{script}"
        self.agent.launch(job_id, script, behind=[behind, 0], behind_s=self.patience_s)
        return job_id

    def open(self) -> None:
        self.gate.touch()

    def lines(self) -> list[int]:
        return [int(line) for line in self.begun.read_text().split()] if self.begun.exists() else []


@pytest.fixture
def place(agent: AgentProcess) -> Place:
    return Place(agent)


def given_back(agent: AgentProcess) -> list[list[int]]:
    return agent.link.expect(wire.GivenBack).launches


def test_prefetched_launches_run_one_after_the_other(shared: AgentProcess) -> None:
    place = Place(shared)
    line = [place.hand(place.first)]
    for _ in range(3):
        line.append(place.hand(line[-1]))
    place.open()
    ends = [shared.link.report(job_id, "exited") for job_id in (place.first, *line)]
    assert place.lines() == line
    for before, after in itertools.pairwise(ends):
        assert before.ended_at <= after.started_at, "no two launches had the slot at the same time"


def test_a_revoked_launch_and_its_successors_do_not_start(shared: AgentProcess) -> None:
    place = Place(shared)
    first = place.hand(place.first)
    second = place.hand(first)
    third = place.hand(second)
    shared.link.send(wire.TakeBack(launches=[[second, 0], [place.first, 0], [99_999, 0]]))
    assert given_back(shared) == [[second, 0], [third, 0]]
    place.open()
    assert shared.link.report(first, "exited").exit_code == 0
    assert place.lines() == [first]
    shared.launch(second, "exit 3")
    assert shared.link.report(second, "exited").exit_code == 3, (
        "the launch can be sent again under its own key"
    )


def test_a_prefetched_launch_is_returned_after_a_while(shared: AgentProcess) -> None:
    place = Place(shared)
    place.patience_s = 0.05
    job_id = place.hand(place.first)
    assert given_back(shared) == [[job_id, 0]]
    place.open()
    shared.link.report(place.first, "exited")
    assert place.lines() == []


def test_a_launch_for_a_free_slot_starts_at_once(shared: AgentProcess) -> None:
    place = Place(shared)
    place.open()
    shared.link.report(place.first, "exited")
    job_id = place.hand(place.first)
    shared.link.report(job_id, "exited")
    assert place.lines() == [job_id]


def test_the_successor_of_a_launch_that_never_started_is_returned(shared: AgentProcess) -> None:
    place = Place(shared)
    place.open()
    shared.link.report(place.first, "exited")
    job_id = place.hand(99_998)
    assert given_back(shared) == [[job_id, 0]]


def test_a_failed_launch_leaves_its_slot_to_the_next(shared: AgentProcess) -> None:
    place = Place(shared)
    job_id = shared.new_id()
    shared.launch(job_id, "true", behind=[place.first, 0], behind_s=LONG_S, env={"X": "a\0b"})
    after = place.hand(job_id)
    place.open()
    assert "cannot be passed on" in shared.link.expect(wire.LaunchFailed).message
    assert shared.link.report(after, "exited").exit_code == 0


def test_a_cancelled_prefetched_launch_ends_without_a_start(shared: AgentProcess) -> None:
    place = Place(shared)
    first = place.hand(place.first)
    second = place.hand(first)
    shared.link.send(wire.Kill(job_id=first, restarts=0))
    report = shared.link.report(first, "exited")
    assert (report.cause, report.started_at) == ("cancelled", 0.0)
    assert given_back(shared) == [[second, 0]]
    place.open()
    shared.link.report(place.first, "exited")
    assert place.lines() == []


def test_a_launch_sent_twice_runs_once(shared: AgentProcess) -> None:
    place = Place(shared)
    job_id = place.hand(place.first)
    shared.launch(job_id, "exit 7", behind=[place.first, 0], behind_s=LONG_S)
    place.open()
    assert shared.link.report(job_id, "exited").exit_code == 0
    shared.launch(job_id, "exit 7", behind=[place.first, 0], behind_s=LONG_S)
    assert shared.link.report(job_id, "exited").exit_code == 0
    assert place.lines() == [job_id]


def test_a_slot_with_a_failed_epilog_is_not_reused(shared: AgentProcess, tmp_path: Path) -> None:
    epilog = tmp_path / "epilog"
    epilog.write_text("#!/bin/sh\nexit 1\n")
    epilog.chmod(0o755)
    first, gate = shared.new_id(), tmp_path / "gate"
    shared.launch(first, HELD.format(gate=gate), hooks=wire.Hooks(epilog=str(epilog)))
    shared.link.report(first, "running")
    after = shared.new_id()
    shared.launch(after, "true", behind=[first, 0], behind_s=LONG_S)
    gate.touch()
    assert given_back(shared) == [[after, 0]]
    assert shared.link.report(first, "exited").drain


def test_prefetched_launches_continue_without_a_controller(place: Place) -> None:
    line = [place.hand(place.first)]
    line.append(place.hand(line[0]))
    place.agent.link.send(wire.AskHealth(at_unix=0.0, ask=1))
    place.agent.link.expect(wire.Health)  # the agent has received the earlier launches
    place.agent.link.close()
    place.open()
    eventually(lambda: place.lines() == line, what="all prefetched launches have run")
    place.agent.connect()
    for job_id in (place.first, *line):
        assert place.agent.link.report(job_id, "exited").exit_code == 0


def test_a_killed_agent_loses_waiting_launches_and_runs_none_twice(place: Place) -> None:
    first = place.hand(place.first)
    second = place.hand(first, HELD.format(gate=place.gate.with_name("second")))
    third = place.hand(second)
    place.open()
    place.agent.link.report(place.first, "exited")
    place.agent.link.report(first, "exited")
    place.agent.first_process(second)
    place.agent.kill()
    reported = {message.job_id: message.phase for message in place.agent.start().jobs}
    assert third not in reported and reported[second] == "running"
    place.agent.launch(third, f"echo {third} >>{place.begun}", behind=[second, 0], behind_s=LONG_S)
    place.gate.with_name("second").touch()
    assert place.agent.link.report(third, "exited").exit_code == 0
    assert place.lines() == [first, second, third]
