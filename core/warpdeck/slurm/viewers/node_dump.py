"""A node as `sinfo --json` and `scontrol show node --json` show it.

Names and formats are those of Slurm's data_parser.
"""

from __future__ import annotations

from typing import Any

from warpdeck.base.slurm_version import RELEASE
from warpdeck.slurm.format.format_strings import Row
from warpdeck.slurm.format.node_values import cpu_load, free_mib, gres, gres_used
from warpdeck.slurm.format.units import MIB, tres_text


def node_object(node: Row) -> dict[str, Any]:
    """Return the node's properties as JSON values. Memory is in MiB, times are Unix seconds."""
    return {
        "architecture": node["arch"],
        "burstbuffer_network_address": "",
        "boards": 1,
        "boot_time": int(node["booted"] or 0),
        "comment": node["comment"],
        "cores": node["cores"],
        "cpu_binding": 0,
        "extra": node["extra"],
        "cpus": node["cpus"],
        "last_busy": 0,
        "features": ",".join(node["features"]),
        "active_features": ",".join(node["features"]),
        "mcs_label": "",
        "name": node["name"],
        "next_state_after_reboot": "invalid",
        "address": node["address"],
        "hostname": node["hostname"],
        "next_state_after_reboot_flags": [],
        "operating_system": node["kernel"],
        "owner": None,
        "partitions": node["partitions"],
        "port": 0,
        "slurmd_start_time": int(node["agent_start"] or 0),
        "sockets": node["sockets"],
        "threads": node["threads"],
        "temporary_disk": node["tmp_disk_bytes"] // MIB,
        "weight": node["weight"],
        "slurmd_version": RELEASE,
        **_state(node),
        **_amounts(node),
    }


def _state(node: Row) -> dict[str, Any]:
    flags = (
        ("maintenance", "MAINTENANCE"),
        ("reserved", "RESERVED"),
        ("drained", "DRAIN"),
        ("completing", "COMPLETING"),
    )
    found = [word for key, word in flags if node[key]]
    return {
        "state": node["base"],
        "state_flags": found if node["responding"] else [*found, "NOT_RESPONDING"],
        "reason": node["reason"],
        "reason_changed_at": int(node["reason_at"] or 0),
        "reason_set_by_user": "root" if node["reason"] else None,
    }


def _amounts(node: Row) -> dict[str, Any]:
    mem, held = node["mem_bytes"] // MIB, node["mem_alloc_bytes"] // MIB
    cpus, used_cpus = node["cpus"], node["cpus_used"]
    load = cpu_load(node)
    used_gpus = sum(len(node["gpus_used"].get(kind, ())) for kind in node["gpus"])
    return {
        "cpu_load": None if load is None else round(load),
        "free_memory": free_mib(node),
        "gres": gres(node),
        "gres_drained": "N/A",
        "gres_used": gres_used(node),
        "real_memory": mem,
        "tres": tres_text({"cpu": cpus, "mem": mem, "billing": cpus, "gres/gpu": sum(node["gpus"].values())}),
        "alloc_memory": held,
        "alloc_cpus": used_cpus,
        "idle_cpus": cpus - used_cpus,
        "tres_used": tres_text({"cpu": used_cpus, "mem": held, "gres/gpu": used_gpus}) or None,
        "tres_weighted": float(used_cpus),
    }
