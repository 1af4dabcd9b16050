"""Warnings before the time limit, and suspended jobs: suspended time does not count toward the limit."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.messages import RESUMED, SUSPENDED

LIMIT_S, LEAD_S = 60.0, 56.0
"""The warning comes 4 s after the start, which is enough time to set a trap on a busy machine."""
CATCHER = "sh -c 'trap \"echo child >>{log}; exit 0\" USR1; while :; do sleep 0.05; done'"
CASES = {
    "a shell that does not wait for it is spared": (f"{CATCHER}\necho after >>{{log}}", False, "child after"),
    "a shell that waits for it is told too": (
        f'trap "echo shell >>{{log}}" USR1\n{CATCHER} & wait; wait\necho after >>{{log}}',
        False,
        "after child shell",
    ),
    "a program in the shell's place is told": (f"exec {CATCHER}", False, "child"),
    "a program that does not wait for it goes on": (
        "sleep 8 && echo whole >>{log} || echo cut >>{log}",
        False,
        "whole",
    ),
    "B: tells the shell alone": (
        f'trap "echo shell >>{{log}}; kill $! ; exit 0" USR1\n{CATCHER} & wait',
        True,
        "shell",
    ),
}


def test_a_job_is_warned_before_its_time_limit(agent: AgentProcess) -> None:
    logs = {}
    for number, (script, batch_only, _) in enumerate(CASES.values(), start=1):
        logs[number] = agent.folder.parent / f"warned{number}"
        agent.launch(
            number,
            script.format(log=logs[number]),
            time_limit_s=LIMIT_S,
            warn_signal=signal.SIGUSR1,
            warn_before_s=LEAD_S,
            warn_batch_only=batch_only,
        )
    for number, (case, (_, _, text)) in enumerate(CASES.items(), start=1):
        report = agent.link.report(number, "exited")
        assert (report.exit_code, report.signal) == (0, 0), case
        assert sorted(logs[number].read_text().split()) == sorted(text.split()), case


def test_a_warning_is_sent_once_even_if_the_agent_restarts(agent: AgentProcess) -> None:
    log = agent.folder.parent / "warned"
    agent.launch(
        1,
        f'trap "echo shell >>{log}" USR1\nwhile :; do sleep 0.05; done',
        time_limit_s=LIMIT_S,
        warn_signal=signal.SIGUSR1,
        warn_before_s=LEAD_S,
        warn_batch_only=True,
    )
    eventually(log.exists, what="the job was warned")
    agent.kill()
    agent.start()
    agent.link.send(wire.Kill(job_id=1, restarts=0, signal=signal.SIGUSR1))
    eventually(lambda: log.read_text().count("shell") > 1, what="the state was changed manually")
    assert log.read_text().count("shell") == 2


def states(agent: AgentProcess, job_id: int) -> set[str]:
    """Return the state letters of the job's processes."""
    found = set()
    for pid in agent.processes(job_id):
        try:
            found.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
        except FileNotFoundError:
            continue
    return found


def is_stopped(agent: AgentProcess, job_id: int) -> bool:
    """Return whether all processes of the job are stopped.

    A shell that was stopped between vfork and exec is in state D, because it waits for its stopped child.
    """
    return states(agent, job_id) in ({"T"}, {"T", "D"})


def suspend(agent: AgentProcess, job_id: int) -> None:
    agent.link.send(wire.Kill(job_id=job_id, restarts=0, signal=signal.SIGSTOP, cause=SUSPENDED))
    eventually(lambda: is_stopped(agent, job_id), what="all processes are stopped")


@pytest.mark.slow
@pytest.mark.parametrize("agent_lives", [True, False])
def test_suspended_time_does_not_count(agent: AgentProcess, agent_lives: bool) -> None:
    limit_s = 6.0  # long enough for a busy machine to launch and stop the job
    agent.launch(1, "while :; do sleep 0.05; done", time_limit_s=limit_s, grace_s=5.0)
    started_at = agent.link.report(1, "running").started_at
    eventually(lambda: agent.processes(1), what="the job runs")
    suspend(agent, 1)
    stopped_at = time.time()
    if not agent_lives:
        agent.kill()
        assert agent.start().jobs[0].suspended
    eventually(
        lambda: time.time() > started_at + limit_s + 0.5, what="the limit would have passed without the stop"
    )
    assert agent.connect().jobs[0].phase == "running"
    assert is_stopped(agent, 1)
    resumed_at = time.time()
    agent.link.send(wire.Kill(job_id=1, restarts=0, signal=signal.SIGCONT, cause=RESUMED))
    report = agent.link.report(1, "exited")
    assert report.cause == "timeout"
    assert report.ended_at - resumed_at >= limit_s - (stopped_at - started_at) - 0.1


def test_a_cancelled_suspended_job_can_clean_up(agent: AgentProcess) -> None:
    agent.launch(1, "trap 'echo saved; exit 5' TERM\necho ready\nwhile :; do sleep 0.1; done")
    eventually(lambda: "ready" in agent.text(1), what="the trap is set")
    suspend(agent, 1)
    agent.link.send(wire.Kill(job_id=1, restarts=0, grace_s=60.0))
    report = agent.link.report(1, "exited")
    assert (report.exit_code, report.cause) == (5, "cancelled")
    assert "saved" in agent.text(1).splitlines()


def test_a_plain_stop_signal_does_not_stop_the_clock(agent: AgentProcess) -> None:
    agent.launch(1, "while :; do sleep 0.05; done", time_limit_s=1.0, grace_s=5.0)
    eventually(lambda: agent.processes(1), what="the job runs")
    agent.link.send(wire.Kill(job_id=1, restarts=0, signal=signal.SIGSTOP))
    assert agent.link.report(1, "exited").cause == "timeout"


def test_a_changed_time_limit_survives_an_agent_restart(agent: AgentProcess) -> None:
    agent.launch(1, "exec sleep 600", time_limit_s=600.0)
    agent.launch(2, "exec sleep 600", time_limit_s=60.0)
    agent.link.report(1, "running")
    agent.link.report(2, "running")
    agent.link.send(wire.SetLimit(job_id=2, restarts=0, time_limit_s=None))
    agent.link.send(wire.SetLimit(job_id=1, restarts=0, time_limit_s=500.0))
    eventually(lambda: _limits(agent) == {1: 500.0, 2: 0.0}, what="new limits")
    agent.kill()
    reported = agent.start()
    assert {message.job_id: message.time_limit_s for message in reported.jobs} == {1: 500.0, 2: 0.0}
    agent.link.send(wire.SetLimit(job_id=1, restarts=0, time_limit_s=0.1))
    assert agent.link.report(1, "exited").cause == "timeout"


def _limits(agent: AgentProcess) -> dict[int, float]:
    """Return the time limits of all launches as the agent reports them to a new link."""
    agent.link.close()
    return {message.job_id: message.time_limit_s for message in agent.connect().jobs}
