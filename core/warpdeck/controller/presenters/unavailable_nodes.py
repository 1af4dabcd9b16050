"""Lists the down or drained nodes among the nodes that a pending job may use.

squeue shows them after ReqNodeNotAvail. Tools that wait for jobs (ReFrame) read there whether waiting makes
sense. As in slurmctld, the candidates are the nodes that the job names, or else all nodes of its partitions.
All functions are pure.
"""

from __future__ import annotations

from warpdeck.controller.state.state import State
from warpdeck.model import Link, NodeName
from warpdeck.notation.values.hostlist import collapse
from warpdeck.policy.limits.access import partition_names

CODE = "ReqNodeNotAvail"


def reason(state: State, partition: str, named: tuple[str, ...]) -> str:
    """Return the reason of a job in this partition with the nodes `named` in its nodelist.

    The result is the code alone if none of these nodes is down or drained.
    """
    nodes = collapse([name for name in _may_have(state, partition, named) if not _is_available(state, name)])
    return f"{CODE}, UnavailableNodes:{nodes}" if nodes else CODE


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
