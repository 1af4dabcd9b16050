"""An agent killed at any point of a launch.

The job runs once, its end is reported, and no part of it is left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.agent import ANSWER_S, FROM_SOURCE, AgentProcess
from tests.support.waiting import eventually

import warpdeck_agent
from warpdeck_agent.wire import messages as wire

LETTING_GO = {("forgetting.py", "forget"), ("launch_table.py", "release")}
CRASH = Path(__file__).parents[3] / "lab" / "crash.py"
POINTS = [
    ("launch_start.py", "start", "call"),
    ("spool.py", "create", "return"),
    ("launch_setup.py", "make", "call"),
    ("launch_setup.py", "make", "return"),
    ("launch_table.py", "begin", "call"),
    ("launch_table.py", "begin", "return"),
    ("launch_start.py", "_begin", "call"),
    ("launch_start.py", "_order", "return"),
    ("supervisor_link.py", "start", "return"),
    ("supervisor_link.py", "_take", "call"),
    ("supervisor_link.py", "_take", "return"),
    ("launch.py", "report", "return"),
    ("ending.py", "ended", "call"),
    ("teardown.py", "settle", "call"),
    ("teardown.py", "settle", "return"),
    ("ending.py", "_close", "call"),
    ("ending.py", "_tell_end", "return"),
    ("forgetting.py", "forget", "call"),
    ("launch_table.py", "release", "call"),
    ("launch_table.py", "release", "return"),
]
"""The points at which the agent is killed, in the order in which a launch reaches them.

A coroutine's `return` event also occurs at its first wait.
"""


@pytest.mark.parametrize(("file", "function", "moment"), POINTS)
def test_a_launch_survives_an_agent_killed_at_any_point(
    short_tmp: Path, file: str, function: str, moment: str
) -> None:
    runs = short_tmp / "runs"
    (short_tmp / "own").mkdir()
    was_let_go = (file, function) in LETTING_GO
    agent = AgentProcess(short_tmp / "agent", program=[sys.executable, str(CRASH), file, function, moment])
    try:
        agent.start()
        ask(agent, runs)
        if was_let_go:
            agent.link.report(1, "exited")
            agent.link.send(wire.Forget(job_id=1, restarts=0))
        assert agent.process is not None
        assert agent.process.wait(ANSWER_S) == -signal.SIGKILL, "the agent was killed at that point"
        agent.program = FROM_SOURCE
        known = agent.start().jobs
        if not known and not was_let_go:
            ask(agent, runs)  # a controller sends a launch again if the agent does not know it
        if known or not was_let_go:
            assert agent.link.report(1, "exited").exit_code == 0
        agent.link.send(wire.Forget(job_id=1, restarts=0))
        assert agent.connect().jobs == []
        assert runs.read_text() == "ran\n"
        assert not list((agent.folder / "jobs").glob("1.*"))
        if os.geteuid() == 0:  # Only an agent of root gives jobs private folders.
            eventually(
                lambda: not list((short_tmp / "own").iterdir()), what="the private folders are removed"
            )
    finally:
        agent.close()


def ask(agent: AgentProcess, runs: Path) -> None:
    """Launch job 1, which records its run, leaves a file in a private folder, and takes a moment."""
    own = runs.parent / "own"
    script = f"echo ran >>{runs}; touch {own}/left; sleep 0.2"
    agent.launch(1, script, stdout="/dev/null", private_dirs=[str(own)])


JOBS = 1000


def test_a_thousand_launches_at_once_all_run_and_leave_nothing(agent: AgentProcess, short_tmp: Path) -> None:
    runs = short_tmp / "runs"
    for number in range(1, JOBS + 1):
        agent.launch(
            number,
            f"echo $WARPDECK_JOB >>{runs}; exit $(($SLURM_RANK % 7))",
            stdout="/dev/null",
            env={"PATH": "/usr/bin:/bin", "SLURM_RANK": str(number)},
        )
    codes = {}
    for _ in range(JOBS):
        report = agent.link.expect(wire.JobReport, lambda found: found.phase == "exited")
        codes[report.job_id] = report.exit_code
        agent.link.send(wire.Forget(job_id=report.job_id, restarts=0))
    assert codes == {number: number % 7 for number in range(1, JOBS + 1)}
    assert len(set(runs.read_text().split())) == len(runs.read_text().split()) == JOBS
    assert agent.connect().jobs == []


def test_a_supervisor_ends_if_its_agent_never_joins(short_tmp: Path) -> None:
    (short_tmp / "jobs").mkdir()
    code = "import sys; from warpdeck_agent.supervisor.supervisor import Supervisor; Supervisor(sys.argv[1]).run(join_s=0.1)"
    folder = str(Path(warpdeck_agent.__file__).parent.parent)
    ended = subprocess.run(
        [sys.executable, "-c", code, str(short_tmp)], env={"PYTHONPATH": folder}, timeout=30, check=False
    )
    assert ended.returncode == 0
