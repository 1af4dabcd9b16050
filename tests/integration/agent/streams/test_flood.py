"""A job that writes as fast as the disk allows: the agent's memory does not grow, and other jobs continue.

This holds both with and without a follower of the output.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.agent import AgentProcess
from tests.support.waiting import eventually

from warpdeck_agent.linux.procfs import number, table
from warpdeck_agent.wire import messages as wire
from warpdeck_agent.wire.frames import STREAM_WINDOW_BYTES

MIB = 1 << 20
FLOOD = 256 * MIB
GROWTH = 48 * MIB
"""Far below the flood, and far above the windows of a stream and the memory that Python keeps for reuse."""
FOR_EVER = "while [ ! -e {gate} ]; do head -c 33554432 /dev/zero; : >{output}; done"
"""Overwrite the same 32 MiB again and again, so that the disk does not fill."""


def peak_bytes(agent: AgentProcess) -> int:
    """Return the agent's peak memory in bytes."""
    assert agent.process is not None
    return number(table(f"/proc/{agent.process.pid}/status")["VmHWM"]) * 1024


def test_a_follower_that_does_not_read_stops_the_stream_in_bounded_memory(
    agent: AgentProcess, short_tmp: Path
) -> None:
    before, output = peak_bytes(agent), short_tmp / "out"
    report = agent.run(1, f"head -c {FLOOD} /dev/zero; exit 3", stdout=str(output))
    assert report.exit_code == 3 and output.stat().st_size == FLOOD
    agent.link.acknowledges = False
    agent.link.send(wire.OpenLog(stream=1, job_id=1, restarts=0, follow=True))
    agent.link.expect(wire.StreamOpened)
    for job in range(2, 6):
        assert agent.run(job, f"exit {job}").exit_code == job
    assert 0 < len(agent.link.data[1]) <= STREAM_WINDOW_BYTES
    assert peak_bytes(agent) - before < GROWTH


@pytest.mark.parametrize("followed", [False, True])
def test_endless_output_does_not_increase_the_memory_of_the_agent(
    agent: AgentProcess, short_tmp: Path, followed: bool
) -> None:
    before, gate, output = peak_bytes(agent), short_tmp / "gate", short_tmp / "out"
    agent.launch(1, FOR_EVER.format(gate=gate, output=output), stdout=str(output))
    agent.link.report(1, "running")
    if followed:
        agent.link.send(wire.OpenLog(stream=1, job_id=1, restarts=0, follow=True))
        while len(agent.link.data.get(1, b"")) < 16 * MIB:
            agent.link.read()
    eventually(lambda: output.exists() and output.stat().st_size > MIB, what="the flood has started")
    for job in range(2, 8):
        assert agent.run(job, f"exit {job}").exit_code == job
    assert peak_bytes(agent) - before < GROWTH
    gate.touch()
    agent.link.report(1, "exited")
