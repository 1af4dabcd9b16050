"""The description of Slurm's nodes for their past: their sizes, and that nothing was measured.

The rows themselves are those of both engines (`engines.shared.past_nodes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from warpdeck.engines.shared.past_nodes import NOTHING, PastAnswer
from warpdeck.model import Gpu, GpuUuid, Node, NodeName
from warpdeck.protocol.node_rows import NodeRow

NOT_KEPT = "Slurm keeps no measurements of nodes"


class NoMeasurements:
    """The `PastMeasurements` of Slurm's nodes."""

    async def read(self, nodes: Sequence[Node], at_unix: float) -> list[PastAnswer]:
        return [NOTHING._replace(unknown=NOT_KEPT)] * len(nodes)


def described(row: NodeRow) -> Node:
    """Return the sizes of the node with this row. Slurm does not tell since when it has the node."""
    return Node(
        name=NodeName(row.name),
        target=row.address,
        hostname=row.hostname,
        address=row.address,
        cpus=row.cpus,
        mem_bytes=row.mem_bytes,
        gpus=tuple(
            Gpu(
                index=gpu.index,
                uuid=GpuUuid(gpu.uuid),
                name=gpu.name,
                type=gpu.type,
                mem_bytes=gpu.mem_bytes,
            )
            for gpu in row.gpus
        ),
    )
