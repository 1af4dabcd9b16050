"""The tables of the "Site" screen: partitions, reservations, QoS, accounts, priorities, drains, events.

Each row also has a description.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec

from warpdeck.notation.filters.reservations import parts_in_words, users_in_words
from warpdeck.notation.values.durations import format_duration
from warpdeck.protocol.job_rows import EventRow
from warpdeck.protocol.node_rows import NodeRow
from warpdeck.protocol.site_rows import PartitionRow, PriorityRow, QosRow, ReservationRow, ShareRow
from warpdeck_tui.viewmodels.cells import Cell, age, plural
from warpdeck_tui.widgets.cell_grid import node_role
from warpdeck_tui.widgets.cells import Gauge, printable
from warpdeck_tui.widgets.columns import Column

Row = tuple[str, tuple[Cell | Gauge, ...]]
SHARE_BAR = 8
PARTITION_COLUMNS = (
    Column("PARTITION", 12, flex=1, most=20),
    Column("STATE", 8),
    Column("LIMIT", 11, align="right"),
    Column("NODES", 5, align="right"),
    Column("GPUS", 9, align="right"),
    Column("CPUS", 11, 2, align="right"),
    Column("TIER", 4, 3, align="right"),
    Column("ACCESS", 0, flex=4),
)
RESERVATION_COLUMNS = (
    Column("NAME", 14, flex=1, most=24),
    Column("STATE", 7),
    Column("START", 12),
    Column("DURATION", 9, align="right"),
    Column("REPEAT", 7, 2),
    Column("NODES", 12, flex=1),
    Column("USERS", 0, flex=3),
)
QOS_COLUMNS = (
    Column("QOS", 14, flex=1, most=24),
    Column("PRIORITY", 8, align="right"),
    Column("FACTOR", 6, align="right"),
    Column("PREEMPTS", 14, flex=1),
    Column("LIMITS", 0, flex=4),
)
ACCOUNT_COLUMNS = (
    Column("ACCOUNT OR USER", 20, flex=2, most=36),
    Column("SHARES", 6, align="right"),
    Column("SHARE", SHARE_BAR, 2, flex=1, most=14),
    Column("USAGE", SHARE_BAR, 2, flex=1, most=14),
    Column("LEVEL", 7, align="right"),
    Column("FAIRSHARE", 9, align="right"),
    Column("QUOTA", 0, 3, flex=2),
)
PRIORITY_COLUMNS = (
    Column("JOB", 10),
    Column("USER", 9),
    Column("PRIORITY", 9, align="right"),
    Column("AGE", 6, align="right"),
    Column("SHARE", 6, align="right"),
    Column("SIZE", 6, align="right"),
    Column("PART", 6, align="right"),
    Column("QOS", 6, align="right"),
    Column("TRES", 6, 2, align="right"),
    Column("NICE", 5, 2, align="right"),
)
DRAIN_COLUMNS = (
    Column("NODE", 14, flex=1, most=24),
    Column("STATE", 10),
    Column("SINCE", 7, align="right"),
    Column("GPUS", 7, 2, align="right"),
    Column("JOBS", 4, 2, align="right"),
    Column("BY", 8, 1, most=16),
    Column("REASON", 0, flex=4),
)
EVENT_COLUMNS = (Column("TIME", 12), Column("JOB", 10, align="right"), Column("EVENT", 0, flex=1))


def partition_rows(rows: Sequence[PartitionRow]) -> list[Row]:
    """Return the rows of partitions, in the order of the configuration."""
    return [
        (
            row.name,
            (
                Cell(row.name + "*" * row.default, "accent"),
                Cell(row.state, "" if row.state == "UP" else "warn"),
                Cell(format_duration(row.max_time_s)),
                Cell(str(row.nodes)),
                Cell(f"{row.gpus_used}/{row.gpus}"),
                Cell(f"{row.cpus_used}/{row.cpus}"),
                Cell(str(row.priority_tier)),
                Cell(admitted(row), "muted"),
            ),
        )
        for row in rows
    ]


def admitted(row: PartitionRow) -> str:
    """Return the users who may use a partition."""
    words = []
    if row.allow_groups is not None or row.allow_users is not None:
        groups = [f"group {name}" for name in row.allow_groups or ()]
        words.append(" or ".join([*groups, *(row.allow_users or ())]) or "no users")
    for title, allowed, denied in (
        ("account", row.allow_accounts, row.deny_accounts),
        ("QoS", row.allow_qos, row.deny_qos),
    ):
        words += [f"{title} {' or '.join(allowed)}"] if allowed is not None else []
        words += [f"not {title} {' or '.join(denied)}"] if denied else []
    return ", ".join(words) or "all users"


def partition_words(row: PartitionRow) -> str:
    """Return the states of the partition's nodes, and the limits for its jobs."""
    states = ", ".join(f"{count} {state}" for state, count in row.node_states.items())
    missing = f"; missing: {row.missing}" if row.missing else ""
    limits = [
        f"default time {format_duration(row.default_time_s)}" if row.default_time_s else "",
        f"at most {plural(row.max_nodes, 'node')}" if row.max_nodes is not None else "",
        f"limits of QoS {row.qos}" if row.qos else "",
        "whole nodes only" if row.exclusive else "",
        "one user per node" if row.exclusive_user else "",
    ]
    told = ", ".join(word for word in limits if word)
    return f"{row.node_list or 'no nodes'}: {states or 'none'}{missing}" + (f"; {told}" if told else "")


def reservation_rows(rows: Sequence[ReservationRow], *, now: float) -> list[Row]:
    """Return the rows of current and future reservations."""
    return [
        (
            row.name,
            (
                Cell(row.name, "accent"),
                Cell(row.state, "RUNNING" if row.state == "active" else "muted"),
                Cell(_moment(row.start)),
                Cell(_lasts(row)),
                Cell(row.repeat, "muted"),
                Cell(parts_in_words(msgspec.to_builtins(row.parts)) or row.node_list),
                Cell(_whom(row), "muted"),
            ),
        )
        for row in rows
    ]


def reservation_words(row: ReservationRow, *, now: float) -> str:
    """Return a description of a reservation: its time, and how jobs use it."""
    when = "Active" if row.state == "active" else "Ended" if row.state == "over" else "Starts"
    if row.state == "active":
        when += f", ends in {age(row.end - now)}" if row.end is not None else ", until it is removed"
    elif row.start is not None and row.start > now:
        when += f" in {age(row.start - now)}"
    if row.float_s is not None:
        return f"The start time is always {age(row.float_s)} from now, so only shorter jobs can start on the nodes."
    told = [
        f"{when}.",
        "Eligible jobs use it automatically (MAGNETIC)." if row.magnetic else "",
        ""
        if row.magnetic or _whom(row).startswith("nobody")
        else f"Jobs use it with --reservation={row.name}.",
        "Jobs may start before it, end after it and use other nodes (FLEX)." if row.flex else "",
        "Jobs may also use other nodes." if row.any_nodes and not row.flex else "",
        f"It is removed after {age(row.purge_after_s)} without jobs."
        if row.purge_after_s is not None
        else "",
        f"Failed nodes are replaced, to keep {row.node_count} nodes."
        if row.node_count and not row.static and not row.parts
        else "",
    ]
    return " ".join(filter(None, told))


def _moment(at: float | None) -> str:
    return "" if at is None else time.strftime("%d %b %H:%M", time.localtime(at))


def _lasts(row: ReservationRow) -> str:
    return format_duration(row.end - row.start) if row.start is not None and row.end is not None else "∞"


def _whom(row: ReservationRow) -> str:
    return users_in_words(msgspec.structs.asdict(row))


def qos_rows(rows: Sequence[QosRow]) -> list[Row]:
    """Return the rows of QoS, in the order of the configuration."""
    return [
        (
            row.name,
            (
                Cell(row.name, "accent"),
                Cell(str(row.priority)),
                Cell(f"{row.usage_factor:g}"),
                Cell(", ".join(row.preempts)),
                Cell(limit_words(row.limits) or "none", "muted"),
            ),
        )
        for row in rows
    ]


def qos_words(row: QosRow) -> str:
    """Return all limits of a QoS, and how its jobs are preempted."""
    mode = f"preempt mode {row.preempt_mode}" if row.preempt_mode else ""
    grace = f"grace time {row.grace_s} s" if row.grace_s else ""
    return ", ".join(words for words in (limit_words(row.limits) or "no limits", mode, grace) if words)


def limit_words(limits: Mapping[str, Mapping[str, int] | int]) -> str:
    """Return the limits as text, such as "max_tres_per_user gpu=8, max_jobs_per_user 4, max_wall
    12:00:00".
    """
    words = []
    for name, value in limits.items():
        if isinstance(value, Mapping):
            told = ",".join(f"{tres}={count}" for tres, count in value.items())
        else:
            told = format_duration(value) if name.endswith("_wall") else str(value)
        words.append(f"{name} {told}")
    return ", ".join(words)


def account_rows(rows: Sequence[ShareRow]) -> list[Row]:
    """Return the tree of accounts in the controller's order: siblings with the highest fair share come
    first.
    """
    return [
        (
            share_key(row),
            (
                Cell("  " * row.depth + (row.user or row.account), "" if row.user else "accent"),
                Cell(str(row.shares)),
                _percent(row.norm_shares, "muted"),
                _percent(row.norm_usage, "warn" if _over(row) else "accent"),
                Cell("unused" if row.level_fs is None else f"{row.level_fs:.2f}"),
                Cell("" if row.fairshare is None else f"{row.fairshare:.2f}"),
                Cell(" ".join(f"{tres}={count}" for tres, count in row.quota.items()), "muted"),
            ),
        )
        for row in rows
    ]


def _percent(part: float, style: str) -> Gauge:
    percent = round(100 * part)
    return Gauge(f"{percent}%", style, percent)


def share_key(row: ShareRow) -> str:
    """Return the key of a row. It contains the account, because a user can have several."""
    return f"{row.account} {row.user}"


def _over(row: ShareRow) -> bool:
    return row.level_fs is not None and row.level_fs < 1


def share_words(row: ShareRow, rows: Sequence[ShareRow], *, half_life_s: float | None) -> str:
    """Return an explanation of the fair share of an account or a user."""
    name = row.user or row.account
    among = f"of {row.account}" if row.user else f"of {row.parent}" if row.parent else "of the cluster"
    owed = f"{name} has a share of {100 * row.norm_shares:.0f} % {among}"
    if row.level_fs is None:
        first = f"{owed} and no recent usage, so it comes first."
    else:
        side = (
            "less than its share"
            if row.level_fs > 1
            else "more than its share"
            if row.level_fs < 1
            else "its share"
        )
        first = f"{owed} and used {100 * row.norm_usage:.0f} %: {side}, level {row.level_fs:.2f}."
    if row.fairshare is None:
        return first + (
            f" Usage decays with a half-life of {format_duration(half_life_s)}." if half_life_s else ""
        )
    users = sorted({each.fairshare for each in rows if each.fairshare is not None}, reverse=True)
    place = users.index(row.fairshare) + 1
    return f"{first} Rank {place} of {len(users)} users: fair-share factor {row.fairshare:.2f}."


def priority_rows(rows: Sequence[PriorityRow]) -> list[Row]:
    """Return the rows of priorities, the highest first."""
    return [
        (
            str(row.number or row.label),
            (
                Cell(row.label, "accent"),
                Cell(row.user, "muted"),
                Cell(str(row.priority)),
                *(_part(part) for part in _parts(row).values()),
                Cell(str(row.nice) if row.nice else "·", "" if row.nice else "muted"),
            ),
        )
        for row in rows
    ]


def _parts(row: PriorityRow) -> dict[str, float]:
    return {
        "age": row.age_part,
        "fairshare": row.fairshare_part,
        "size": row.job_size_part,
        "partition": row.partition_part,
        "QoS": row.qos_part,
        "resources": sum(row.tres_parts.values()),
    }


def _part(value: float) -> Cell:
    return Cell(f"{value:.0f}") if value else Cell("·", "muted")


def priority_words(row: PriorityRow, weights: Mapping[str, float]) -> str:
    """Return an explanation of a job's priority."""
    if row.set_by_hand:
        return f"{row.label}: priority {row.priority} was set by an admin, so no factors apply."
    named = {"size": "job_size", "QoS": "qos"}
    words = []
    if row.priority > 1 and any(weights.values()) and not any(_parts(row).values()):
        return f"{row.label}: priority {row.priority}. The scheduler tells no factors of this job."
    for part, value in _parts(row).items():
        most = weights.get(named.get(part, part), 0.0)
        if most:
            words.append(f"{value:.0f} of {most:.0f} for {part}")
        elif value:
            words.append(f"{value:.0f} for {part}")
    less = f", minus nice {row.nice}" if row.nice else ""
    if not words:
        return f"{row.label}: all priority weights are 0, so jobs start in queue order{less}."
    return f"{row.label}: {', '.join(words)}{less} = {row.priority}."


def drain_rows(nodes: Sequence[NodeRow], *, now: float) -> list[Row]:
    """Return the rows of nodes, those with a drain reason first."""
    return [
        (
            node.name,
            (
                Cell(node.name, "accent"),
                Cell(node.state, node_role(node.state)),
                Cell(age(now - node.reason_at) if node.reason_at else ""),
                Cell(f"{sum(bool(gpu.job) for gpu in node.gpus)}/{len(node.gpus)}"),
                Cell(str(len(node.jobs))),
                Cell(printable(node.reason_user), "muted"),
                Cell(printable(node.reason), "muted"),
            ),
        )
        for node in sorted(nodes, key=lambda node: (not node.reason, node.name))
    ]


def event_rows(events: Sequence[EventRow]) -> list[Row]:
    """Return the rows of events, the latest first. Each key begins with the job's id."""
    return [
        (
            f"{event.job} {len(events) - at}",
            (
                Cell(_second(event.at), "muted"),
                Cell(event.label or str(event.job), "accent"),
                Cell(printable(event.text)),
            ),
        )
        for at, event in enumerate(events)
    ]


def _second(at: float) -> str:
    return time.strftime("%a %H:%M:%S", time.localtime(at))
