"""The schedule of health queries: all nodes of a small site at once, those of a large site in turn."""

from __future__ import annotations

from warpdeck.controller.loop.node_monitor import MAX_AT_ONCE, HealthPolling
from warpdeck.model import NodeName

NODES = [NodeName(f"n{number:04}") for number in range(2 * MAX_AT_ONCE + 50)]


def test_all_nodes_of_a_small_site_are_asked_each_time() -> None:
    inquiry = HealthPolling()
    assert inquiry.next([]) == []
    for _ in range(3):
        assert sorted(inquiry.next(NODES[:MAX_AT_ONCE])) == NODES[:MAX_AT_ONCE]


def test_nodes_of_a_large_site_are_asked_in_turn() -> None:
    inquiry = HealthPolling()
    turns = [inquiry.next(reversed(NODES)) for _ in range(3)]
    assert [len(turn) for turn in turns] == [MAX_AT_ONCE] * 3
    assert turns[0] + turns[1] + turns[2][:50] == NODES
    assert turns[2][50:] == NODES[: MAX_AT_ONCE - 50]


def test_who_comes_and_goes_keeps_nobody_from_a_turn() -> None:
    inquiry = HealthPolling()
    inquiry.next(NODES)
    left = NODES[:10] + NODES[MAX_AT_ONCE + 5 :]
    assert inquiry.next(left)[0] == NODES[MAX_AT_ONCE + 5]
