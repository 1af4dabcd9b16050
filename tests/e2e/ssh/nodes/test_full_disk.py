"""Full disks on nodes: the job says what is full and where, everybody else goes on, and freed space is used again."""

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
    """gpu1, and gpu3 with little room for its agent. Launches are what is looked at: a full disk drains no node here."""
    (shared_home.path / "config.toml").write_text('[health]\nignore = ["disk"]\n')
    shared_home.ok("config", "reload")
    with lab.small_disk(3, AGENTS, size="4m"):
        for host in (1, 3):
            target = f"root@{lab.address(host)}"
            words = ["--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host)]
            shared_home.ok("node", "add", target, *words)
        yield shared_home
        shared_home.ok("node", "rm", "--force", "gpu3")


def run(home: Home, folder: Path, node: str, command: str, *options: str) -> dict[str, Any]:
    """A job of that node once it has ended, with its message."""
    found = home.json("submit", "--no-snapshot", "-w", node, *options, "--wrap", command, cwd=folder)
    job = found["job_id"]
    eventually(lambda: home.job(job)["end"], what=f"job {job} has ended: {home.job(job)}")
    detail = home.json("show", str(job))
    return {**detail["row"], "message": detail["message"]}


def test_a_full_agent_folder_fails_the_launch_and_harms_nothing_else(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    gate, ticks = short_tmp / "gate", short_tmp / "ticks"
    command = f"while [ ! -e {gate} ]; do echo >>{ticks}; sleep 0.1; done; exit 6"
    before = home.json("submit", "--no-snapshot", "-w", "gpu3", "--wrap", command, cwd=short_tmp)["job_id"]
    eventually(ticks.exists, what="a job runs there")
    lab.on(3, "sh", "-c", f"cat /dev/zero >{AGENTS}/filler 2>/dev/null || true")
    try:
        failed = run(home, short_tmp, "gpu3", "true")
        assert (failed["state"], failed["exit_cause"]) == ("FAILED", "launch_failed")
        assert f"the disk of {AGENTS}" in failed["message"] and "is full" in failed["message"]
        assert run(home, short_tmp, "gpu1", "true")["state"] == "COMPLETED"
        assert home.node("gpu3")["state"] == "mixed"
        gate.touch()
        eventually(lambda: home.job(before)["end"], what="the job from before has ended")
        assert home.job(before)["exit_code"] == "6:0", "its exit status needed no room"
    finally:
        lab.on(3, "rm", f"{AGENTS}/filler")
    assert run(home, short_tmp, "gpu3", "true")["state"] == "COMPLETED"


def test_a_full_output_folder_on_the_node_is_named(home: Home, lab: Lab, short_tmp: Path) -> None:
    place = short_tmp / "results"
    place.mkdir()
    with lab.small_disk(3, str(place), files=2):
        lab.on(3, "touch", str(place / "filler"))
        failed = run(home, short_tmp, "gpu3", "echo hello", "-o", "results/out.txt")
        assert (failed["state"], failed["exit_cause"]) == ("FAILED", "launch_failed")
        assert str(place / "out.txt") in failed["message"]
        assert run(home, short_tmp, "gpu1", "echo hello", "-o", "results/out.txt")["state"] == "COMPLETED"
        lab.on(3, "rm", str(place / "filler"))
        assert run(home, short_tmp, "gpu3", "echo hello", "-o", "results/out.txt")["state"] == "COMPLETED"
        assert lab.on(3, "cat", str(place / "out.txt")) == "hello\n"
