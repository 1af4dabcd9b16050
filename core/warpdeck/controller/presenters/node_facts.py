"""Nodes as Slurm's commands show them: states with their flags, amounts of resources, and partitions. All
functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warpdeck.base.cluster import ALL_NODES
from warpdeck.controller.state.reservations import reservations
from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import gpu_holders, runs_jobs
from warpdeck.model import JobState, Link, Node, NodeName
from warpdeck.protocol.node_rows import NodeFacts

from .node_now import common_fields, node_now


def node_facts(state: State, nodes: Iterable[Node], *, now: float) -> list[NodeFacts]:
    """Return the facts of these nodes."""
    maintenance: set[NodeName] = set()
    reserved: set[NodeName] = set()
    for each in reservations(state, now):
        if each.start_unix <= now < each.end_unix and not each.parts:
            reserved.update(each.nodes)
            if each.maintenance:
                maintenance.update(each.nodes)
    return [
        _facts(state, node, maintenance=node.name in maintenance, reserved=node.name in reserved)
        for node in nodes
    ]


def _facts(state: State, node: Node, *, maintenance: bool, reserved: bool) -> NodeFacts:
    now = node_now(state, node)
    return NodeFacts(
        **common_fields(state, now),
        address=node.address or node.hostname,
        base=_base(state, node, now.cpus_used),
        drained=node.drained,
        responding=state.node_status.links.get(node.name) is Link.UP,
        maintenance=maintenance,
        reserved=reserved,
        completing=any(job.state is JobState.COMPLETING for job in state.jobs_on(node.name)),
        gpus=_counted([gpu.type for gpu in node.gpus]),
        gpus_used=_held(state, node),
        partitions=_partitions(state, node.name),
    )


def _base(state: State, node: Node, cpus_used: int) -> str:
    link = state.node_status.links.get(node.name, Link.CONNECTING)
    if link is not Link.UP and not state.jobs_on(node.name):
        return "down" if link is Link.LOST else "unknown"
    if not runs_jobs(state, node.name):
        return "idle"
    return "allocated" if cpus_used >= node.cpus else "mixed"


def _counted(types: Sequence[str]) -> dict[str, int]:
    return {kind: types.count(kind) for kind in sorted(set(types))}


def _held(state: State, node: Node) -> dict[str, list[int]]:
    holders = gpu_holders(state, node.name)
    found: dict[str, list[int]] = {}
    for gpu in node.gpus:
        if gpu.index in holders:
            found.setdefault(gpu.type, []).append(gpu.index)
    return found


def _partitions(state: State, name: NodeName) -> list[str]:
    parts = state.site.partitions
    if not parts:
        return [ALL_NODES]
    return [part.name for part in parts if part.nodes is None or name in part.nodes]
