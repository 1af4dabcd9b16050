"""Partitions, reservations and licenses as objects of `scontrol show --json`. Pure.

Names and formats follow Slurm's data_parser v0.0.38.
"""

from __future__ import annotations

from warpdeck.slurm.fields.field import Field, Row, shaped, table
from warpdeck.slurm.fields.partition_fields import PARTITION
from warpdeck.slurm.fields.reservation_fields import RESERVATION

from .site_text import LICENSE

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


PARTITION_KEYS = """
flags=given_flags preemption_mode=preemption allowed_allocation_nodes== allowed_accounts=allow_accounts|joined
allowed_groups=allow_groups|joined allowed_qos=allow_qos|joined alternative== billing_weights== default_memory_per_cpu:=null
default_memory_per_node:=null default_time_limit=default_time_s|minutes denied_accounts=deny_accounts|joined
denied_qos=deny_qos|joined preemption_grace_time=grace_s maximum_cpus_per_node:=-1 maximum_memory_per_cpu:=null
maximum_memory_per_node:=null maximum_nodes_per_job=most_nodes max_time_limit=most_minutes min~nodes~per~job=min_nodes name
nodes=node_list over_time_limit:=null priority_job_factor priority_tier qos state total_cpus=cpus total_nodes=nodes
tres|tres-text
"""
"""The keys in the order in which Slurm prints them, with ~ for a blank, as in `field.table`."""
RESERVATION_KEYS = """
flags=shown_flags accounts burst_buffer core_count=cores core_spec_cnt:=0 end_time=end|unix features groups licenses
max_start_delay=max_start_delay_s name node_count node_list partition purge_completed start_time=start|unix watts=whole_watts
tres|tres-text users
"""
LICENSE_KEYS = "LicenseName=name Total=total Used=used Free=free Reserved=reserved Remote:=false"


def _most(name: str, unit: int = 1) -> Field:
    return shaped(PARTITION[name], lambda most: UNLIMITED if most is None else most // unit)


_PARTITION = table(
    PARTITION_KEYS,
    {
        **PARTITION,
        "given_flags": Field("", lambda row: [name for name in ("default", "exclusive_user") if row[name]]),
        "most_minutes": _most("max_time_s", 60),
        "most_nodes": _most("max_nodes"),
        "preemption": Field("", lambda row: PREEMPTION[row["preempt_mode"]]),
    },
)
_RESERVATION = table(
    RESERVATION_KEYS,
    {
        **RESERVATION,
        "purge_completed": shaped(RESERVATION["purge_after_s"], lambda seconds: {"time": seconds}),
        "shown_flags": shaped(
            RESERVATION["flags"], lambda flags: [flag for flag in flags if not flag.startswith(PURGE)]
        ),
        "whole_watts": shaped(RESERVATION["watts"], lambda watts: watts or NO_WATTS),
    },
)
_LICENSE = table(LICENSE_KEYS, LICENSE)


def partition_object(row: Row) -> Row:
    """Return a partition with its members as an object.

    Times are in minutes. Fields that our partitions do not have are null, -1 or "".
    """
    return {key.replace("~", " "): field.value(row) for key, field in _PARTITION.items()}


def reservation_object(row: Row) -> Row:
    """Return a reservation with its members as an object; times are Unix seconds."""
    found = {key: field.value(row) for key, field in _RESERVATION.items()}
    if row["purge_after_s"] is None:
        del found["purge_completed"]
    return found


def license_object(row: Row) -> Row:
    """Return one of the site's licenses as an object."""
    return {key: field.value(row) for key, field in _LICENSE.items()}
