"""Nodes that are called otherwise here than at home: who they are, what jobs are told of them, and how they may be asked for."""

from __future__ import annotations

import io

import pytest

from warpdeck.controller.aliases import address_variables, addresses, our_names
from warpdeck.model import Node, NodeName
from warpdeck_agent.wire.hostnames import ADDRESSES, show

GPU1, GPU2, BOX = NodeName("gpu1"), NodeName("gpu2"), NodeName("box")
NODES = {
    GPU1: Node(name=GPU1, hostname="no-such-host-a", address="192.0.2.1"),
    GPU2: Node(name=GPU2, hostname="gpu2.cluster.lab", address="192.0.2.2"),
    BOX: Node(name=BOX, hostname="no-such-host-b", address="127.0.0.1"),
}
ALL = list(NODES)


def test_only_nodes_with_another_name_at_home_are_told() -> None:
    assert addresses(ALL, NODES) == {"gpu1": "192.0.2.1", "box": "no-such-host-b"}
    assert address_variables([GPU2], NODES) == {}
    assert address_variables([GPU1, GPU2], NODES) == {ADDRESSES: "gpu1=192.0.2.1"}


def test_a_step_may_name_them_by_where_they_are_reached() -> None:
    assert our_names(["192.0.2.1", "gpu2.cluster.lab", "box", "other"], ALL, NODES) == (
        *("gpu1", "gpu2", "box"),
        "other",
    )


@pytest.mark.parametrize(
    ("told", "printed"),
    [
        ("localhost=192.0.2.1", "localhost\nno-such-host-c\n"),
        ("no-such-host-c=192.0.2.3", "localhost\n192.0.2.3\n"),
        ("", "localhost\nno-such-host-c\n"),
    ],
)
def test_a_name_that_resolves_is_printed_as_it_is(told: str, printed: str) -> None:
    out = io.StringIO()
    assert show(["hostnames", "localhost,no-such-host-c"], {ADDRESSES: told}, out, io.StringIO()) == 0
    assert out.getvalue() == printed
