"""The schedule of health queries: all nodes of a small site at once, those of a large site in turn."""

from __future__ import annotations

from warpdeck.controller.loop.node_monitor import MAX_AT_ONCE, HealthPolling
from warpdeck.model import NodeName

NODES = [NodeName(f"n{number:04}") for number in range(2 * MAX_AT_ONCE + 50)]


def test_all_nodes_of_a_small_site_are_polled_each_time() -> None:
    polling = HealthPolling()
    assert polling.next([]) == []
    for _ in range(3):
        assert sorted(polling.next(NODES[:MAX_AT_ONCE])) == NODES[:MAX_AT_ONCE]


def test_nodes_of_a_large_site_are_polled_in_turn() -> None:
    polling = HealthPolling()
    turns = [polling.next(reversed(NODES)) for _ in range(3)]
    assert [len(turn) for turn in turns] == [MAX_AT_ONCE] * 3
    assert turns[0] + turns[1] + turns[2][:50] == NODES
    assert turns[2][50:] == NODES[: MAX_AT_ONCE - 50]


def test_removed_nodes_do_not_delay_the_turn_of_others() -> None:
    polling = HealthPolling()
    polling.next(NODES)
    left = NODES[:10] + NODES[MAX_AT_ONCE + 5 :]
    assert polling.next(left)[0] == NODES[MAX_AT_ONCE + 5]
