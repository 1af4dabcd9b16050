"""Fields of a partition: one entry each for sinfo, scontrol and JSON. Pure functions.

A row is a partition of the controller. `with_members` adds the rows of its nodes, from which its memory is counted.
"""

from __future__ import annotations

from collections.abc import Mapping

from warpdeck.slurm.format.units import MIB

from .field import Field, Row, sent


def with_members(row: Row, nodes: Mapping[str, Row]) -> Row:
    """Return a partition or reservation with the rows of its existing nodes. `nodes` holds all nodes by name."""
    from warpdeck.notation.values.hostlist import expand

    return {**row, "members": [nodes[name] for name in expand(row["node_list"]) if name in nodes]}


def _tres(row: Row) -> dict[str, int]:
    return {
        "cpu": row["cpus"],
        "mem": sum(node["mem_bytes"] for node in row["members"]) // MIB,
        "node": row["nodes"],
        "billing": row["cpus"],
        "gres/gpu": row["gpus"],
    }


PARTITION: dict[str, Field] = {
    **sent(
        "allow_accounts allow_groups allow_qos cpus default default_time_s deny_accounts deny_qos exclusive_user grace_s "
        "max_nodes max_time_s min_nodes name node_list nodes priority_job_factor priority_tier qos state"
    ),
    "oversubscribe": Field("", lambda row: "EXCLUSIVE" if row["exclusive"] else "NO"),
    "preempt_mode": Field("", lambda row: (row["preempt_mode"] or "off").upper()),
    "tres": Field("", _tres),
}
"""Field -> its entry. Times are in seconds."""
