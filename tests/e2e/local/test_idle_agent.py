"""After `down`, an agent without jobs ends within a minute and leaves nothing. One with a job stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.support.home import Home
from tests.support.processes import running
from tests.support.waiting import eventually

from warpdeck_agent.daemon.idle_end import IDLE_END_S
from warpdeck_agent.storage.tmpdirs import prefix_of

pytestmark = pytest.mark.slow

MINUTE_S = 60.0


def processes(home: Home) -> set[int]:
    """Return the processes of the home's agent, with its supervisor."""
    return set(running(f"{home.path}/agent")) - {os.getpid()}


def leftovers(home: Home) -> list[str]:
    """Return the cgroups and the temporary folders of the home's agent."""
    identity = (home.path / "agent" / "identity").read_text().strip()
    groups = [
        str(path)
        for base in Path("/sys/fs/cgroup").glob("*")
        for path in (base, *(base.glob(f"*{identity[:8]}*") if base.is_dir() else ()))
        if identity[:8] in path.name
    ]
    return groups + [str(path) for path in Path("/tmp").glob(prefix_of(identity) + "*")]


def test_an_agent_without_jobs_ends_after_down_and_leaves_nothing(home: Home) -> None:
    home.ok("up")
    home.wait_for_idle_node()
    job = home.json("submit", "--no-snapshot", "--wrap", "true", "-o", "/dev/null")["job_id"]
    eventually(lambda: home.state(job) == "COMPLETED", what="a job")
    assert processes(home)
    begun = time.monotonic()
    home.ok("down")
    eventually(lambda: not processes(home), what="the agent and its supervisor end", timeout_s=MINUTE_S)
    ended_after_s = time.monotonic() - begun
    assert IDLE_END_S <= ended_after_s + 1 <= MINUTE_S
    assert leftovers(home) == []
    home.ok("up")
    home.wait_for_idle_node()
    assert home.state(job) == "COMPLETED"


def test_an_agent_with_a_job_stays_after_down(home: Home) -> None:
    home.ok("up")
    home.wait_for_idle_node()
    gate = home.path.parent / "gate"
    script = f"until [ -e {gate} ]; do sleep 0.05; done; exit 7"
    job = home.json("submit", "--no-snapshot", "--wrap", script, "-o", "/dev/null")["job_id"]
    eventually(lambda: home.state(job) == "RUNNING", what="the job runs")
    home.ok("down")
    stopped = time.monotonic()
    eventually(
        lambda: time.monotonic() - stopped > IDLE_END_S + 5,
        what="the time after which an idle agent ends",
        timeout_s=MINUTE_S,
    )
    assert processes(home)
    gate.touch()
    home.ok("up")
    eventually(lambda: home.state(job) == "FAILED", what="the end of the job")
    assert home.job(job)["exit_code"] == "7:0"
