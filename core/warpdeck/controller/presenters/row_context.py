"""The state at one point in time, as the columns of jobs read it.

Values that several columns need are computed once.
"""

from __future__ import annotations

import functools
from functools import cached_property

from warpdeck.controller.state.state import State
from warpdeck.controller.state.view import Namesakes
from warpdeck.model import Link, NodeName
from warpdeck.notation.values.hostlist import collapse
from warpdeck.policy.limits.access import partition_names

from . import node_counts

NODES_UNAVAILABLE = "ReqNodeNotAvail"
"""Slurm's reason for jobs that wait for nodes that are down or drained."""


class RowContext:
    """The state at one point in time, for the columns of many jobs."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now
        self.namesakes = Namesakes(state)
        self.largest = functools.cache(functools.partial(node_counts.largest, state))
        self.unavailable = functools.cache(functools.partial(unavailable_nodes_reason, state))

    @cached_property
    def whole_partitions(self) -> dict[str, str]:
        """Map each exclusive partition to Slurm's value for the sharing of nodes by its jobs: USER or NO."""
        parts = self.state.site.partitions
        users = {part.name: "USER" for part in parts if part.exclusive_user}
        return users | {part.name: "NO" for part in parts if part.exclusive}


def unavailable_nodes_reason(state: State, partition: str, named: tuple[str, ...]) -> str:
    """Return the reason of a job in this partition with the nodes `named` in its nodelist.

    squeue lists the nodes that are down or drained after the reason code. Tools that wait for jobs (ReFrame) read
    from this list whether the job can still start. As in slurmctld, the candidates are the nodes that the job
    names, or else all nodes of its partitions. The reason has no list if none of them is down or drained.
    """
    nodes = collapse([name for name in _may_have(state, partition, named) if not _is_available(state, name)])
    return f"{NODES_UNAVAILABLE}, UnavailableNodes:{nodes}" if nodes else NODES_UNAVAILABLE


def _may_have(state: State, partition: str, named: tuple[str, ...]) -> list[NodeName]:
    if named:
        return [NodeName(name) for name in named if name in state.nodes]
    among = set(partition_names(partition, state.site.settings))
    sets = [part.nodes for part in state.site.partitions if part.name in among]
    if not sets:
        return list(state.nodes)
    return [name for name in state.nodes if any(nodes is None or name in nodes for nodes in sets)]


def _is_available(state: State, name: NodeName) -> bool:
    return not state.nodes[name].drained and state.node_status.links.get(name) is not Link.LOST
