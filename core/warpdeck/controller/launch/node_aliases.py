"""Map node names of the cluster to addresses that other nodes can reach. Pure functions.

In Slurm a node's name can be resolved, and scripts rely on that: `--rdzv_endpoint $(scontrol show hostnames |
head -n 1)`. In warpdeck the name may be any name (`node add --name`, or a Host of the SSH configuration).
Jobs therefore get the addresses of nodes in a variable. In a job, `scontrol show hostnames` prints the
address if the name does not resolve to the node. A MASTER_ADDR set by the user is replaced by the address,
and srun -w accepts the address for the node.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from warpdeck.model import Node, NodeName
from warpdeck_agent.wire.hostnames import ADDRESSES

MAX_ADDRESSES = 2_000
"""Maximum number of addresses for one job, because the kernel limits a variable to 128 KiB."""


def reached_at(node: Node) -> str:
    """Return the address at which other nodes reach the node.

    Returns "" if only loopback addresses of the node are known.
    """
    ways = (node.address, node.hostname)
    return next((way for way in ways if way and not is_loopback(way)), "")


def is_loopback(address: str) -> bool:
    """Return whether the address leads only to the machine itself."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def addresses(names: Sequence[NodeName], nodes: Mapping[NodeName, Node]) -> dict[str, str]:
    """Return addresses by node name, for nodes with a host name that differs from their name here."""
    found = {}
    for name in names[:MAX_ADDRESSES]:
        node = nodes.get(name)
        if node is not None and _short(node.hostname) != _short(name):
            found[str(name)] = reached_at(node)
    return {name: address for name, address in found.items() if address and address != name}


def address_variables(names: Sequence[NodeName], nodes: Mapping[NodeName, Node]) -> dict[str, str]:
    """Return the variable with the addresses of nodes.

    The job's processes use it for nodes with names that do not resolve. Whether a name resolves is known only
    on the node where the process runs.
    """
    known = ((name, nodes.get(name)) for name in names[:MAX_ADDRESSES])
    found = {name: reached_at(node) for name, node in known if node is not None}
    found = {name: address for name, address in found.items() if address and address != name}
    return {ADDRESSES: " ".join(f"{name}={address}" for name, address in found.items())} if found else {}


def our_names(
    requested: Sequence[str], names: Sequence[NodeName], nodes: Mapping[NodeName, Node]
) -> tuple[str, ...]:
    """Return the requested nodes by their names in the cluster.

    A job's processes may give the address or the host name of a node instead.
    """
    ours: dict[str, NodeName] = {}
    for name in names:
        node = nodes.get(name)
        if node is not None:
            ours |= {way: name for way in (node.address, node.hostname) if way}
    return tuple(word if word in names else ours.get(word, word) for word in requested)


def _short(name: str) -> str:
    return name.partition(".")[0]
