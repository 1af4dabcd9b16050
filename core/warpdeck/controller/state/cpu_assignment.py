"""Record in a request the number of threads per core on the nodes where it may run. Pure functions.

The planner needs this number to compute the CPUs that a request holds if it uses only some threads of each
core.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from warpdeck.model import Node, Request
from warpdeck.policy.limits.access import partition_names

if TYPE_CHECKING:
    from .state import State


def with_core_threads(state: State, request: Request) -> Request:
    """Return the request with the largest number of threads per core on the nodes of its partitions.

    The request is returned unchanged if it asks for no thread or core layout. On nodes with fewer threads per
    core it holds more cores.
    """
    requested = request.resources
    if requested.threads_per_core is None and requested.tasks_per_core is None:
        return request
    most = max((node.topology.or_flat(node.cpus).threads for node in _nodes(state, request)), default=1)
    return msgspec.structs.replace(
        request, resources=msgspec.structs.replace(requested, core_threads=max(1, most))
    )


def _nodes(state: State, request: Request) -> Iterator[Node]:
    names = partition_names(request.partition, state.site.settings)
    within = [part.nodes for part in state.site.partitions if part.name in names]
    for name, node in state.nodes.items():
        if not within or any(nodes is None or name in nodes for nodes in within):
            yield node
