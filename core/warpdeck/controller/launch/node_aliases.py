"""Nodes that are called otherwise here than at home, a name that other nodes cannot be expected to know. Pure.

With Slurm a node's name is one that resolves, and scripts rely on it: `--rdzv_endpoint $(scontrol show hostnames | head -n 1)`.
Here it may be any (`node add --name`, a Host of ssh's). So jobs are told where nodes are reached: `scontrol show hostnames`
prints that in a job where the name does not resolve to the node, a MASTER_ADDR of the user's is put right, and srun -w takes it
for the node.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from warpdeck.model import Node, NodeName
from warpdeck_agent.wire.hostnames import ADDRESSES

MAX_ADDRESSES = 2_000
"""Of one job: the kernel takes 128 KiB for a variable."""


def reached_at(node: Node) -> str:
    """Where other nodes reach it; "" where it was only ever reached from its own machine."""
    ways = (node.address, node.hostname)
    return next((way for way in ways if way and not is_loopback(way)), "")


def is_loopback(address: str) -> bool:
    """Whether it leads nowhere but to the machine itself."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def addresses(names: Sequence[NodeName], nodes: Mapping[NodeName, Node]) -> dict[str, str]:
    """Name -> where it is reached, of those of the nodes whose own name is another."""
    found = {}
    for name in names[:MAX_ADDRESSES]:
        node = nodes.get(name)
        if node is not None and _short(node.hostname) != _short(name):
            found[str(name)] = reached_at(node)
    return {name: address for name, address in found.items() if address and address != name}


def address_variables(names: Sequence[NodeName], nodes: Mapping[NodeName, Node]) -> dict[str, str]:
    """The variable that tells a job's processes where the nodes are reached, for those whose name is not that address. Whether
    the names resolve is known only on the node that asks."""
    known = ((name, nodes.get(name)) for name in names[:MAX_ADDRESSES])
    found = {name: reached_at(node) for name, node in known if node is not None}
    found = {name: address for name, address in found.items() if address and address != name}
    return {ADDRESSES: " ".join(f"{name}={address}" for name, address in found.items())} if found else {}


def our_names(
    asked: Sequence[str], names: Sequence[NodeName], nodes: Mapping[NodeName, Node]
) -> tuple[str, ...]:
    """The nodes that were asked for, by our names: a job's processes may say their address or own name instead."""
    ours: dict[str, NodeName] = {}
    for name in names:
        node = nodes.get(name)
        if node is not None:
            ours |= {way: name for way in (node.address, node.hostname) if way}
    return tuple(word if word in names else ours.get(word, word) for word in asked)


def _short(name: str) -> str:
    return name.partition(".")[0]
