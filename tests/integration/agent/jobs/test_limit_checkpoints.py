"""A job that returns to the queue at its time limit: its checkpoints are seen, and it may wait for the next one."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.launch.checkpoints import goes_on_until
from warpdeck_agent.wire import messages as wire

BEGUN, LIMIT, GRACE_S = 0.0, 1000.0, 100.0
LONG_S = 600.0


@pytest.mark.parametrize(
    ("times", "until"),
    [
        ([], LIMIT),  # no checkpoint
        ([200, 400, 600, 840], 840 + 1.25 * 200),  # the next one comes 90 s after the limit
        ([200, 400, 600, 700], LIMIT),  # the next one is overdue
        ([300, 600, 900], LIMIT),  # the next one would come later than the grace time permits
        ([1, 2, 3, 4, 300, 500, 700, 900], LIMIT),  # the frequent ones of the beginning do not count
        ([450, 900], LIMIT),
        ([30, 60, *range(90, 991, 30)], 990 + 1.25 * 30),
    ],
)
def test_a_launch_waits_for_a_checkpoint_that_is_expected_within_the_grace_time(
    times: list[float], until: float
) -> None:
    assert goes_on_until(LIMIT, times, begun_unix=BEGUN, grace_s=GRACE_S) == until


def launch(agent: AgentProcess, script: str, *, limit_s: float, **fields: Any) -> int:
    number = agent.new_id()
    given = {"requeues_at_limit": True, "time_limit_s": limit_s, "grace_s": 30.0, **fields}
    agent.launch(number, script, **given)
    return number


def test_a_job_at_its_limit_ends_after_the_next_checkpoint(agent: AgentProcess) -> None:
    """The checkpoints come every 4 s. The limit comes 2 s after the first one."""
    script = "while sleep 4; do touch $WARPDECK_CHECKPOINT; echo saved; done"
    number = launch(agent, script, limit_s=6.0, limit_grace_s=LONG_S)
    report = agent.link.report(number, "exited")
    assert report.cause == "timeout"
    assert report.checkpoint_at - report.started_at > 7.5, "it is the second checkpoint"
    assert report.ended_at - report.checkpoint_at < 3.5, "it ended before the third one"


def test_a_job_without_a_checkpoint_ends_at_its_limit(agent: AgentProcess) -> None:
    report = agent.link.report(launch(agent, "sleep 1000", limit_s=1.0, limit_grace_s=LONG_S), "exited")
    assert (report.cause, report.checkpoint_at) == ("timeout", 0.0)
    assert report.ended_at - report.started_at < 10


def test_a_job_without_the_option_has_no_file_to_touch(agent: AgentProcess) -> None:
    number = agent.new_id()
    report = agent.run(number, 'exit "${WARPDECK_CHECKPOINT:+3}"0')
    assert report.exit_code == 0


def test_a_job_at_its_limit_saves_its_work(agent: AgentProcess) -> None:
    script = """sh -c 'trap "sleep 1; touch $WARPDECK_CHECKPOINT; exit 0" TERM; while :; do sleep 0.05; done'
    echo after"""
    number = launch(agent, script, limit_s=3.0)
    report = agent.link.report(number, "exited")
    assert report.cause == "timeout"
    assert report.checkpoint_at > 0
    assert "after" not in agent.text(number)


@pytest.mark.parametrize(("saves", "cause"), [("touch $WARPDECK_CHECKPOINT; ", "timeout"), ("", "")])
def test_a_job_that_saves_its_work_and_exits_at_the_warning_is_at_its_limit(
    agent: AgentProcess, saves: str, cause: str
) -> None:
    """Without a checkpoint after the warning, it has ended by itself."""
    script = f"trap '{saves}exit 0' USR1; while :; do sleep 0.05; done"
    warned = {"warn_signal": signal.SIGUSR1, "warn_before_s": LONG_S - 3.0, "warn_batch_only": True}
    report = agent.link.report(launch(agent, script, limit_s=LONG_S, **warned), "exited")
    assert (report.exit_code, report.cause) == (0, cause)


def test_a_killed_agent_does_not_forget_the_checkpoints(agent: AgentProcess) -> None:
    number = launch(agent, "touch $WARPDECK_CHECKPOINT; exec sleep 1000", limit_s=LONG_S)
    record = agent.folder / "jobs" / f"{number}.0" / "checkpoints"
    eventually(record.exists, what="the agent has seen the checkpoint")
    agent.kill()
    [job] = agent.start().jobs
    assert time.time() - 60 < job.checkpoint_at <= time.time()
    agent.link.send(wire.SetLimit(job_id=number, restarts=0, time_limit_s=0.1))
    report = agent.link.report(number, "exited")
    assert (report.cause, report.checkpoint_at) == ("timeout", job.checkpoint_at)


def test_a_touch_with_a_time_in_the_future_is_no_checkpoint(agent: AgentProcess) -> None:
    number = launch(
        agent, "touch -d '+1 year' $WARPDECK_CHECKPOINT; exec sleep 1000", limit_s=3.0, limit_grace_s=LONG_S
    )
    report = agent.link.report(number, "exited")
    assert (report.cause, report.checkpoint_at) == ("timeout", 0.0)


def test_a_node_without_the_batch_script_waits_until_the_first_node_ends_the_job(agent: AgentProcess) -> None:
    number = launch(agent, "", limit_s=1.0, limit_grace_s=2.0, grace_s=1.0, role="hold")
    report = agent.link.report(number, "exited")
    assert report.cause == "timeout"
    assert report.ended_at - report.started_at >= 4.0


def test_a_longer_limit_ends_the_wait_for_a_checkpoint(agent: AgentProcess) -> None:
    script = "sleep 3; touch $WARPDECK_CHECKPOINT; exec sleep 1000"
    number = launch(agent, script, limit_s=4.0, limit_grace_s=LONG_S)
    started = agent.link.report(number, "running").started_at
    eventually(lambda: time.time() > started + 4.1, what="the limit has passed")
    agent.link.send(wire.SetLimit(job_id=number, restarts=0, time_limit_s=LONG_S))
    eventually(lambda: time.time() > started + 8, what="the time for the next checkpoint has passed")
    assert agent.connect().jobs[0].phase == "running"
