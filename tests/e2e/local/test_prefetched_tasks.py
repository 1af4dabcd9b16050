"""Short tasks of an array that are prefetched to their node, while agent and controller are killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.agent import lock_holder
from tests.support.home import Home
from tests.support.waiting import eventually

TASKS = 100


class Array:
    """An array whose tasks each write their id into one file."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.ran = home.path.parent / "ran"
        command = f"echo $SLURM_ARRAY_TASK_ID >>{self.ran}"
        submitted = home.json(
            "submit",
            "--no-snapshot",
            f"--array=1-{TASKS}",
            "-o",
            "out/%a",
            "--wrap",
            command,
            cwd=home.path.parent,
        )
        self.id = submitted["job_id"]

    def finished_ids(self) -> list[int]:
        return [int(line) for line in self.ran.read_text().split()] if self.ran.exists() else []

    def wait_for_count(self, count: int) -> None:
        eventually(lambda: len(self.finished_ids()) >= count, timeout_s=60.0, what=f"{count} tasks have run")

    def rows(self) -> list[dict[str, object]]:
        queue_rows = self.home.json("queue", "--all")
        return [row for row in queue_rows if row["array_job_id"] == self.id]


def kill_agent(home: Home) -> None:
    os.kill(lock_holder(home.path / "agent" / "agent.lock"), signal.SIGKILL)


def test_each_task_runs_once_although_agent_and_controller_are_killed(home: Home) -> None:
    array = Array(home)
    array.wait_for_count(15)
    kill_agent(home)
    array.wait_for_count(35)
    home.kill_controller()
    home.ok("up")
    array.wait_for_count(60)
    kill_agent(home)
    home.kill_controller()
    home.ok("up")
    eventually(lambda: all(row["end"] for row in array.rows()), timeout_s=120.0, what="all tasks have ended")
    assert sorted(array.finished_ids()) == list(range(1, TASKS + 1))
    rows = array.rows()
    assert len(rows) == TASKS
    assert {(row["state"], row["restarts"]) for row in rows} == {("COMPLETED", 0)}
    assert len(list(Path(home.path.parent, "out").iterdir())) == TASKS
