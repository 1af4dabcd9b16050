"""Full disks and missing folders on nodes: the job's message names the folder, other jobs continue, and freed
space is used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab

AGENTS = "/var/lib/warpdeck"


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Iterator[Home]:
    """A home with gpu1, and gpu3 with little disk space for its agent.

    The tests are about launches, so a full disk does not drain a node here.
    """
    (shared_home.path / "config.toml").write_text('[health]\nignore = ["disk"]\n')
    shared_home.ok("config", "reload")
    with lab.small_disk(3, AGENTS, size="4m"):
        for host in (1, 3):
            target = f"root@{lab.address(host)}"
            node_options = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
            shared_home.ok("node", "add", target, *node_options)
        yield shared_home
        shared_home.ok("node", "rm", "--force", "gpu3")


def run(home: Home, folder: Path, node: str, command: str, *options: str) -> dict[str, Any]:
    """Run a job on the node until it ends, and return its row and message."""
    submitted = home.json("submit", "--no-snapshot", "-w", node, *options, "--wrap", command, cwd=folder)
    job = submitted["job_id"]
    eventually(lambda: home.job(job)["end"], what=f"job {job} has ended: {home.job(job)}")
    detail = home.json("show", str(job))
    return {**detail["row"], "message": detail["message"]}


def test_a_full_agent_folder_fails_only_new_launches_on_that_node(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    gate, ticks = short_tmp / "gate", short_tmp / "ticks"
    command = f"while [ ! -e {gate} ]; do echo >>{ticks}; sleep 0.1; done; exit 6"
    before = home.json("submit", "--no-snapshot", "-w", "gpu3", "--wrap", command, cwd=short_tmp)["job_id"]
    eventually(ticks.exists, what="a job runs on gpu3")
    lab.on(3, "sh", "-c", f"cat /dev/zero >{AGENTS}/filler 2>/dev/null || true")
    try:
        failed = run(home, short_tmp, "gpu3", "true")
        assert (failed["state"], failed["exit_cause"]) == ("FAILED", "launch_failed")
        assert f"the disk of {AGENTS}" in failed["message"] and "is full" in failed["message"]
        assert run(home, short_tmp, "gpu1", "true")["state"] == "COMPLETED"
        assert home.node("gpu3")["state"] == "mixed"
        gate.touch()
        eventually(lambda: home.job(before)["end"], what="the earlier job has ended")
        assert home.job(before)["exit_code"] == "6:0", "the exit status needs no disk space"
    finally:
        lab.on(3, "rm", f"{AGENTS}/filler")
    assert run(home, short_tmp, "gpu3", "true")["state"] == "COMPLETED"


def test_a_full_output_folder_on_the_node_is_named_in_the_message(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    results = short_tmp / "results"
    results.mkdir()
    with lab.small_disk(3, str(results), files=2):
        lab.on(3, "touch", str(results / "filler"))
        failed = run(home, short_tmp, "gpu3", "echo hello", "-o", "results/out.txt")
        assert (failed["state"], failed["exit_cause"]) == ("FAILED", "launch_failed")
        assert str(results / "out.txt") in failed["message"]
        assert run(home, short_tmp, "gpu1", "echo hello", "-o", "results/out.txt")["state"] == "COMPLETED"
        lab.on(3, "rm", str(results / "filler"))
        assert run(home, short_tmp, "gpu3", "echo hello", "-o", "results/out.txt")["state"] == "COMPLETED"
        assert lab.on(3, "cat", str(results / "out.txt")) == "hello\n"


def test_a_missing_working_folder_on_a_shared_file_system_is_named_in_the_output(
    home: Home, short_tmp: Path
) -> None:
    missing, out = short_tmp / "above" / "missing", short_tmp / "out.txt"
    assert run(home, short_tmp, "gpu1", "pwd", "-D", str(missing), "-o", str(out))["state"] == "COMPLETED"
    line = f"slurmstepd: error: couldn't chdir to `{missing}': No such file or directory: going to /tmp instead\n"
    assert out.read_text() == f"{line}{line}/tmp\n"
    failed = run(home, short_tmp, "gpu1", "pwd", "-D", str(missing))
    assert (failed["state"], failed["exit_code"], failed["exit_cause"]) == ("FAILED", "0:53", "launch_failed")
    assert f"{missing}, the working folder of the job: No such file or directory" in failed["message"]
    assert not missing.parent.exists()
