"""The lifecycle of a reservation."""

from __future__ import annotations

import math
from typing import Any

import pytest

from warpdeck.model import JobId, NodeName
from warpdeck.policy import ReservationView
from warpdeck.policy.reservations.lifecycle import (
    NodePool,
    ReservationActions,
    ReservationUse,
    next_deadline_unix,
    reservation_actions,
)

NOW = 1000.0
A, B, C, D = (NodeName(name) for name in "abcd")
ALL = frozenset((A, B, C, D))


def made(**facts: Any) -> ReservationView:
    plain = {
        "name": "r",
        "nodes": frozenset((A, B)),
        "start_unix": 0.0,
        "end_unix": 2000.0,
        "users": frozenset({"ann"}),
    }
    return ReservationView(**{**plain, **facts})


def actions(
    each: ReservationView,
    *,
    use: ReservationUse | None = None,
    pool: NodePool | None = None,
    now: float = NOW,
) -> ReservationActions:
    return reservation_actions(
        each, use or ReservationUse(), pool or NodePool(able=ALL, idle=ALL, spare=(C, D)), now
    )


@pytest.mark.parametrize(
    ("facts", "able", "idle", "spare", "nodes"),
    [
        ({}, "bcd", "bcd", "cd", "ab"),  # the nodes were named
        ({"node_count": 2}, "abcd", "cd", "cd", "ab"),
        ({"node_count": 2}, "bcd", "bcd", "cd", "bc"),
        ({"node_count": 2}, "cd", "cd", "c", "ab"),  # replaces all missing nodes, or none
        ({"node_count": 2, "replace": "down"}, "cd", "cd", "c", "ac"),
        ({"node_count": 2, "replace": "down"}, "abcd", "cd", "cd", "ab"),
        ({"node_count": 2, "replace": "busy"}, "abcd", "bcd", "cd", "bc"),
        ({"node_count": 2, "replace": "busy"}, "abcd", "d", "d", "ad"),
        ({"node_count": 2, "replace": "busy", "static": True}, "bcd", "d", "d", "ab"),
        ({"node_count": 2, "end_unix": NOW}, "bcd", "bcd", "cd", "ab"),
    ],
)
def test_nodes_are_replaced_only_if_a_node_count_was_requested(
    facts: dict[str, Any], able: str, idle: str, spare: str, nodes: str
) -> None:
    names = {
        key: [NodeName(each) for each in text]
        for key, text in (("able", able), ("idle", idle), ("spare", spare))
    }
    pool = NodePool(able=frozenset(names["able"]), idle=frozenset(names["idle"]), spare=tuple(names["spare"]))
    assert actions(made(**facts), pool=pool).nodes == frozenset(NodeName(each) for each in nodes)


def test_an_idle_reservation_is_purged_after_its_time() -> None:
    each = made(purge_after_s=60)
    assert actions(each).idle_since_unix == NOW and not actions(each).purged
    for use in (ReservationUse(waiting=(JobId(1),)), ReservationUse(running=((JobId(1), math.inf),))):
        assert actions(made(purge_after_s=60, idle_since_unix=NOW - 100), use=use).idle_since_unix is None
    assert not actions(made(purge_after_s=60, idle_since_unix=NOW - 59)).purged
    assert actions(made(purge_after_s=60, idle_since_unix=NOW - 60)).purged
    assert actions(made(purge_after_s=60, start_unix=NOW + 1)).idle_since_unix is None


def test_the_end_of_a_reservation_ends_running_jobs_and_drops_waiting_ones() -> None:
    use = ReservationUse(waiting=(JobId(1),), running=((JobId(2), NOW), (JobId(3), NOW + 1)))
    over = actions(made(end_unix=NOW), use=use)
    assert over.detached == (1,) and over.timed_out == (2,)
    assert actions(made(), use=use).detached == ()
    assert actions(made(end_unix=NOW, repeat="daily"), use=use).detached == (), "it comes again"
    flexible = ReservationUse(waiting=(JobId(1),), running=((JobId(2), math.inf),))
    assert actions(made(end_unix=NOW, flex=True), use=flexible).detached == (1, 2)


def test_the_next_deadline_is_the_next_action() -> None:
    assert next_deadline_unix(made(), ReservationUse()) == math.inf
    assert next_deadline_unix(made(), ReservationUse(waiting=(JobId(1),))) == 2000.0
    assert next_deadline_unix(made(), ReservationUse(running=((JobId(1), 1500.0),))) == 1500.0
    assert next_deadline_unix(made(purge_after_s=60, idle_since_unix=NOW), ReservationUse()) == NOW + 60
    assert next_deadline_unix(made(float_s=60), ReservationUse(waiting=(JobId(1),))) == math.inf


@pytest.mark.parametrize(
    ("facts", "user", "account", "allowed"),
    [
        ({}, "ann", "x", True),
        ({}, "bob", "x", False),
        ({"accounts": frozenset({"lab"})}, "ann", "x", False),  # both must match
        ({"accounts": frozenset({"lab"})}, "ann", "lab", True),
        ({"users": frozenset(), "deny_users": frozenset({"ann"})}, "ann", "x", False),
        ({"users": frozenset(), "deny_users": frozenset({"ann"})}, "bob", "x", True),
        ({"deny_accounts": frozenset({"x"})}, "ann", "x", False),
        ({"users": frozenset(), "maintenance": True}, "ann", "x", False),
        ({"float_s": 600}, "ann", "x", False),
    ],
)
def test_users_and_accounts_decide_who_is_admitted(
    facts: dict[str, Any], user: str, account: str, allowed: bool
) -> None:
    assert made(**facts).admits(user, account) == allowed
