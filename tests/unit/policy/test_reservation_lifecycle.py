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


def tended(
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
        ({}, "bcd", "bcd", "cd", "ab"),  # they were named
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
def test_nodes_give_way_only_where_so_many_were_asked_for(
    facts: dict[str, Any], able: str, idle: str, spare: str, nodes: str
) -> None:
    names = {
        what: [NodeName(each) for each in text]
        for what, text in (("able", able), ("idle", idle), ("spare", spare))
    }
    pool = NodePool(able=frozenset(names["able"]), idle=frozenset(names["idle"]), spare=tuple(names["spare"]))
    assert tended(made(**facts), pool=pool).nodes == frozenset(NodeName(each) for each in nodes)


def test_one_that_is_idle_for_its_time_is_purged() -> None:
    each = made(purge_after_s=60)
    assert tended(each).idle_since_unix == NOW and not tended(each).purged
    for use in (ReservationUse(waiting=(JobId(1),)), ReservationUse(running=((JobId(1), math.inf),))):
        assert tended(made(purge_after_s=60, idle_since_unix=NOW - 100), use=use).idle_since_unix is None
    assert not tended(made(purge_after_s=60, idle_since_unix=NOW - 59)).purged
    assert tended(made(purge_after_s=60, idle_since_unix=NOW - 60)).purged
    assert tended(made(purge_after_s=60, start_unix=NOW + 1)).idle_since_unix is None


def test_when_it_is_over_it_ends_those_that_run_and_loses_those_that_wait() -> None:
    use = ReservationUse(waiting=(JobId(1),), running=((JobId(2), NOW), (JobId(3), NOW + 1)))
    over = tended(made(end_unix=NOW), use=use)
    assert over.detached == (1,) and over.timed_out == (2,)
    assert tended(made(), use=use).detached == ()
    assert tended(made(end_unix=NOW, repeat="daily"), use=use).detached == (), "it comes again"
    flexible = ReservationUse(waiting=(JobId(1),), running=((JobId(2), math.inf),))
    assert tended(made(end_unix=NOW, flex=True), use=flexible).detached == (1, 2)


def test_the_clock_calls_when_something_is_to_be_done() -> None:
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
def test_who_may_use_it(facts: dict[str, Any], user: str, account: str, allowed: bool) -> None:
    assert made(**facts).admits(user, account) == allowed
