"""Partitions, reservations and licenses as objects of `scontrol show --json`. Pure.

Names and formats follow Slurm's data_parser v0.0.38.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from warpdeck.slurm.format.units import tres_text

from .site_text import Row, members, partition_tres, reservation_flags, reservation_tres, whose

UNLIMITED = -1
NO_WATTS = 4_294_967_294
"""Slurm's NO_VAL, which 22.05 prints instead of null."""
PURGE = "PURGE_COMP"
"""A flag that is shown as a separate field."""
PREEMPTION = {
    "": ["disabled"],
    "off": ["disabled"],
    "requeue": ["requeue"],
    "suspend": ["suspend"],
    "cancel": [],
}
"""Our preemption mode -> Slurm's names; 22.05 has none for CANCEL."""


def partition_object(row: Row, nodes: Mapping[str, Row]) -> Row:
    """Return a partition as an object; `nodes` holds all nodes by name.

    Times are in minutes. Fields that our partitions do not have are null, -1 or "".
    """
    flags = {"default": row["default"], "exclusive_user": row["exclusive_user"]}
    return {
        "flags": [name for name, given in flags.items() if given],
        "preemption_mode": PREEMPTION[row["preempt_mode"]],
        "allowed_allocation_nodes": "",
        "allowed_accounts": _names(row["allow_accounts"]),
        "allowed_groups": _names(row["allow_groups"]),
        "allowed_qos": _names(row["allow_qos"]),
        "alternative": "",
        "billing_weights": "",
        "default_memory_per_cpu": None,
        "default_memory_per_node": None,
        "default_time_limit": _minutes(row["default_time_s"]),
        "denied_accounts": _names(row["deny_accounts"]),
        "denied_qos": _names(row["deny_qos"]),
        "preemption_grace_time": row["grace_s"],
        "maximum_cpus_per_node": UNLIMITED,
        "maximum_memory_per_cpu": None,
        "maximum_memory_per_node": None,
        "maximum_nodes_per_job": UNLIMITED if row["max_nodes"] is None else row["max_nodes"],
        "max_time_limit": _minutes(row["max_time_s"], none=UNLIMITED),
        "min nodes per job": row["min_nodes"],
        "name": row["name"],
        "nodes": row["node_list"],
        "over_time_limit": None,
        "priority_job_factor": row["priority_job_factor"],
        "priority_tier": row["priority_tier"],
        "qos": row["qos"],
        "state": row["state"],
        "total_cpus": row["cpus"],
        "total_nodes": row["nodes"],
        "tres": tres_text(partition_tres(row, nodes)),
    }


def reservation_object(row: Row, nodes: Mapping[str, Row]) -> Row:
    """Return a reservation as an object; times are Unix seconds."""
    tres, purge_s = reservation_tres(row, nodes), row["purge_after_s"]
    return {
        "flags": [flag for flag in reservation_flags(row, nodes) if not flag.startswith(PURGE)],
        "accounts": whose(row, "accounts"),
        "burst_buffer": row["burst_buffer"],
        "core_count": tres["cpu"],
        "core_spec_cnt": 0,
        "end_time": int(row["end"] or 0),
        "features": row["features"],
        "groups": ",".join(row["groups"]),
        "licenses": ",".join(f"{name}:{count}" for name, count in row["licenses"]),
        "max_start_delay": row["max_start_delay_s"],
        "name": row["name"],
        "node_count": len(members(row, nodes)),
        "node_list": row["node_list"],
        "partition": row["partition"],
        **({} if purge_s is None else {"purge_completed": {"time": purge_s}}),
        "start_time": int(row["start"] or 0),
        "watts": row["watts"] or NO_WATTS,
        "tres": tres_text(tres),
        "users": "" if row["groups"] else whose(row, "users"),
    }


def license_object(row: Row) -> dict[str, Any]:
    """Return one of the site's licenses as an object."""
    return {
        "LicenseName": row["name"],
        "Total": row["total"],
        "Used": row["used"],
        "Free": row["total"] - row["used"],
        "Reserved": row["reserved"],
        "Remote": False,
    }


def _names(names: Iterable[str] | None) -> str:
    return ",".join(names or ())


def _minutes(seconds: int | None, *, none: int | None = None) -> int | None:
    return none if seconds is None else seconds // 60
