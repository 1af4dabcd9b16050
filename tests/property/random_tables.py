"""Random tables of a site: partitions, QoS, accounts, users and reservations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from warpdeck.model import NodeName
from warpdeck.policy import AccountView, Limits, NodeView, PartitionView, QosView, ReservationView, UserView

NOW = 100_000.0
GIB = 2**30
USERS = ("ann", "bob", "cyd")
ACCOUNTS = ("lab", "vision", "speech", "guests")


def _limits(rng: Random) -> Limits:
    if rng.random() < 0.85:
        return Limits()
    return rng.choice(
        [
            Limits(grp_tres={"gres/gpu": rng.randint(0, 5)}),
            Limits(grp_tres={"cpu": rng.randint(1, 9)}),
            Limits(grp_tres={"node": rng.randint(1, 3)}),
            Limits(max_tres_per_user={"gres/gpu": rng.randint(0, 4)}),
            Limits(max_tres_per_user={"mem": rng.randint(1, 16) * 1024}),
            Limits(max_tres_per_account={"cpu": rng.randint(1, 9)}),
            Limits(max_tres_per_job={"gres/gpu": rng.randint(0, 3), "node": 2}),
            Limits(max_jobs_per_user=rng.randint(0, 2)),
            Limits(max_jobs_per_account=rng.randint(0, 2)),
            Limits(grp_jobs=rng.randint(1, 3)),
            Limits(max_wall_s=rng.choice([60, 3600])),
            Limits(grp_tres_mins={"gres/gpu": rng.choice([10, 200])}),
            Limits(grp_tres_run_mins={"cpu": rng.choice([10, 200])}),
            Limits(grp_wall_s=rng.choice([600, 6000])),
            Limits(max_tres_per_node={"gres/gpu": 1, "cpu": rng.randint(2, 9)}),
            Limits(max_tres_mins_per_job={"cpu": rng.choice([10, 200])}),
        ]
    )


def tables_of(rng: Random, nodes: tuple[NodeView, ...]) -> dict[str, Any]:
    """Return partitions, QoS, accounts with quotas, users, reservations and licenses."""
    names = [node.name for node in nodes]

    def some() -> frozenset[NodeName]:
        return frozenset(rng.sample(names, rng.randint(1, len(names))))

    return {
        "partitions": _partitions(rng, some),
        "qos": _qos(rng),
        "accounts": _accounts(rng),
        "users": _users(rng),
        "reservations": reservations_of(rng, some),
        "licenses": (("matlab", 2),),
    }


def _partitions(rng: Random, some: Callable[[], frozenset[NodeName]]) -> tuple[PartitionView, ...]:
    return tuple(
        PartitionView(
            name=name,
            nodes=some() if rng.random() < 0.3 else None,
            state="DOWN" if rng.random() < 0.08 else "UP",
            max_time_s=rng.choice([None, None, None, 3600]),
            default_time_s=rng.choice([None, 600]),
            max_nodes=2 if rng.random() < 0.15 else None,
            min_nodes=2 if rng.random() < 0.1 else 0,
            priority_tier=rng.choice([1, 1, 3]),
            allow_users=frozenset(("ann", "bob")) if rng.random() < 0.1 else None,
            allow_accounts=frozenset(("lab", "vision")) if rng.random() < 0.1 else None,
            deny_qos=frozenset(("low",)) if rng.random() < 0.1 else frozenset(),
            qos=rng.choice(["", "", "part"]),
            exclusive=rng.random() < 0.05,
            preempt_mode=rng.choice(["", "", "suspend"]),
        )
        for name in ("p1", "p2")
    )


def _qos(rng: Random) -> tuple[QosView, ...]:
    return (
        QosView(
            name="high",
            priority=10,
            preempts=frozenset({"low"}) if rng.random() < 0.6 else frozenset(),
            limits=_limits(rng),
            overrides_partition=rng.random() < 0.2,
        ),
        QosView(name="low", limits=_limits(rng), preempt_mode=rng.choice(["", "", "suspend", "cancel"])),
        QosView(name="normal", priority=5, limits=_limits(rng), preempt_exempt_s=rng.choice([0, 100])),
        QosView(name="part", limits=_limits(rng)),
    )


def _accounts(rng: Random) -> tuple[AccountView, ...]:
    return (
        AccountView(name="guests", limits=_limits(rng)),
        AccountView(name="lab", quota={"gres/gpu": rng.randint(1, 6)} if rng.random() < 0.3 else {}),
        AccountView(
            name="speech",
            parent="lab",
            quota={"gres/gpu": rng.randint(1, 3)} if rng.random() < 0.4 else {},
            limits=_limits(rng),
        ),
        AccountView(
            name="vision", parent="lab", quota={"gres/gpu": rng.randint(1, 3)} if rng.random() < 0.4 else {}
        ),
    )


def _users(rng: Random) -> tuple[UserView, ...]:
    return tuple(
        UserView(user=user, account=account, limits=_limits(rng) if rng.random() < 0.4 else Limits())
        for account in ACCOUNTS
        for user in USERS
    )


def reservations_of(rng: Random, some: Callable[[], frozenset[NodeName]]) -> tuple[ReservationView, ...]:
    made = tuple(
        ReservationView(
            name=f"r{number}",
            nodes=some(),
            start_unix=NOW + rng.choice([-100, -100, 500, 5000]),
            end_unix=NOW + rng.choice([300, 6000, float("inf")]),
            users=frozenset(rng.sample(USERS, 2)),
            maintenance=rng.random() < 0.4,
        )
        for number in range(2)
        if rng.random() < 0.2
    )
    kinds = Random(rng.getstate()[1][0])  # a separate generator, so that known examples do not change
    return tuple(_of_a_kind(kinds, each) for each in made if each.end_unix > each.start_unix)


def _of_a_kind(rng: Random, each: ReservationView) -> ReservationView:
    kind = rng.choice(["", "", "magnetic", "flex", "any_nodes", "both"])
    odd: dict[str, Any] = {name: kind in (name, "both") for name in ("magnetic", "flex")}
    odd["any_nodes"] = kind == "any_nodes"
    if rng.random() < 0.2:
        odd |= {"users": frozenset(), "deny_users": each.users}
    return msgspec.structs.replace(each, **odd)
