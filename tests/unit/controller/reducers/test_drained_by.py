"""The user who drained a node is recorded with the reason, and not kept for a later one."""

from __future__ import annotations

from tests.support.core import Core

from warpdeck.controller.events.events import NodeDrained, NodeResumed
from warpdeck.controller.state.node_conditions import next_condition
from warpdeck.model import Link, NodeName

A = NodeName("a")


def test_the_user_of_a_drain_is_stored_until_the_node_is_resumed() -> None:
    core = Core("a")
    core.apply(NodeDrained(name=A, reason="fan", user="ada"))
    assert core.reload().nodes[A].reason_user == "ada"
    core.apply(NodeResumed(name=A))
    assert core.reload().nodes[A].reason_user == ""


def test_the_history_of_the_node_names_the_user() -> None:
    core = Core("a")
    core.apply(NodeDrained(name=A, reason="fan", user="ada"))
    found = next_condition(core.state.nodes[A], link=Link.UP, link_reason="", before=None, now=9.0)
    assert found is not None and (found.drained_by, found.reason) == ("ada", "fan")


def test_a_drained_gpu_names_the_user() -> None:
    core = Core("a")
    core.apply(NodeDrained(name=A, reason="xid", gpus=(1,), user="ada"))
    [drain] = core.reload().nodes[A].gpu_drains
    assert drain.user == "ada"
