"""Short tasks of an array, handed to their node ahead of time, while agent and controller are killed among them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.agent import lock_holder
from tests.support.home import Home
from tests.support.waiting import eventually

TASKS = 100


class Array:
    """Tasks each of which leaves its number in one file."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.ran = home.path.parent / "ran"
        command = f"echo $SLURM_ARRAY_TASK_ID >>{self.ran}"
        found = home.json(
            "submit",
            "--no-snapshot",
            f"--array=1-{TASKS}",
            "-o",
            "out/%a",
            "--wrap",
            command,
            cwd=home.path.parent,
        )
        self.id = found["job_id"]

    def lines(self) -> list[int]:
        return [int(line) for line in self.ran.read_text().split()] if self.ran.exists() else []

    def come_to(self, count: int) -> None:
        eventually(lambda: len(self.lines()) >= count, timeout_s=60.0, what=f"{count} tasks have run")

    def rows(self) -> list[dict[str, object]]:
        found = self.home.json("queue", "--all")
        return [row for row in found if row["array_job_id"] == self.id]


def kill_agent(home: Home) -> None:
    os.kill(lock_holder(home.path / "agent" / "agent.lock"), signal.SIGKILL)


def test_tasks_run_once_each_whoever_is_killed(home: Home) -> None:
    array = Array(home)
    array.come_to(15)
    kill_agent(home)
    array.come_to(35)
    home.kill_controller()
    home.ok("up")
    array.come_to(60)
    kill_agent(home)
    home.kill_controller()
    home.ok("up")
    eventually(
        lambda: all(row["end"] for row in array.rows()), timeout_s=120.0, what="all of them have ended"
    )
    assert sorted(array.lines()) == list(range(1, TASKS + 1))
    rows = array.rows()
    assert len(rows) == TASKS
    assert {(row["state"], row["restarts"]) for row in rows} == {("COMPLETED", 0)}
    assert len(list(Path(home.path.parent, "out").iterdir())) == TASKS
