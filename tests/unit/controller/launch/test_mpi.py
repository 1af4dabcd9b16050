"""The facts that ranks of an MPI program get about each other, and fences gathered over nodes."""

from __future__ import annotations

import pytest

from warpdeck.controller.events.events import BroadcastFence
from warpdeck.controller.launch.mpi import process_mapping
from warpdeck.controller.loop.fences import Fences
from warpdeck.controller.state.state import State
from warpdeck.model import JobId, NodeName
from warpdeck.model.step import Step, StepShare
from warpdeck_agent.wire.steps import FENCE_PIECE_BYTES, StepFence, pieces

A, B = NodeName("a"), NodeName("b")


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([[0, 1], [2, 3]], "(vector,(0,2,2))"),
        ([[0, 1, 2], [3]], "(vector,(0,1,3),(1,1,1))"),
        ([[0, 2], [1, 3]], "(vector,(0,2,1),(0,2,1))"),
        ([[0]], "(vector,(0,1,1))"),
    ],
)
def test_a_process_mapping_lists_the_ranks_of_each_node(ranks: list[list[int]], text: str) -> None:
    assert process_mapping(ranks) == text


def test_a_process_mapping_above_the_limit_is_empty() -> None:
    assert process_mapping([list(range(0, 1000, 2)), list(range(1, 1000, 2))]) == ""


@pytest.fixture
def state() -> State:
    made = State()
    shares = (StepShare(node=A, ranks=(0,), cpus=1), StepShare(node=B, ranks=(1,), cpus=1))
    made.steps[JobId(1)] = {0: Step(job_id=JobId(1), restarts=0, number=0, name="x", shares=shares)}
    return made


def fence(number: int, *, last: bool = True, **values: str) -> StepFence:
    return StepFence(job_id=1, restarts=0, step=0, number=number, values=values, last=last)


def spread_by(
    fences: Fences, state: State, node: NodeName, message: StepFence
) -> list[tuple[str, int, dict[str, str]]]:
    found = fences.handle(node, message, state)
    spread = [effect for effect in found if isinstance(effect, BroadcastFence)]
    assert spread == found
    return [(effect.node, effect.message.number, effect.message.values) for effect in spread]


def test_the_last_node_of_a_fence_sends_all_values_to_all_nodes(state: State) -> None:
    fences = Fences()
    assert spread_by(fences, state, A, fence(0, x="1")) == []
    both = {"x": "1", "y": "2"}
    assert spread_by(fences, state, B, fence(0, y="2")) == [("a", 0, both), ("b", 0, both)]


def test_a_node_that_repeats_a_completed_fence_gets_the_values_alone(state: State) -> None:
    fences = Fences()
    spread_by(fences, state, A, fence(0, x="1"))
    spread_by(fences, state, B, fence(0))
    spread_by(fences, state, A, fence(1))
    assert spread_by(fences, state, B, fence(0)) == [("b", 0, {"x": "1"})]


def test_a_restarted_controller_collects_repeated_fences(state: State) -> None:
    fences = Fences()
    assert spread_by(fences, state, A, fence(3, x="1")) == []
    assert spread_by(fences, state, A, fence(4)) == []
    assert spread_by(fences, state, B, fence(3)) == [("a", 3, {"x": "1"}), ("b", 3, {"x": "1"})]


def test_a_fence_is_complete_with_its_last_piece(state: State) -> None:
    fences = Fences()
    spread_by(fences, state, A, fence(0))
    assert spread_by(fences, state, B, fence(0, last=False, y="1")) == []
    assert len(spread_by(fences, state, B, fence(0, z="2"))) == 2


def test_fences_of_other_nodes_or_starts_are_ignored(state: State) -> None:
    fences = Fences()
    spread_by(fences, state, A, fence(0))
    assert spread_by(fences, state, NodeName("c"), fence(0)) == []
    assert (
        spread_by(fences, state, B, StepFence(job_id=1, restarts=1, step=0, number=0, values={}, last=True))
        == []
    )


def test_large_values_are_sent_in_pieces(state: State) -> None:
    values = {f"k{number}": "v" * 1000 for number in range(600)}
    parts = pieces(values, FENCE_PIECE_BYTES)
    assert len(parts) == 3
    assert {key: value for part in parts for key, value in part.items()} == values
    fences = Fences()
    spread_by(fences, state, A, fence(0))
    found = spread_by(fences, state, B, fence(0, last=True, **values))
    assert [node for node, _, _ in found] == ["a", "a", "a", "b", "b", "b"]
