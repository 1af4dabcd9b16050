"""Idle sessions: detection by terminal, processes and GPUs. The start of the agent counts as use."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from warpdeck_agent.attach.idleness import CPU_EVERY_S, QUIET_S, Idleness
from warpdeck_agent.launch.launch import LocalLaunch
from warpdeck_agent.linux.cpu_time import CpuTime
from warpdeck_agent.linux.uptime import uptime_at
from warpdeck_agent.storage.spool import Meta, Spool
from warpdeck_agent.wire.messages import GpuProcess, GpuSample


class Running:
    """A stand-in for warpdeck_agent.registry.launches.Launches with the one terminal job of a session."""

    def __init__(self, folder: Path) -> None:
        meta = Meta(
            job_id=1,
            restarts=0,
            role="tasks",
            user="u",
            uid=os.geteuid(),
            started_at=0.0,
            time_limit_s=None,
            grace_s=1.0,
            stdout="",
            stderr="",
            work_dir="/",
            pty=True,
        )
        launch_folder = Spool(str(folder)).launch_folder(1, 0)
        launch_folder.create(uid=os.geteuid(), gid=os.getegid(), terminal=True)
        self.active = Path(launch_folder.file("active"))
        self.active.touch()
        self.job = LocalLaunch(launch_folder, meta, agent="a")

    def running(self) -> list[LocalLaunch]:
        return [self.job]


def end_nothing(launch: LocalLaunch, text: str, *, cause: str) -> None:
    """Do nothing, because no session of these tests reaches its limit."""


@pytest.fixture
def session(tmp_path: Path) -> Running:
    return Running(tmp_path)


def idle(session: Running) -> Idleness:
    """Return an Idleness that saw the session used only a long time ago."""
    new_idleness = Idleness(session, end_nothing)  # type: ignore[arg-type]
    new_idleness.add_reading([])
    ago = time.time() - 2 * QUIET_S
    os.utime(session.active, (ago, ago))
    seen = new_idleness._activities[session.job.key]
    seen.used_at = seen.cpu_at = uptime_at(ago)
    return new_idleness


def test_an_unused_session_is_idle_since_its_last_use(session: Running) -> None:
    looked = idle(session)
    looked.add_reading([])
    [found] = looked.sessions()
    assert found.job_id == 1 and 2 * QUIET_S <= time.time() - found.since_unix < 3 * QUIET_S


def test_keys_and_output_count_as_use(session: Running) -> None:
    looked = idle(session)
    os.utime(session.active)
    looked.add_reading([])
    assert looked.sessions() == []


def test_a_timestamp_in_the_future_counts_as_now(session: Running) -> None:
    looked = idle(session)
    os.utime(session.active, (time.time() + 86_400,) * 2)
    looked.add_reading([])
    assert looked._activities[session.job.key].used_at <= time.time()


def test_a_computing_session_is_in_use(session: Running) -> None:
    looked = idle(session)
    session.job.usage.cpu = CpuTime(session.job.usage.cpu.total_s + CPU_EVERY_S)
    looked.add_reading([])
    assert looked.sessions() == []


@pytest.mark.parametrize(
    ("job_id", "util", "used"), [(1, 90, True), (1, None, True), (1, 0, False), (2, 90, False)]
)
def test_a_session_with_a_computing_gpu_is_in_use(
    session: Running, job_id: int, util: int | None, used: bool
) -> None:
    looked = idle(session)
    process = GpuProcess(pid=1, mem_bytes=1, job_id=job_id)
    looked.add_reading([GpuSample(index=0, util_pct=util, processes=[process])])
    assert (looked.sessions() == []) is used


def test_a_restarted_agent_counts_a_session_as_used(session: Running) -> None:
    ago = time.time() - 10 * QUIET_S
    os.utime(session.active, (ago, ago))
    looked = Idleness(session, end_nothing)  # type: ignore[arg-type]
    looked.add_reading([])
    assert looked.sessions() == []


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_a_session_is_not_idle_because_the_date_was_set(
    session: Running, monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    looked = Idleness(session, end_nothing)  # type: ignore[arg-type]
    looked.add_reading([])
    read_clock = time.time
    monkeypatch.setattr(time, "time", lambda: read_clock() + jump_s)
    looked.add_reading([])
    assert looked.sessions() == []
