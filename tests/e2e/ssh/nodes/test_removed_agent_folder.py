"""The folder of a node's agent is removed while the agent runs: the node takes no more jobs, and no job is
lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab

AGENTS = "/var/lib/warpdeck"


@pytest.fixture
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    """A home with gpu1, and gpu3 with an agent folder that no other host sees."""
    with lab.small_disk(3, AGENTS):
        for host in (1, 3):
            options = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
            shared_home.ok("node", "add", f"root@{lab.address(host)}", *options)
        yield shared_home
        for host in (1, 3):
            shared_home.ok("node", "rm", "--force", f"gpu{host}")


def wait_for_end(home: Home, job: int) -> dict[str, Any]:
    """Wait until the job has ended, and return its row."""
    eventually(lambda: home.job(job)["end"], what=f"job {job} has ended")
    row: dict[str, Any] = home.job(job)
    return row


def test_a_step_on_a_node_without_agent_folder_fails_with_the_reason(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    granted, go = short_tmp / "here", short_tmp / "go"
    script = f"touch {granted}; until [ -e {go} ]; do sleep 0.1; done; srun true"
    with ThreadPoolExecutor() as pool:
        allocation = pool.submit(home.slurm, "salloc", "-w", "gpu3", "sh", "-c", script)
        eventually(granted.exists, what="the allocation is granted")
        lab.on(3, "sh", "-c", f"rm -rf {AGENTS}/*")
        go.touch()
        result = allocation.result()
    assert result.returncode == 1, result.stderr
    assert (
        "srun: error: gpu3: cannot start the step's tasks on this node: the agent's folder " in result.stderr
    )
    eventually(lambda: home.node("gpu3")["state"] == "drained", what="gpu3 takes no more jobs")
    assert "is gone. Stop the agent (process " in home.node("gpu3")["reason"]


def test_a_node_without_agent_folder_is_drained_and_its_jobs_run_elsewhere(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    first = home.json("submit", "--no-snapshot", "-w", "gpu3", "--wrap", "true", cwd=short_tmp)["job_id"]
    assert wait_for_end(home, first)["state"] == "COMPLETED"
    lab.on(3, "sh", "-c", f"rm -rf {AGENTS}/*")
    gate, argv = short_tmp / "gate", ("submit", "--no-snapshot", "--exclusive", "-o", "/dev/null")
    wait_script = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    home.ok(
        *argv, "-w", "gpu1", "--wrap", wait_script, cwd=short_tmp
    )  # All other jobs then run on the other node.
    jobs = [home.json(*argv, "--wrap", "true", cwd=short_tmp)["job_id"] for _ in range(8)]
    eventually(lambda: home.node("gpu3")["state"] == "drained", what="gpu3 takes no more jobs")
    gate.touch()
    rows = [wait_for_end(home, job) for job in jobs]
    assert [row["state"] for row in rows] == ["COMPLETED"] * 8
    assert {row["node_list"] for row in rows} == {"gpu1"}
    node = home.node("gpu3")
    assert "is gone. Stop the agent (process " in node["reason"]
    check = home.run("node", "check", "gpu3")
    assert re.search(r"agent\s+fail", check.stdout), check.stdout
    process = re.search(r"process (\d+)", node["reason"])
    assert process is not None
    lab.on(3, "kill", process[1])
    eventually(lambda: home.node("gpu3")["state"] == "idle", what="a new agent runs")
    last_job = home.json("submit", "--no-snapshot", "-w", "gpu3", "--wrap", "exit 3", cwd=short_tmp)["job_id"]
    assert wait_for_end(home, last_job)["exit_code"] == "3:0"
