"""The date of a node is set forward or back: the time limits of its jobs do not change."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from tests.support.agent import AgentProcess

from warpdeck_agent.launch.time_limit import TimeLimit
from warpdeck_agent.linux.uptime import uptime_s
from warpdeck_agent.storage.launch_table import META
from warpdeck_agent.storage.spool import LaunchFolder, Meta, Spool
from warpdeck_agent.wire import messages as wire

DAY_S = 86_400.0
LIMIT_S = 3600.0
jumps = pytest.mark.parametrize("jump_s", [-DAY_S, DAY_S])


def launch_folder(path: Path) -> LaunchFolder:
    folder = Spool(str(path)).launch_folder(1, 0)
    folder.create(uid=os.geteuid(), gid=os.getegid(), terminal=True)
    return folder


def time_limit(folder: LaunchFolder, *, started_at_uptime_s: float) -> TimeLimit:
    meta = Meta(
        job_id=1,
        restarts=0,
        role="batch",
        user="root",
        uid=0,
        started_at=time.time(),
        started_at_uptime_s=started_at_uptime_s,
        time_limit_s=LIMIT_S,
        grace_s=1.0,
        stdout="",
        stderr="",
        work_dir="/",
        pty=False,
    )
    return TimeLimit(folder, meta, warn=lambda: None, over=lambda: None)


@jumps
def test_a_job_keeps_its_time_limit_when_the_agent_restarts_after_a_jump(
    agent: AgentProcess, jump_s: float
) -> None:
    agent.launch(1, "sleep 1000", time_limit_s=LIMIT_S)
    agent.first_process(1)
    agent.kill()
    record = agent.record(1)
    assert record is not None
    stored = json.loads(record.meta())  # Below, the job's start is a day away for the agent that starts next.
    record.put(META, json.dumps({**stored, "started_at": stored["started_at"] - jump_s}) + "\n")
    agent.start()
    assert agent.run(2, "true").exit_code == 0
    assert agent.processes(1), "its limit is an hour away after a jump forward"
    agent.link.send(wire.SetLimit(job_id=1, restarts=0, time_limit_s=0.1))
    assert agent.link.report(1, "exited").cause == "timeout", "its limit is not a day away after a jump back"


@jumps
def test_a_suspended_job_has_the_same_time_left_after_a_jump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    folder = launch_folder(tmp_path)

    async def left_after_a_jump() -> float | None:
        limit = time_limit(folder, started_at_uptime_s=uptime_s())
        limit.suspend()
        read_clock = time.time
        monkeypatch.setattr(time, "time", lambda: read_clock() + jump_s)
        restarted = time_limit(folder, started_at_uptime_s=uptime_s())
        assert restarted.suspended
        restarted.resume()
        restarted.end()
        return restarted.left_s()

    assert asyncio.run(left_after_a_jump()) == pytest.approx(LIMIT_S, abs=60)


def test_a_suspension_that_an_earlier_version_stored_is_continued(tmp_path: Path) -> None:
    folder = launch_folder(tmp_path)
    folder.write("stopped", f"{time.time() - 100.0!r} 50.0")

    async def left() -> float | None:
        limit = time_limit(folder, started_at_uptime_s=0.0)
        assert limit.suspended
        limit.resume()
        limit.end()
        return limit.left_s()

    assert asyncio.run(left()) == pytest.approx(LIMIT_S + 150.0, abs=60)
