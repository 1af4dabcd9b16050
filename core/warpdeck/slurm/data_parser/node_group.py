"""A line of `sinfo --json` in newer layouts: a partition, and those of its nodes that are in the same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpdeck.slurm.fields.field import Field, Row
from warpdeck.slurm.fields.node_fields import NODE

from .layout import Keys, Layout
from .node import states
from .numbers import number_object
from .partition import LAYOUT as PARTITION_LAYOUT

MAIN = """
port:=0 node.state=states nodes.allocated=allocated nodes.idle=idle nodes.other=other nodes.total=total
nodes.hostnames:=[] nodes.addresses:=[] nodes.nodes=names cpus.allocated=cpus_allocated cpus.idle=cpus_idle
cpus.other=cpus_other cpus.total=cpus_total cpus.minimum=cpus_least cpus.maximum=cpus_most
cpus.load.minimum=load_least cpus.load.maximum=load_most cpus.per_node.max=infinite sockets.minimum=sockets_least
sockets.maximum=sockets_most cores.minimum=cores_least cores.maximum=cores_most threads.minimum=threads_least
threads.maximum=threads_most disk.minimum=disk_least disk.maximum=disk_most memory.minimum=memory_least
memory.maximum=memory_most memory.free.minimum=free_least memory.free.maximum=free_most
memory.allocated=memory_allocated weight.minimum=weight_least weight.maximum=weight_most features.total=features
features.active=features gres.total=gres gres.used=gres_used cluster== comment extra reason.description=reason
reason.time=reason_at reservation== resource_spec.cpus== resource_spec.memory:=0
"""
BUSY = ("allocated", "mixed")


def _use(node: Row) -> str:
    if node["base"] in BUSY:
        return "allocated"
    return "idle" if node["base"] == "idle" and not node["drained"] and node["responding"] else "other"


def _count(use: str) -> Field:
    return Field("", lambda row: sum(_use(node) == use for node in row["nodes"]))


def _sum(amount: Callable[[Row], int]) -> Field:
    return Field("", lambda row: sum(amount(node) for node in row["nodes"]))


def _first(name: str, *, empty: Any = "") -> Field:
    """Return a field of the group's first node."""
    value = NODE[name].value
    return Field("", lambda row: (value(row["nodes"][0]) or empty) if row["nodes"] else empty)


def _range(key: str, name: str) -> dict[str, Field]:
    """Return the fields of the smallest and the largest value of the group's nodes."""
    value = NODE[name].value

    def pick(choose: Callable[..., int]) -> Field:
        return Field("", lambda row: choose((int(value(node)) for node in row["nodes"]), default=0))

    return {f"{key}_least": pick(min), f"{key}_most": pick(max)}


def _is_other(node: Row) -> bool:
    return bool(node["drained"]) or node["base"] in ("down", "unknown")


def _spare(node: Row, *, other: bool) -> int:
    """Return the CPUs that no job holds, if the node is usable, or with `other` if it is not."""
    return int(node["cpus"] - node["cpus_used"]) if _is_other(node) is other else 0


def _load(choose: Callable[..., float]) -> Field:
    loads = NODE["cpu_load"].value
    return Field("", lambda row: round(100 * choose((loads(node) or 0 for node in row["nodes"]), default=0)))


def _free(choose: Callable[..., int]) -> Field:
    """Return the smallest or largest free memory of the nodes, as far as it was measured."""
    value = NODE["free_memory"].value

    def free(row: Row) -> Row:
        found = [mib for node in row["nodes"] if (mib := value(node)) is not None]
        return number_object(choose(found) if found else None)

    return Field("", free)


FIELDS: dict[str, Field] = {
    "allocated": _count("allocated"),
    "comment": _first("comment"),
    "cpus_allocated": _sum(lambda node: int(node["cpus_used"])),
    "cpus_idle": _sum(lambda node: _spare(node, other=False)),
    "cpus_other": _sum(lambda node: _spare(node, other=True)),
    "cpus_total": _sum(lambda node: int(node["cpus"])),
    "extra": _first("extra"),
    "features": _first("features"),
    "free_least": _free(min),
    "free_most": _free(max),
    "gres": _first("gres"),
    "gres_used": _first("gres_used"),
    "idle": _count("idle"),
    "load_least": _load(min),
    "load_most": _load(max),
    "memory_allocated": _sum(NODE["memory_used"].value),
    "names": Field("", lambda row: [node["name"] for node in row["nodes"]]),
    "other": _count("other"),
    "reason": _first("reason"),
    "reason_at": Field("", lambda row: int(row["nodes"][0]["reason_at"] or 0) if row["nodes"] else 0),
    "states": Field("", lambda row: states(row["nodes"][0]) if row["nodes"] else []),
    "total": Field("", lambda row: len(row["nodes"])),
    "author": _first("author"),
    **_range("cores", "cores"),
    **_range("cpus", "cpus"),
    **_range("disk", "tmp_disk"),
    **_range("memory", "memory"),
    **_range("sockets", "sockets"),
    **_range("threads", "threads"),
    **_range("weight", "weight"),
}
LAYOUT = Layout(
    Keys(41, 45, MAIN),
    Keys(41, 44, "reason.user=author"),
    Keys(45, 45, "reason_set_by_user=author"),
    fields=FIELDS,
)


def group_object(row: Row, version: int) -> Row:
    """Return the object of a group. `row` has a partition with its members, and the nodes of the group."""
    return {**LAYOUT.object(row, version), "partition": PARTITION_LAYOUT.object(row["part"], version)}
