"""The sampling rate: as high as possible on a small site, and never more than the controller can process."""

from __future__ import annotations

import pytest

from warpdeck.controller.events.effects import SetSampling
from warpdeck.controller.loop.sample_rate import UNWATCHED_A_SECOND, WATCHED_A_SECOND, SampleRate, interval_s
from warpdeck.model import NodeName

NODES = [NodeName(f"n{number}") for number in range(500)]


@pytest.mark.parametrize("watched", [False, True])
def test_the_interval_keeps_the_total_rate_and_is_at_least_a_second(watched: bool) -> None:
    most = WATCHED_A_SECOND if watched else UNWATCHED_A_SECOND
    for nodes in (0, 1, 50, 51, 200, 201, 1000, 10_000):
        found = interval_s(nodes, watched=watched)
        assert found >= 1.0 and nodes / found <= most
        assert found == 1.0 or nodes / (found - 1.0) > most, "the interval is not longer than necessary"


def test_nodes_of_a_small_site_get_no_orders() -> None:
    sampling = SampleRate()
    assert sampling.on_connect(NODES[0], nodes=1) == []
    with sampling.watched():
        assert sampling.changes(NODES[:50], nodes=50) == []


def test_nodes_get_each_changed_interval_once() -> None:
    sampling = SampleRate()
    [order] = sampling.on_connect(NODES[0], nodes=500)
    assert order == SetSampling(node=NODES[0], interval_s=20.0)
    assert [each.node for each in sampling.changes(NODES, nodes=500)] == NODES[1:]
    assert sampling.changes(NODES, nodes=500) == []
    with sampling.watched(), sampling.watched():
        assert {each.interval_s for each in sampling.changes(NODES, nodes=500)} == {3.0}
        assert sampling.changes(NODES, nodes=500) == []
    assert {each.interval_s for each in sampling.changes(NODES, nodes=500)} == {20.0}


def test_a_reconnected_node_gets_its_interval_again() -> None:
    sampling = SampleRate()
    sampling.changes(NODES, nodes=500)
    assert [each.node for each in sampling.on_connect(NODES[3], nodes=500)] == [NODES[3]]
    sampling.changes(NODES[1:], nodes=500)
    assert [each.node for each in sampling.changes(NODES, nodes=500)] == NODES[:1], "it was away"


def test_nodes_of_a_shrinking_site_get_a_shorter_interval() -> None:
    sampling = SampleRate()
    sampling.changes(NODES, nodes=500)
    assert {each.interval_s for each in sampling.changes(NODES[:25], nodes=25)} == {1.0}
