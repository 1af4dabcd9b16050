"""An agent whose own folder is missing or read-only reports a fault of the node, not of the job."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from tests.integration.agent.conftest import MakeAgent
from tests.support.agent import AgentProcess
from tests.support.waiting import WAIT_S, eventually

from warpdeck_agent.storage.own_folder import OwnFolder
from warpdeck_agent.wire import messages as wire


def remove(folder: Path) -> None:
    """Remove a folder at once, although the agent may be writing files in it."""
    removed = folder.with_name(f"{folder.name}.removed")
    folder.rename(removed)
    shutil.rmtree(removed, ignore_errors=True)


def checked(agent: AgentProcess, number: int) -> wire.Check:
    """Return the agent's health check of its own folder."""
    agent.link.send(wire.AskHealth(at_unix=1.0, ask=number))
    health = agent.link.expect(wire.Health, lambda message: message.ask == number)
    (found,) = [check for check in health.checks if check.name == "agent"]
    return found


@pytest.mark.parametrize("gone", ["", "jobs", "jobs/scripts"], ids=["all", "jobs", "scripts"])
def test_a_launch_without_the_agents_folder_is_a_fault_of_the_node(make_agent: MakeAgent, gone: str) -> None:
    agent = make_agent()
    agent.start()
    assert agent.run(1, "exit 3").exit_code == 3
    assert checked(agent, 1).state == "ok"
    remove(agent.folder / gone)
    agent.launch(2, "exit 0")
    failure = agent.link.expect(wire.LaunchFailed)
    assert (failure.job_id, failure.check) == (2, "agent")
    assert "is gone" in failure.message and f"{agent.folder}" in failure.message
    found = checked(agent, 2)
    assert (found.state, found.message) == ("fail", failure.message)


def test_a_step_without_the_agents_folder_is_a_fault_of_the_node(
    make_agent: MakeAgent, short_tmp: Path
) -> None:
    agent = make_agent()
    agent.start()
    agent.launch(1, f"until [ -e {short_tmp}/go ]; do sleep 0.05; done")
    agent.link.report(1, "running")
    agent.begin_step(1, 0, "exit 3")
    assert (agent.step_end(1, 0).ends[0].code, agent.link.has(wire.LaunchFailed)) == (3, False)
    away = agent.folder.with_name("away")
    agent.folder.rename(away)
    try:
        agent.begin_step(1, 1, "exit 0")
        report = agent.step_end(1, 1)
    finally:
        away.rename(agent.folder)
    assert report.check == "agent" and f"the agent's folder {agent.folder} is gone" in report.message
    (short_tmp / "go").touch()


def test_a_check_from_before_a_failed_launch_is_not_reported(make_agent: MakeAgent, short_tmp: Path) -> None:
    """Otherwise a check that began before the fault would make the node available for jobs again."""
    gate, looks = short_tmp / "gate", short_tmp / "looks"
    program = short_tmp / "check"
    program.write_text(f"#!/bin/sh\necho >> {looks}\nwhile [ ! -e {gate} ]; do sleep 0.05; done\n")
    program.chmod(0o755)
    agent = make_agent()
    agent.start()
    assert checked(agent, 1).state == "ok"
    agent.link.send(wire.AskHealth(at_unix=1.0, ask=2, program=str(program), program_timeout_s=WAIT_S))
    eventually(looks.exists, what="a check runs and has seen the folder")
    remove(agent.folder)
    agent.launch(2, "exit 0")
    assert agent.link.expect(wire.LaunchFailed).check == "agent"
    agent.link.send(wire.AskHealth(at_unix=2.0, program=str(program), program_timeout_s=WAIT_S))
    health = agent.link.expect(wire.Health, lambda message: message.asked_at_unix == 2.0)
    assert [check for check in health.checks if check.name == "agent"] == []
    gate.touch()
    health = agent.link.expect(wire.Health, lambda message: message.ask == 2)
    assert [check.state for check in health.checks if check.name == "agent"] in ([], ["fail"])
    assert checked(agent, 3).state == "fail"


@pytest.mark.root
def test_a_launch_failed_by_the_job_is_no_fault_of_the_node(make_agent: MakeAgent) -> None:
    agent = make_agent()
    agent.start()
    agent.launch(1, "exit 0", user="nobody-of-this-name", uid=4_000_000)
    failure = agent.link.expect(wire.LaunchFailed)
    assert (failure.check, failure.again) == ("", False)


def test_a_restored_folder_is_healthy_again(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    (folder / "jobs").mkdir(parents=True)
    own = OwnFolder(str(folder), ("jobs",))
    assert own.fault() == "" and list(folder.iterdir()) == [folder / "jobs"]
    folder.rename(tmp_path / "away")
    assert own.fault().startswith(f"the agent's folder {folder} is gone. Stop the agent (process ")
    (folder / "jobs").mkdir(parents=True)
    assert own.fault().startswith(f"the agent's folder {folder} was replaced while the agent ran.")
    shutil.rmtree(folder)
    (tmp_path / "away").rename(folder)
    assert own.fault() == ""


@pytest.mark.parametrize(
    ("number", "ours"), [(errno.EAGAIN, True), (errno.EMFILE, True), (errno.E2BIG, False)]
)
def test_process_limits_are_faults_of_the_node_and_long_arguments_are_not(
    tmp_path: Path, number: int, ours: bool
) -> None:
    refusal = OwnFolder(str(tmp_path), ()).refusal(OSError(number, "no"))
    assert (refusal is not None and refusal.check == "agent") is ours
