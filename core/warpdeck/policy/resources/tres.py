"""Trackable resources (TRES): amounts that a request asks for and an allocation holds, by TRES name.

The module is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.model import Allocation, Resources
from warpdeck.policy.input.site import Tres

from .demand import WHOLE_NODE, needs

MIB = 1024 * 1024
MAX_LAID_OUT = 64
"""Maximum number of nodes over which a request for a range of nodes is laid out to compute its demand per
node.
"""
WALL = "wall"
"""Key of the wall time in recorded usage: the seconds that jobs ran, regardless of their size. No TRES has
this name.
"""
TRES_TEXTS = {
    "cpu": "CPUs",
    "mem": "MiB of memory",
    "node": "nodes",
    "gres/gpu": "GPUs",
    "billing": "billing units",
}


def requested_tres(
    requested: Resources, billing_weights: Mapping[str, float], *, default_mem_per_cpu: int
) -> Tres:
    """Return the TRES that a request counts against limits, with its smallest number of nodes."""
    requirements = needs(requested, requested.nodes_min, default_mem_per_cpu_bytes=default_mem_per_cpu)
    gpus = sum(need.gpus * count for need, count in requirements)
    found = {
        "cpu": sum(need.cpus * count for need, count in requirements),
        "mem": sum(need.mem_bytes * count for need, count in requirements if need.mem_bytes != WHOLE_NODE)
        // MIB,
        "node": requested.nodes_min,
        "gres/gpu": gpus,
    }
    if requested.gpus.type:
        found[f"gres/gpu:{requested.gpus.type.lower()}"] = gpus
    found["billing"] = billing(found, billing_weights)
    return found


def requested_per_node(requested: Resources, *, default_mem_per_cpu: int) -> Tres:
    """Return the largest amount of each TRES that one node must provide, with as many nodes as the request
    allows.
    """
    nodes = max(requested.nodes_min, min(requested.nodes_max, MAX_LAID_OUT))
    requirements = needs(requested, nodes, default_mem_per_cpu_bytes=default_mem_per_cpu)
    gpus = max((need.gpus for need, _ in requirements), default=0)
    found = {
        "cpu": max((need.cpus for need, _ in requirements), default=0),
        "mem": max((need.mem_bytes for need, _ in requirements if need.mem_bytes != WHOLE_NODE), default=0)
        // MIB,
        "gres/gpu": gpus,
    }
    if requested.gpus.type:
        found[f"gres/gpu:{requested.gpus.type.lower()}"] = gpus
    return found


def held_per_node(allocation: Allocation, types: Mapping[str, str]) -> Tres:
    """Return the largest amount of each TRES that an allocation holds on one node."""
    found: Tres = {}
    for share in allocation.shares:
        own = held_tres(Allocation(shares=(share,)), types, {})
        for name, count in own.items():
            found[name] = max(found.get(name, 0), count)
    return found


def held_tres(allocation: Allocation, types: Mapping[str, str], billing_weights: Mapping[str, float]) -> Tres:
    """Return the TRES that an allocation holds. `types` maps GPU UUIDs to types."""
    found = {"cpu": 0, "mem": 0, "node": len(allocation.shares), "gres/gpu": 0}
    for share in allocation.shares:
        found["cpu"] += share.cpus
        found["mem"] += share.mem_bytes // MIB
        found["gres/gpu"] += len(share.gpus)
        for uuid in share.gpu_uuids:
            name = f"gres/gpu:{types.get(uuid, '')}"
            found[name] = found.get(name, 0) + 1
    found["billing"] = billing(found, billing_weights)
    return found


def billing(counts: Tres, weights: Mapping[str, float]) -> int:
    """Return the billing TRES: the weighted sum, rounded up to a whole unit."""
    total = sum(counts.get(name, 0) * weight for name, weight in (weights or {"cpu": 1.0}).items())
    return int(-(-total // 1))


def add(into: Tres, more: Mapping[str, int], *, times: int = 1) -> None:
    """Add counts to the dictionary `into`, `times` times."""
    for name, count in more.items():
        into[name] = into.get(name, 0) + count * times


def over(limit: Mapping[str, int], used: Mapping[str, int], more: Mapping[str, int]) -> str:
    """Return the first TRES for which `used` plus `more` would exceed the limit, or ""."""
    for name in sorted(limit):
        if more.get(name, 0) and used.get(name, 0) + more[name] > limit[name]:
            return name
    return ""


def tres_text(name: str) -> str:
    """Return the name of a TRES for messages: "GPUs", "GPUs of type h100", "licenses of matlab"."""
    if name.startswith("gres/gpu:"):
        return f"GPUs of type {name[9:]}"
    if name.startswith("license/"):
        return f"licenses of {name[8:]}"
    return TRES_TEXTS.get(name, name)
