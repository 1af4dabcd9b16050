"""Agents that scan the same /proc affect only their own jobs, even if their job ids are equal."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.agent.conftest import MakeAgent
from tests.support.agent import AgentProcess
from tests.support.processes import read
from tests.support.waiting import eventually

from warpdeck_agent.isolation.job_processes import JobTag, job_of, launch_name, sweep
from warpdeck_agent.wire import messages as wire

NO_PID = 2**22
"""A pid above the kernel's maximum, so no process has it."""
DAEMON = "setsid sleep 1000 &\nsleep 1001\n"


def new_run_id(agent: AgentProcess, job: int) -> JobTag:
    """Return the job tag that the job's processes carry."""
    agent.first_process(job)
    meta = json.loads(agent.meta(job))
    return JobTag(launch_name(job, 0, agent=agent.identity), meta["token"], meta["uid"])


def all_of(agent: AgentProcess, job: int) -> list[int]:
    """Return the pids of the shell and its two sleeps, or [] while one of them is still before its exec.

    During an exec, the job tag of a process cannot be seen.
    """
    found = agent.processes(job)
    names = [read(pid, "comm") for pid in found]
    return found if len(found) == 3 and names.count(b"sleep\n") == 2 else []


def test_cancelling_job_1_of_an_agent_leaves_job_1_of_another_alone(make_agent: MakeAgent) -> None:
    own_agent, other = make_agent("mine"), make_agent("other")
    for agent in (own_agent, other):
        agent.start()
        agent.launch(1, DAEMON)
    eventually(lambda: all_of(own_agent, 1), what="the job of the first agent runs")
    before = eventually(lambda: all_of(other, 1), what="the other runs")
    own_agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=1.0))
    assert own_agent.link.report(1, "exited").cause == "cancelled"
    eventually(lambda: not own_agent.processes(1), what="no process of the first agent's job is left")
    assert all_of(other, 1) == before


def test_a_process_is_attributed_only_to_the_job_of_its_agent(make_agent: MakeAgent) -> None:
    own_agent, other = make_agent("mine"), make_agent("other")
    for agent in (own_agent, other):
        agent.start()
        agent.launch(7, DAEMON)
    pids = eventually(lambda: all_of(own_agent, 7), what="the job runs")
    eventually(
        lambda: {job_of(pid, {new_run_id(own_agent, 7): 7}) for pid in pids} == {7},
        what="all processes belong to this agent's job",
    )
    assert {job_of(pid, {new_run_id(other, 7): 7}) for pid in pids} == {0}


def test_the_agent_identity_survives_restarts_and_is_in_the_job_tag(agent: AgentProcess) -> None:
    before = agent.identity
    agent.kill()
    agent.start()
    assert agent.identity == before
    agent.run(3, "echo $WARPDECK_JOB")
    assert agent.job(3, "out").read_text().strip() == launch_name(3, 0, agent=before)


def test_unused_cgroups_of_a_killed_agent_are_removed(agent: AgentProcess) -> None:
    agent.launch(1, "sleep 1000")
    agent.first_process(1)
    record = agent.record(1)
    assert record is not None
    groups = [Path(path) for path in json.loads(record.meta())["hold"]["groups"]]
    agent.kill()
    for group in groups:  # a node may have no groups
        group.with_name("job-99.0").mkdir()
    agent.start()
    for group in groups:
        assert [path.name for path in group.parent.glob("job-*")] == ["job-1.0"]
    agent.link.report(1, "running")


def test_a_process_that_died_before_the_kill_is_counted(tmp_path: Path) -> None:
    """The job's cgroups were closed to new processes, so no other process may use them."""
    (tmp_path / "cgroup.procs").write_text(f"{NO_PID}\n")
    (tmp_path / "pids.max").write_text("max\n")
    assert sweep(JobTag("1.0@nobody", "", 0), [str(tmp_path)], {}) == 1
    assert (tmp_path / "pids.max").read_text().startswith("0")
