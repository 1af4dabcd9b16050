"""Partitions, reservations, licenses and QoS as rows for clients.

The rows contain configured values and the present usage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable

from warpdeck.base.cluster import ALL_NODES
from warpdeck.config import Config
from warpdeck.config.tables import LimitTable, Partition, Qos
from warpdeck.controller.state.state import State
from warpdeck.model import NodeName
from warpdeck.model.reservation import ReservationSpec
from warpdeck.notation.values.hostlist import collapse
from warpdeck.policy import ReservationView
from warpdeck.protocol.site_rows import LicenseRow, PartitionRow, QosRow, ReservationRow

from .node_now import NodeNow, node_now


def partition_rows(state: State, config: Config) -> list[PartitionRow]:
    """Return the partitions by name, or one partition with all nodes if none is configured."""
    now = {name: node_now(state, state.nodes[name]) for name in sorted(state.nodes)}
    if not config.partitions:
        default_s = config.scheduler.default_time
        return [_partition_row(ALL_NODES, Partition(default_time=default_s), now, default=True)]
    default = state.site.settings.default_partition
    positions = {name: index for index, name in enumerate(config.partitions)}
    return [
        _partition_row(name, table, now, default=name == default, position=positions[name])
        for name, table in sorted(config.partitions.items())
    ]


def _partition_row(
    name: str, table: Partition, now: dict[NodeName, NodeNow], *, default: bool, position: int = 0
) -> PartitionRow:
    named = None if table.nodes is None else {NodeName(node) for node in table.nodes}
    present = [node for node in now if named is None or node in named]
    nodes = [now[node] for node in present]
    states = [each.state for each in nodes]
    return PartitionRow(
        name=name,
        position=position,
        default=default,
        state=table.state,
        node_list=collapse(present),
        missing=collapse(sorted((named or set()) - now.keys())),
        node_states={each: states.count(each) for each in sorted(set(states))},
        nodes=len(nodes),
        cpus=sum(each.node.cpus for each in nodes),
        cpus_used=sum(each.cpus_used for each in nodes),
        gpus=sum(len(each.node.gpus) for each in nodes),
        gpus_used=sum(each.gpus_used() for each in nodes),
        max_time_s=table.max_time,
        default_time_s=table.default_time,
        min_nodes=table.min_nodes,
        max_nodes=table.max_nodes,
        priority_tier=table.priority_tier,
        priority_job_factor=table.priority_job_factor,
        preempt_mode=table.preempt_mode,
        grace_s=table.grace_s,
        qos=table.qos,
        exclusive=table.exclusive,
        exclusive_user=table.exclusive_user,
        allow_groups=_names(table.allow_groups),
        allow_users=_names(table.allow_users),
        allow_accounts=_names(table.allow_accounts),
        deny_accounts=list(table.deny_accounts),
        allow_qos=_names(table.allow_qos),
        deny_qos=list(table.deny_qos),
    )


def _names(allowed: Iterable[str] | None) -> list[str] | None:
    return None if allowed is None else list(allowed)


def reservation_rows(reservations: Collection[ReservationView], now: float) -> list[ReservationRow]:
    """Return the reservations, including those that are over, ordered by start time."""
    return [
        ReservationRow(
            state="over" if each.end_unix <= now else "future" if each.start_unix > now else "active",
            node_list=collapse(sorted(each.nodes)),
            start=each.start_unix or None,
            end=None if math.isinf(each.end_unix) else each.end_unix,
            users=sorted(each.users),
            accounts=sorted(each.accounts),
            deny_users=sorted(each.deny_users),
            deny_accounts=sorted(each.deny_accounts),
            **{name: getattr(each, name) for name in ReservationSpec.__struct_fields__},
        )
        for each in sorted(reservations, key=lambda each: (each.start_unix, each.name))
    ]


def license_rows(state: State, reservations: Iterable[ReservationView], now: float) -> list[LicenseRow]:
    """Return the site's licenses by name."""
    used, reserved = Counter[str](), Counter[str]()
    for job_id in state.index.active:
        used.update(dict(state.jobs[job_id].request.licenses))
    for each in reservations:
        if each.start_unix <= now < each.end_unix:
            reserved.update(dict(each.licenses))
    return [
        LicenseRow(name=name, total=total, used=used[name], reserved=reserved[name])
        for name, total in state.site.licenses
    ]


def qos_rows(config: Config) -> list[QosRow]:
    """Return the QoS, highest priority first."""
    tables = sorted(config.qos.items(), key=lambda entry: (-entry[1].priority, entry[0]))
    return [_qos_row(name, table) for name, table in tables]


def _qos_row(name: str, table: Qos) -> QosRow:
    return QosRow(
        name=name,
        priority=table.priority,
        preempts=list(table.preempts),
        preempt_mode=table.preempt_mode,
        grace_s=table.grace_s,
        usage_factor=table.usage_factor,
        limits=limits_of(table),
    )


def limits_of(table: LimitTable) -> dict[str, dict[str, int] | int]:
    """Return the limits that are set, by their names in config.toml."""
    found = {field: getattr(table, field) for field in LimitTable.__struct_fields__}
    return {field: value for field, value in found.items() if value is not None and value != {}}
