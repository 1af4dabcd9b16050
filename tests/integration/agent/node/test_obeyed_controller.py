"""An agent obeys one start of its controller: the highest epoch that it has seen, also after a restart."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any

import pytest
from tests.integration.agent.conftest import MakeAgent
from tests.support.agent import AgentProcess, Link

from warpdeck_agent.daemon.obeyed_controller import FILE, Obeyed, accepts
from warpdeck_agent.wire import messages as wire

SITE, OTHER_SITE = "site", "other"


def start(epoch: int, instance: str = "a", **fields: Any) -> wire.ControllerStart:
    given: dict[str, Any] = {
        "host": f"login-{instance}",
        "pid": 4711,
        "started_unix": 1_700_000_000.0,
        **fields,
    }
    return wire.ControllerStart(epoch=epoch, instance=instance, **given)


def hello(epoch: int, instance: str = "a", *, site: str = SITE) -> wire.Hello:
    return wire.Hello(controller_id=site, sample_interval_s=3600.0, start=start(epoch, instance))


@pytest.mark.parametrize(
    ("seen", "asks", "accepted"),
    [
        (None, (SITE, 1, "a"), True),
        (None, (SITE, 0, ""), True),
        ((SITE, 5, "a"), (OTHER_SITE, 1, "b"), True),
        ((SITE, 5, "a"), (SITE, 6, "b"), True),
        ((SITE, 5, "a"), (SITE, 5, "a"), True),
        ((SITE, 5, "a"), (SITE, 5, "b"), False),
        ((SITE, 5, "a"), (SITE, 4, "b"), False),
        ((SITE, 5, "a"), (SITE, 4, "a"), False),
        ((SITE, 5, "a"), (SITE, 0, ""), False),
        ((SITE, 0, ""), (SITE, 0, ""), True),
        ((SITE, 0, ""), (SITE, 1, "a"), True),
    ],
)
def test_each_row_of_the_decision(
    seen: tuple[str, int, str] | None, asks: tuple[str, int, str], accepted: bool
) -> None:
    known = None if seen is None else Obeyed(seen[0], start(*seen[1:]))
    assert accepts(known, Obeyed(asks[0], start(*asks[1:]))) is accepted


def test_of_two_starts_of_a_site_at_most_one_is_accepted_after_the_other() -> None:
    starts = [start(epoch, instance) for epoch in range(3) for instance in "ab"]
    for one, other in itertools.permutations(starts, 2):
        ways = [
            accepts(Obeyed(SITE, one), Obeyed(SITE, other)),
            accepts(Obeyed(SITE, other), Obeyed(SITE, one)),
        ]
        assert ways.count(True) <= 1, f"{one} and {other} would take the node from each other for ever"


def answer(link: Link) -> Any:
    """Return the first message of the agent on a new connection."""
    return link.expect(object)


def greet(agent: AgentProcess, message: wire.Hello) -> Any:
    link = agent.raw()
    link.send(message)
    return answer(link)


def test_a_stale_controller_is_refused_and_told_which_one_is_obeyed(agent: AgentProcess) -> None:
    assert isinstance(greet(agent, hello(6, "b")), wire.Welcome)
    refused = greet(agent, hello(5))
    assert isinstance(refused, wire.Refused) and refused.holder == start(6, "b")
    assert "login-b (pid 4711, started 20" in refused.error and "epoch 6" in refused.error
    assert isinstance(greet(agent, hello(6, "c")), wire.Refused)


def test_an_older_version_is_refused_in_its_own_words(agent: AgentProcess) -> None:
    assert isinstance(greet(agent, hello(6)), wire.Welcome)
    ended = greet(agent, wire.Hello(controller_id=SITE))
    assert isinstance(ended, wire.StreamEnd) and "epoch 6" in ended.error


def test_orders_of_a_refused_controller_have_no_effect(agent: AgentProcess) -> None:
    owner = agent.raw()
    owner.send(hello(6, "b"))
    answer(owner)
    agent.link = owner
    agent.launch(1, "exec sleep 600")
    owner.report(1, "running")
    stale = agent.raw()
    stale.send(hello(5), wire.Kill(job_id=1, restarts=0), wire.Forget(job_id=1, restarts=0), wire.Quit())
    assert isinstance(answer(stale), wire.Refused)
    again = agent.raw()
    again.send(hello(7, "b"))
    welcome = answer(again)
    assert [(each.job_id, each.phase) for each in welcome.jobs] == [(1, "running")]


def test_orders_that_a_replaced_controller_sent_before_are_not_carried_out(agent: AgentProcess) -> None:
    """The old controller may still be connected while the agent takes its inventory for the new one."""
    old = agent.raw()
    old.send(hello(5))
    answer(old)
    agent.link = old
    agent.launch(1, "exec sleep 600")
    old.report(1, "running")
    taken = agent.raw()
    taken.send(hello(6, "b"))
    record = agent.folder / FILE
    while '"epoch":6' not in record.read_text():
        pass  # The agent takes its inventory next, and only then sends Welcome.
    with contextlib.suppress(OSError):
        old.send(wire.Kill(job_id=1, restarts=0, grace_s=0.0))
    assert isinstance(answer(taken), wire.Welcome)
    agent.link = taken
    assert agent.run(2, "sleep 0.2").exit_code == 0
    assert not taken.has_report(1, "exited"), "a job was ended by a controller that the agent no longer obeys"


def test_the_epoch_survives_the_agent(agent: AgentProcess) -> None:
    assert isinstance(greet(agent, hello(6, "b")), wire.Welcome)
    agent.kill()
    agent.serve()
    assert isinstance(greet(agent, hello(5)), wire.Refused)
    assert isinstance(greet(agent, hello(6, "b")), wire.Welcome)


def test_a_damaged_record_of_the_epoch_does_not_stop_the_agent(agent: AgentProcess) -> None:
    assert isinstance(greet(agent, hello(6, "b")), wire.Welcome)
    agent.kill()
    (agent.folder / FILE).write_text('{"controller_id": "si')
    agent.serve()
    assert isinstance(greet(agent, hello(1)), wire.Welcome)


def test_an_agent_with_a_new_folder_obeys_the_first_controller(make_agent: MakeAgent) -> None:
    agent = make_agent()
    agent.serve()
    assert isinstance(greet(agent, hello(3)), wire.Welcome)


def test_fields_of_a_later_version_do_not_change_the_decision(agent: AgentProcess) -> None:
    values = {
        "t": "hello",
        "controller_id": SITE,
        "start": {"epoch": 3, "instance": "a", "later": 1},
        "later": {},
    }
    decoded = wire.decode(values)
    assert decoded.start == dataclasses.replace(wire.ControllerStart(), epoch=3, instance="a")
