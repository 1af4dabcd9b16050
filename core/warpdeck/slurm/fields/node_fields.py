"""Fields of a node: one entry each for sinfo, scontrol, sacctmgr and JSON. Pure functions.

A row is a `NodeFacts` of the controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from warpdeck.base.passwd import uid_of
from warpdeck.slurm.format.units import MIB, gpus_text, gres_text

from .field import Field, Row, sent
from .node_states import complete_word, long_word, short_word, whole_word

ADMIN = "root"
"""User shown as the author of a reason that the controller gave itself."""


def author(node: Row) -> str:
    """Return the user who gave the node's reason."""
    return str(node.get("reason_user") or ADMIN)


def with_uid(name: str) -> str:
    """Return a user's name with its uid, such as root(0)."""
    uid = uid_of(name)
    return name if uid is None else f"{name}({uid})"


def _gres_used(node: Row) -> str:
    """Return the allocated GPUs by type, for example gpu:a100:2(IDX:0-1)."""
    return ",".join(gpus_text(kind, node["gpus_used"].get(kind, [])) for kind in node["gpus"])


def _cpu_load(node: Row) -> float | None:
    """Return the load in CPUs, or None if it was not measured."""
    return None if node["cpu_pct"] is None else node["cpu_pct"] * node["cpus"] / 100


def _free_mib(node: Row) -> int | None:
    """Return the free memory in MiB, or None if it was not measured."""
    used = node["mem_used_bytes"]
    return None if used is None else max(0, node["mem_bytes"] - used) // MIB


def in_configured_order(nodes: Iterable[Row], partitions: Iterable[Row]) -> list[Row]:
    """Return the nodes with their partitions in the order of config.toml, as in Slurm."""
    positions = {part["name"]: int(part["position"]) for part in partitions}
    return [
        {**node, "partitions": sorted(node["partitions"], key=lambda name: positions.get(name, 0))}
        for node in nodes
    ]


def node_tres(node: Row) -> dict[str, int]:
    """Return the TRES that a node has."""
    return {
        "cpu": node["cpus"],
        "mem": node["mem_bytes"] // MIB,
        "billing": node["cpus"],
        "gres/gpu": sum(node["gpus"].values()),
    }


def tres_of_all(nodes: Iterable[Row]) -> dict[str, int]:
    """Return the sums of the TRES of these nodes."""
    sums: dict[str, int] = {}
    for node in nodes:
        for tres, count in node_tres(node).items():
            sums[tres] = sums.get(tres, 0) + count
    return sums


def _tres_used(node: Row) -> dict[str, int]:
    """Return the TRES of a node that jobs hold."""
    gpus = sum(len(node["gpus_used"].get(kind, ())) for kind in node["gpus"])
    return {"cpu": node["cpus_used"], "mem": node["mem_alloc_bytes"] // MIB, "gres/gpu": gpus}


def _mib(column: str) -> Field:
    return Field("", lambda node: int(node[column]) // MIB)


NODE: dict[str, Field] = {
    **sent(
        "agent_start arch at base booted comment cores cpus cpus_used extra kernel name owner partitions reason reason_at "
        "sockets threads weight"
    ),
    "address": Field("", lambda node: node["address"] or node["name"]),
    "author": Field("", lambda node: author(node) if node["reason"] else None),
    "cpu_load": Field("", _cpu_load),
    "features": Field("", lambda node: ",".join(node["features"])),
    "free_memory": Field("", _free_mib),
    "gres": Field("", lambda node: gres_text(node["gpus"])),
    "gres_used": Field("", _gres_used),
    "hostname": Field("", lambda node: node["hostname"] or node["name"]),
    "memory": _mib("mem_bytes"),
    "memory_used": _mib("mem_alloc_bytes"),
    "state": Field("", whole_word),
    "state_complete": Field("", complete_word),
    "state_long": Field("", long_word),
    "state_short": Field("", short_word),
    "tmp_disk": _mib("tmp_disk_bytes"),
    "tres": Field("", node_tres),
    "tres_used": Field("", _tres_used),
}
"""Field -> its entry. It needs no columns, because the controller sends whole rows. Sizes are in MiB."""
