"""Memory usage of a test's agent."""

from __future__ import annotations

from pathlib import Path

from tests.support.agent import AgentProcess


def peak_bytes(agent: AgentProcess) -> int:
    """Return the agent process's peak resident memory in bytes."""
    assert agent.process is not None
    lines = Path(f"/proc/{agent.process.pid}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
