"""Nodes with a name that differs from their host name: identity, names given to jobs, names in requests."""

from __future__ import annotations

import io

import pytest

from warpdeck.controller.launch.node_aliases import address_variables, addresses, our_names
from warpdeck.model import Node, NodeName
from warpdeck_agent.wire.hostnames import ADDRESSES, show

GPU1, GPU2, BOX = NodeName("gpu1"), NodeName("gpu2"), NodeName("box")
NODES = {
    GPU1: Node(name=GPU1, hostname="no-such-host-a", address="192.0.2.1"),
    GPU2: Node(name=GPU2, hostname="gpu2.cluster.lab", address="192.0.2.2"),
    BOX: Node(name=BOX, hostname="no-such-host-b", address="127.0.0.1"),
}
ALL = list(NODES)


def test_addresses_contain_only_nodes_with_another_host_name() -> None:
    assert addresses(ALL, NODES) == {"gpu1": "192.0.2.1", "box": "no-such-host-b"}


def test_a_step_may_name_nodes_by_address_or_host_name() -> None:
    assert our_names(["192.0.2.1", "gpu2.cluster.lab", "box", "other"], ALL, NODES) == (
        *("gpu1", "gpu2", "box"),
        "other",
    )


def test_jobs_get_the_address_of_each_node_whose_name_differs() -> None:
    assert address_variables([GPU1, GPU2], NODES) == {ADDRESSES: "gpu1=192.0.2.1 gpu2=192.0.2.2"}
    plain = {GPU1: Node(name=GPU1, hostname="gpu1"), GPU2: Node(name=GPU2, address="gpu2")}
    assert address_variables([GPU1, GPU2], plain) == {}


@pytest.mark.parametrize(
    ("known", "printed"),
    [
        ("", "localhost no-such-host-c"),
        ("localhost=127.0.0.1", "localhost no-such-host-c"),
        ("localhost=192.0.2.1", "192.0.2.1 no-such-host-c"),
        ("no-such-host-c=192.0.2.3", "localhost 192.0.2.3"),
        ("localhost=127.0.0.1 no-such-host-c=192.0.2.3", "localhost 192.0.2.3"),
        ("localhost=no-such-host-d no-such-host-c=no-such-host-d", "localhost no-such-host-d"),
    ],
)
def test_a_name_is_printed_only_if_it_resolves_to_its_node(known: str, printed: str) -> None:
    """Each name is checked separately: one that resolves does not vouch for the others."""
    assert shown({ADDRESSES: known}) == printed


def test_a_nodes_own_name_is_printed_only_if_it_resolves_elsewhere() -> None:
    variables = {ADDRESSES: "localhost=127.0.0.1 no-such-host-c=192.0.2.3", "SLURMD_NODENAME": "localhost"}
    assert shown(variables) == "127.0.0.1 192.0.2.3"
    assert shown({**variables, ADDRESSES: "localhost=127.0.0.1"}) == "localhost no-such-host-c"


def shown(env: dict[str, str]) -> str:
    out = io.StringIO()
    assert show(["hostnames", "localhost,no-such-host-c"], env, out, io.StringIO()) == 0
    return " ".join(out.getvalue().splitlines())
