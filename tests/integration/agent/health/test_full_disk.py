"""A node with a full disk reports it, keeps its running jobs, and works again when there is space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.agent import FROM_SOURCE, AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire

pytestmark = pytest.mark.lab
SMALL = 'mount -t tmpfs -o size=256k tmpfs "$0" && exec "$@"'
"""Mount a small disk on the folder of jobs in the agent's own mount namespace, then run the command."""


@pytest.fixture
def agent(short_tmp: Path) -> Iterator[AgentProcess]:
    """An agent whose folder of jobs has little space."""
    jobs = short_tmp / "agent" / "jobs"
    jobs.mkdir(parents=True)
    program = ["unshare", "--mount", "sh", "-c", SMALL, str(jobs), *FROM_SOURCE]
    new_agent_process = AgentProcess(short_tmp / "agent", program=program)
    new_agent_process.start()
    yield new_agent_process
    new_agent_process.close()


FILL = "head -c 10000000 /dev/zero\n"


def test_the_exit_status_is_reported_although_the_job_filled_the_disk(agent: AgentProcess) -> None:
    assert agent.run(1, FILL + "exit 5").exit_code == 5


def test_a_launch_without_disk_space_has_a_clear_reason_and_the_agent_continues(agent: AgentProcess) -> None:
    agent.run(1, FILL + "exit 5")
    agent.launch(2, "exit 0")
    failure = agent.link.expect(wire.LaunchFailed)
    assert (failure.job_id, failure.check) == (2, "disk")
    assert failure.message == f"the disk of {agent.folder} is full on this node"
    agent.link.send(wire.Forget(job_id=1, restarts=0))
    assert agent.run(3, "exit 6").exit_code == 6


def test_a_job_can_be_cancelled_on_a_full_disk(agent: AgentProcess, short_tmp: Path) -> None:
    agent.launch(1, FILL + f"touch {short_tmp}/full\nsleep 1000")
    eventually((short_tmp / "full").exists, what="the disk is full")
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=30.0))
    report = agent.link.report(1, "exited")
    assert (report.cause, report.signal) == ("cancelled", 15)
