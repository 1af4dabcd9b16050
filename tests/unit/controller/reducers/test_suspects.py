"""Nodes with many immediate failures of launches accept no more jobs, unless users may be the cause."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.core import Core, make_request

from warpdeck.model import ArraySpec, NodeName
from warpdeck.ports.caller import Principal

A = NodeName("a")
USERS = [Principal(user=name, uid=uid) for uid, name in enumerate(("ann", "bob", "cyd"), 1)]


def runs(core: Core, who: Principal, *, seconds: float = 0.5, **facts: object) -> None:
    """Start a job of that user on the node, and end it in this way."""
    job_id = core.run(make_request(), who)
    began, core.now = core.now, core.now + seconds
    core.end(job_id, started_at=began, ended_at=core.now, **facts)


def fail(core: Core, users: Sequence[Principal], count: int) -> None:
    for number in range(count):
        runs(core, users[number % len(users)], exit_code=1)


def test_a_node_where_jobs_of_several_users_fail_immediately_is_drained() -> None:
    core = Core("a")
    fail(core, USERS, 5)
    assert not core.state.nodes[A].drained
    fail(core, USERS[2:], 1)
    node = core.state.nodes[A]
    assert (node.drained, node.drain_checks) == (True, ())
    assert node.reason == "6 jobs of 3 users in a row failed immediately on a; check the node, then resume it"


def test_failures_of_too_few_users_drain_nothing() -> None:
    core = Core("a")
    fail(core, USERS[:1], 20)
    fail(core, USERS[:2], 20)
    assert not core.state.nodes[A].drained


def test_failures_of_an_array_count_once() -> None:
    core = Core("a")
    fail(core, USERS[:2], 2)
    core.submit(make_request(array=ArraySpec(ranges=((0, 9, 1),))), USERS[2])
    core.launch(core.plan().effects)
    for job in [job for job in core.state.jobs.values() if job.shares and not job.is_finished]:
        core.end(job.id, exit_code=1, ended_at=core.now)
    assert not core.state.nodes[A].drained


@pytest.mark.parametrize(
    "facts",
    [{"exit_code": 0}, {"exit_code": 1, "seconds": 9.0}],
    ids=["ended-well", "failed-late"],
)
def test_a_success_or_a_late_failure_resets_the_count(facts: dict[str, float]) -> None:
    core = Core("a")
    fail(core, USERS, 5)
    runs(core, USERS[0], **facts)
    fail(core, USERS, 5)
    assert not core.state.nodes[A].drained


def test_canceled_jobs_do_not_count_as_failures() -> None:
    core = Core("a")
    fail(core, USERS, 5)
    for _ in range(5):
        runs(core, USERS[2], exit_code=0, signal=15, cause="cancelled")
    assert not core.state.nodes[A].drained
    fail(core, USERS, 1)
    assert core.state.nodes[A].drained
