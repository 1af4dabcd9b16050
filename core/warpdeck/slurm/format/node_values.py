"""Values of a node that sinfo and JSON show, computed from its `NodeFacts`. Pure functions."""

from __future__ import annotations

from .format_strings import Row
from .units import MIB, gpus_text, gres_text


def gres(node: Row) -> str:
    """Return the GPUs by type, for example gpu:a100:4."""
    return gres_text(node["gpus"])


def gres_used(node: Row) -> str:
    """Return the allocated GPUs by type, for example gpu:a100:2(IDX:0-1)."""
    return ",".join(gpus_text(kind, node["gpus_used"].get(kind, [])) for kind in node["gpus"])


def cpu_load(node: Row) -> float | None:
    """Return the load in hundredths of a CPU, or None if it was not measured."""
    return None if node["cpu_pct"] is None else node["cpu_pct"] * node["cpus"]


def free_mib(node: Row) -> int | None:
    """Return the free memory in MiB, or None if it was not measured."""
    used = node["mem_used_bytes"]
    return None if used is None else (node["mem_bytes"] - used) // MIB
