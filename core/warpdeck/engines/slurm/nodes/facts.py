"""The facts of a node for the commands that print them. The function is pure."""

from __future__ import annotations

from warpdeck.engines.slurm.cluster.cluster import Cluster
from warpdeck.engines.slurm.reading.node_table import is_drained
from warpdeck.model import JobState, NodeName
from warpdeck.protocol.node_rows import NodeFacts, NodeRow

BASES = frozenset({"idle", "mixed", "allocated", "down"})
SAME = (
    *(
        "name",
        "hostname",
        "address",
        "state",
        "reason",
        "reason_at",
        "reason_user",
        "cpus",
        "sockets",
        "cores",
    ),
    *(
        "threads",
        "cpus_used",
        "cpu_pct",
        "mem_bytes",
        "tmp_disk_bytes",
        "mem_alloc_bytes",
        "mem_used_bytes",
        "features",
    ),
    *("weight", "comment", "extra", "kernel", "arch", "booted", "agent_start", "owner", "at"),
)
"""Fields that a row and the facts have in common."""


def node_facts(cluster: Cluster, row: NodeRow) -> NodeFacts:
    """Return the facts of the node with this row."""
    name = NodeName(row.name)
    flags = cluster.nodes.flags.get(name, frozenset())
    base = next((word for word in BASES if word in flags), "unknown")
    gpus: dict[str, int] = {}
    used: dict[str, list[int]] = {}
    for gpu in row.gpus:
        gpus[gpu.type] = gpus.get(gpu.type, 0) + 1
        if gpu.job:
            used.setdefault(gpu.type, []).append(gpu.index)
    return NodeFacts(
        **{field: getattr(row, field) for field in SAME},
        base=base,
        drained=is_drained(flags),
        responding="not_responding" not in flags,
        maintenance="maint" in flags or "maintenance" in flags,
        reserved=bool(flags & {"reserved", "maint", "maintenance"}),
        completing="completing" in flags
        or any(job.state is JobState.COMPLETING for job in cluster.state.jobs_on(name)),
        gpus=gpus,
        gpus_used=used,
        partitions=cluster.nodes.partitions.get(name, []),
    )
