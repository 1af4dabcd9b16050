"""The past of Slurm's nodes: which looks at a node give a new condition, and with which time."""

from __future__ import annotations

from typing import Any

import pytest

from warpdeck.controller.state.state import State
from warpdeck.engines.slurm.cluster.node_conditions import (
    GONE,
    KEEP_GONE_S,
    REBOOTED,
    NodeConditions,
    next_conditions,
)
from warpdeck.model import Condition, NodeName
from warpdeck.ports.store import Changes
from warpdeck.protocol.node_rows import NodeRow

NAME = NodeName("n1")
UP = Condition(node=NAME, at_unix=100.0)
DOWN = Condition(node=NAME, at_unix=150.0, down=True, down_reason="Not responding")
DRAINED = Condition(node=NAME, at_unix=150.0, drained=True, reason="a fan", drained_by="ann")
IDLE = frozenset({"idle"})
DRAIN = frozenset({"idle", "drain"})


def look(
    flags: frozenset[str],
    *,
    before: Condition | None = UP,
    looked_at: float = 200.5,
    now: float = 300.5,
    **row: Any,
) -> list[tuple[float, bool, bool]]:
    """Return the time of each new condition, and whether the node was drained and down."""
    fields = {"name": NAME, "state": "idle", **row}
    found = next_conditions(NodeRow(**fields), flags, before=before, looked_at=looked_at, now=now)
    return [(each.at_unix, each.drained, each.down) for each in found]


def test_a_node_that_has_not_changed_gives_no_condition() -> None:
    assert look(IDLE) == []
    assert look(DRAIN, before=DRAINED, reason="a fan", reason_user="ann", reason_at=250.0) == []
    assert look(frozenset({"down"}), before=DOWN, reason="Not responding") == []
    assert look(frozenset({"idle", "not_responding"}), state="down") == []


@pytest.mark.parametrize(
    ("reason_at", "at"),
    [
        (250.0, 251.0),  # The end of Slurm's second.
        (300.0, 300.5),  # Never later than the look.
        (200.0, 201.0),  # The previous look was in this second.
        (150.0, 300.5),  # The reason is older than the change, so Slurm does not tell the time.
        (400.0, 300.5),  # Slurm's clock is ahead.
        (None, 300.5),
    ],
)
def test_a_drain_has_the_time_of_its_reason(reason_at: float | None, at: float) -> None:
    assert look(DRAIN, reason="a fan", reason_at=reason_at) == [(at, True, False)]
    assert look(frozenset({"down"}), reason="fire", reason_at=reason_at) == [(at, False, True)]


def test_a_node_that_is_drained_at_the_first_look_has_been_so_since_its_reason() -> None:
    assert look(DRAIN, before=None, looked_at=0.0, reason="a fan", reason_at=7.0) == [(8.0, True, False)]
    assert look(IDLE, before=None, looked_at=0.0) == [(300.5, False, False)]


def test_a_return_has_the_time_of_the_start_of_slurmd() -> None:
    assert look(IDLE, before=DOWN, agent_start=280.0) == [(281.0, False, False)]
    assert look(IDLE, before=DOWN, agent_start=20.0) == [(300.5, False, False)]
    assert look(IDLE, before=DRAINED, agent_start=280.0) == [(300.5, False, False)]


def test_a_reboot_that_no_look_has_seen_is_an_outage() -> None:
    assert look(IDLE, booted=250.0, agent_start=270.0) == [(251.0, False, True), (271.0, False, False)]
    assert look(IDLE, booted=150.0, agent_start=170.0) == []
    [outage, _] = next_conditions(
        NodeRow(name=NAME, state="idle", booted=250.0), IDLE, before=UP, looked_at=200.0, now=300.0
    )
    assert outage.down_reason == REBOOTED


def test_a_node_of_which_slurm_knows_nothing_yet_is_as_it_was() -> None:
    assert look(frozenset({"unknown"}), before=DOWN, state="connecting") == []
    assert look(frozenset({"unknown"}), state="connecting") == []


def test_the_conditions_of_a_node_have_different_times_if_the_clock_is_set_back() -> None:
    [(at, drained, _)] = look(DRAIN, before=UP, looked_at=50.0, now=60.0, reason="a fan")
    assert drained and at > UP.at_unix


def test_a_node_that_slurm_no_longer_has_is_down_and_is_forgotten_later() -> None:
    status = State().node_status
    conditions = NodeConditions(status)
    rows = {name: NodeRow(name=name, state="idle", at=10.0) for name in (NAME, NodeName("n2"))}
    conditions.note(rows, dict.fromkeys(rows, IDLE), before={}, now=10.0)
    conditions.saved(Changes(conditions=conditions.unsaved()))
    for now in (20.0, 30.0):
        conditions.note_gone([NodeName("n2")], now=now)
        [gone] = conditions.unsaved()
        assert (gone.node, gone.at_unix, gone.down, gone.down_reason) == (NAME, 20.0, True, GONE)
    conditions.saved(Changes(conditions=conditions.unsaved()))
    assert not conditions.is_unsaved
    conditions.note_gone([NodeName("n2")], now=21.0 + KEEP_GONE_S)
    assert conditions.forgotten() == (NAME,) and NAME not in status.conditions


def test_a_condition_that_comes_during_a_commit_is_written_with_the_next_one() -> None:
    conditions = NodeConditions(State().node_status)
    row = NodeRow(name=NAME, state="idle", at=10.0)
    conditions.note({NAME: row}, {NAME: IDLE}, before={}, now=10.0)
    changes = Changes(conditions=conditions.unsaved())
    later = NodeRow(name=NAME, state="down", reason="fire", at=20.0)
    conditions.note({NAME: later}, {NAME: frozenset({"down"})}, before={NAME: row}, now=20.0)
    conditions.saved(changes)
    assert [each.at_unix for each in conditions.unsaved()] == [20.0]
