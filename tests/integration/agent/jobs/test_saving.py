"""A job that is paused, preempted, or at its limit saves its work before it is ended."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.wire import messages as wire

LONG_S = 600.0
"""A grace time that no test waits for."""
PROGRAM = """sh -c '
trap "echo TERM >>{log}; until [ -e {gate} ]; do sleep 0.05; done; echo saved >>{log}; exit 0" TERM
{more}
touch {ready}
while :; do sleep 0.05; done'
"""
AFTER = "echo after >>{log}; sleep 1000\n"


class SavingJob:
    """A launched job whose program saves its work for as long as the file `gate` does not exist."""

    def __init__(
        self, agent: AgentProcess, *, script: str = PROGRAM + AFTER, more: str = "", **fields: object
    ) -> None:
        self.agent, self.number = agent, agent.new_id()
        folder = agent.folder.parent
        names = ("log", "gate", "ready")
        self.log, self.gate, self.ready = (folder / f"{name}{self.number}" for name in names)
        paths = {"log": self.log, "gate": self.gate, "ready": self.ready}
        agent.launch(self.number, script.format(more=more.format(**paths), **paths), **fields)
        eventually(self.ready.exists, what="the program handles its signals")

    def pause(self, grace_s: float = LONG_S) -> None:
        self.agent.link.send(
            wire.Kill(job_id=self.number, restarts=0, cause="requeued", grace_s=grace_s, saves=True)
        )

    def lines(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def end(self) -> wire.JobReport:
        return self.agent.link.report(self.number, "exited")


@pytest.fixture
def job(agent: AgentProcess) -> SavingJob:
    return SavingJob(agent)


def test_a_program_saves_its_work_and_its_script_does_not_continue(job: SavingJob) -> None:
    job.pause()
    eventually(job.lines, what="the program got TERM")
    assert not job.agent.link.has_report(job.number, "exited")
    job.gate.touch()
    assert job.end().cause == "requeued"
    assert job.lines() == ["TERM", "saved"]


def test_a_program_gets_the_signal_that_the_job_asked_for(agent: AgentProcess) -> None:
    job = SavingJob(agent, more='trap "echo USR1 >>{log}; exit 0" USR1', warn_signal=signal.SIGUSR1)
    job.pause()
    job.end()
    assert job.lines() == ["USR1"]


def test_a_program_that_handles_only_term_gets_it_instead_of_the_signal(agent: AgentProcess) -> None:
    job = SavingJob(agent, warn_signal=signal.SIGUSR2)
    job.gate.touch()
    job.pause()
    job.end()
    assert job.lines() == ["TERM", "saved"]


def test_a_job_without_handlers_ends_at_once(agent: AgentProcess) -> None:
    job = SavingJob(agent, script="touch {ready}; sleep 1000\n")
    job.pause()
    assert job.end().signal == signal.SIGTERM


def test_a_program_that_never_exits_is_killed_after_the_grace_time(job: SavingJob) -> None:
    begun = time.monotonic()
    job.pause(grace_s=2.0)
    assert job.end().signal == signal.SIGKILL
    assert time.monotonic() - begun >= 2.0
    assert job.lines() == ["TERM"]


def test_a_killed_agent_neither_repeats_the_signal_nor_cuts_the_grace_time(job: SavingJob) -> None:
    job.pause()
    folder = job.agent.folder / "jobs" / f"{job.number}.0"
    eventually((folder / "saving").exists, what="the agent has recorded that the job saves its work")
    job.agent.kill()
    job.agent.start()
    job.pause()  # A controller repeats its request to the new agent.
    job.agent.connect()
    assert job.lines() == ["TERM"]
    job.gate.touch()
    assert job.end().cause == "requeued"
    assert job.lines() == ["TERM", "saved"]


def test_a_killed_agent_ends_the_job_at_the_end_of_the_grace_time_without_a_controller(
    job: SavingJob,
) -> None:
    job.pause(grace_s=3.0)
    folder = job.agent.folder / "jobs" / f"{job.number}.0"
    eventually((folder / "saving").exists, what="the agent has recorded that the job saves its work")
    job.agent.kill()
    job.agent.start()
    assert job.end().signal == signal.SIGKILL


def test_a_cancel_ends_a_job_that_saves_its_work(job: SavingJob) -> None:
    job.pause()
    eventually(job.lines, what="the program got TERM")
    job.agent.link.send(wire.Kill(job_id=job.number, restarts=0, grace_s=0.0))
    assert job.end().signal == signal.SIGKILL
    assert job.lines() == ["TERM"]


def test_the_time_limit_does_not_end_a_job_that_saves_its_work(agent: AgentProcess) -> None:
    limit_s = 3.0
    job = SavingJob(agent, time_limit_s=limit_s, grace_s=0.0)
    started = time.time()
    job.pause()
    eventually(job.lines, what="the program got TERM")
    eventually(lambda: time.time() > started + limit_s, what="the limit has passed")
    assert agent.connect().jobs[0].phase == "running"
    job.gate.touch()
    assert job.end().cause == "requeued"
    assert job.lines() == ["TERM", "saved"]


def test_the_processes_of_a_step_on_another_node_get_the_signal(agent: AgentProcess, short_tmp: Path) -> None:
    number = agent.new_id()
    agent.launch(number, role="hold")
    agent.link.report(number, "running")
    log = short_tmp / "step"
    program = f"trap 'echo saved >>{log}; exit 0' TERM; touch {log}.ready; while :; do sleep 0.05; done"
    agent.begin_step(number, 0, program)
    eventually(Path(f"{log}.ready").exists, what="the step handles its signal")
    agent.link.send(wire.Kill(job_id=number, restarts=0, cause="requeued", grace_s=LONG_S, saves=True))
    agent.link.report(number, "exited")
    assert log.read_text() == "saved\n"
