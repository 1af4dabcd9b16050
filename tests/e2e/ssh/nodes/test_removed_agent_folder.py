"""A node whose agent's folder is removed while it runs: it takes no more jobs, and none is lost to it."""

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
    """gpu1, and gpu3 whose agent's folder nobody else sees."""
    with lab.small_disk(3, AGENTS):
        for host in (1, 3):
            words = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
            shared_home.ok("node", "add", f"root@{lab.address(host)}", *words)
        yield shared_home
        for host in (1, 3):
            shared_home.ok("node", "rm", "--force", f"gpu{host}")


def ended(home: Home, job: int) -> dict[str, Any]:
    """A job once it has ended."""
    eventually(lambda: home.job(job)["end"], what=f"job {job} has ended")
    row: dict[str, Any] = home.job(job)
    return row


def test_a_step_on_a_node_whose_agents_folder_is_gone_names_it(home: Home, lab: Lab, short_tmp: Path) -> None:
    here, go = short_tmp / "here", short_tmp / "go"
    script = f"touch {here}; until [ -e {go} ]; do sleep 0.1; done; srun true"
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(home.slurm, "salloc", "-w", "gpu3", "sh", "-c", script)
        eventually(here.exists, what="the allocation is there")
        lab.on(3, "sh", "-c", f"rm -rf {AGENTS}/*")
        go.touch()
        done = asked.result()
    assert done.returncode == 1, done.stderr
    assert (
        "srun: error: gpu3: the step's tasks cannot be started on this node: the agent's folder "
        in done.stderr
    )
    eventually(lambda: home.node("gpu3")["state"] == "drained", what="gpu3 takes no more jobs")
    assert "is gone. End the agent (process " in home.node("gpu3")["reason"]


def test_a_node_whose_agents_folder_is_gone_is_drained_and_its_jobs_run_elsewhere(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    first = home.json("submit", "--no-snapshot", "-w", "gpu3", "--wrap", "true", cwd=short_tmp)["job_id"]
    assert ended(home, first)["state"] == "COMPLETED"
    lab.on(3, "sh", "-c", f"rm -rf {AGENTS}/*")
    gate, words = short_tmp / "gate", ("submit", "--no-snapshot", "--exclusive", "-o", "/dev/null")
    fills = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    home.ok(*words, "-w", "gpu1", "--wrap", fills, cwd=short_tmp)  # so that all go to the other node
    jobs = [home.json(*words, "--wrap", "true", cwd=short_tmp)["job_id"] for _ in range(8)]
    eventually(lambda: home.node("gpu3")["state"] == "drained", what="gpu3 takes no more jobs")
    gate.touch()
    rows = [ended(home, job) for job in jobs]
    assert [row["state"] for row in rows] == ["COMPLETED"] * 8
    assert {row["node_list"] for row in rows} == {"gpu1"}
    node = home.node("gpu3")
    assert "is gone. End the agent (process " in node["reason"]
    told = home.run("node", "check", "gpu3")
    assert re.search(r"agent\s+fail", told.stdout), told.stdout
    process = re.search(r"process (\d+)", node["reason"])
    assert process is not None
    lab.on(3, "kill", process[1])
    eventually(lambda: home.node("gpu3")["state"] == "idle", what="a new agent is well")
    again = home.json("submit", "--no-snapshot", "-w", "gpu3", "--wrap", "exit 3", cwd=short_tmp)["job_id"]
    assert ended(home, again)["exit_code"] == "3:0"
