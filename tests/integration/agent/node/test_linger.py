"""Survival of an agent after a logout: it uses a systemd scope if it can, and reports which one it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.agent import AgentProcess

from warpdeck_agent.linux.linger import describe_session, scope_command


def system(folder: Path, *, status: int, booted: bool = True) -> list[str]:
    """Return the scope command on a system whose systemd-run exits with `status`."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "systemd-run"
    program.write_text(f"#!/bin/sh\nexit {status}\n")
    program.chmod(0o755)
    if booted:
        (folder / "run/systemd/system").mkdir(parents=True)
    return scope_command("warpdeck-agent-1", root=str(folder), path=str(folder / "bin"))


@pytest.mark.lab
def test_a_systemd_scope_is_used_if_available(short_tmp: Path) -> None:
    command = system(short_tmp, status=0)
    assert command[0] == str(short_tmp / "bin" / "systemd-run")
    assert "--scope" in command and "--unit=warpdeck-agent-1" in command and command[-1] == "--"


@pytest.mark.parametrize(("status", "booted"), [(1, True), (0, False)])
def test_without_systemd_the_agent_starts_in_a_session(short_tmp: Path, status: int, booted: bool) -> None:
    assert system(short_tmp, status=status, booted=booted) == []


def test_the_inventory_reports_scope_or_session(short_tmp: Path, agent: AgentProcess) -> None:
    scope = short_tmp / "cgroup"
    scope.write_text("0::/user.slice/user-1.slice/user@1.service/app.slice/warpdeck-agent-5f.scope\n")
    assert describe_session(str(scope)) == "its own systemd scope"
    scope.write_text("0::/user.slice/user-1.slice/session-3.scope\n")
    assert describe_session(str(scope)) == "its own session"
    assert "; the agent runs in its own s" in agent.connect().inventory.containment
