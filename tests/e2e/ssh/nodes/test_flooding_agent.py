"""An agent that floods the controller: its link is closed, the controller's memory stays bounded, and other
nodes are not affected.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.lab import flooder
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck.fleet.build import build_local_zipapp
from warpdeck_agent.linux.procfs import number, table

pytestmark = pytest.mark.lab
OTHER_NODES = 3
GROWTH_KB = 32 * 1024
"""Allowed growth of the controller, for buffers and memory that Python keeps. An unbounded flood would take 2
MiB per second.
"""


@contextmanager
def flooding_agent(home: Home, kind: str) -> Iterator[None]:
    """Run a flooding program in place of this machine's agent."""
    agent = home.path / "agent"
    agent.mkdir(mode=0o700, exist_ok=True)
    _, build = build_local_zipapp(str(agent))  # The controller uses this file, too.
    argv = [sys.executable, flooder.__file__, str(agent), build, kind]
    process = subprocess.Popen(argv, env=home.environ, stdout=subprocess.DEVNULL)
    try:
        eventually((agent / "agent.sock").exists, what="the program listens")
        yield
    finally:
        process.kill()
        process.wait()


def peak_kb(home: Home) -> int:
    """Return the controller's peak memory."""
    return number(table(f"/proc/{home.controller_pid()}/status")["VmHWM"])


def row(home: Home, name: str) -> dict[str, Any]:
    """Return the row of a node."""
    found: dict[str, Any] = next(node for node in home.json("node", "ls") if node["name"] == name)
    return found


@pytest.mark.parametrize("kind", ["reports", "samples"])
def test_a_flooding_agent_is_disconnected_and_other_nodes_are_not_affected(
    lab: Lab, lab_home: Home, short_tmp: Path, kind: str
) -> None:
    for host in range(1, OTHER_NODES + 1):
        lab_home.ok(
            "node", "add", f"root@{lab.address(host)}", "--name", f"gpu{host}",
            "--accept-host-key", lab.fingerprint(host),
        )  # fmt: skip
    before = peak_kb(lab_home)
    with flooding_agent(lab_home, kind):
        lab_home.run("node", "add", "local")  # The link may be closed before the answer.
        jobs = [
            lab_home.json("submit", "--no-snapshot", "-w", "gpu[1-3]", "--wrap", "true")["job_id"]
            for _ in range(3)
        ]
        eventually(
            lambda: "sends too many messages" in row(lab_home, "local")["reason"],
            what="the link is closed with a reason",
        )
        assert row(lab_home, "local")["state"] == "down"
        assert "sends too many messages" in lab_home.ok("node", "show", "local")
        for job in jobs:
            eventually(
                lambda job=job: lab_home.state(job) == "COMPLETED", what=f"the job ran: {lab_home.job(job)}"
            )
    assert peak_kb(lab_home) - before < GROWTH_KB
    assert all(row(lab_home, f"gpu{host}")["state"] == "idle" for host in range(1, OTHER_NODES + 1))


def test_an_agent_that_reports_many_unknown_jobs_is_disconnected(lab_home: Home, short_tmp: Path) -> None:
    lab_home.ok("up")
    before = peak_kb(lab_home)
    with flooding_agent(lab_home, "welcome"):
        refused = lab_home.run("node", "add", "local")
        assert refused.returncode and "sends too many messages" in refused.stderr
        assert lab_home.json("queue", "--all") == []
    assert peak_kb(lab_home) - before < 3 * GROWTH_KB, "only one message with jobs was read"


def test_an_agent_that_never_reads_is_disconnected_before_memory_grows(
    lab_home: Home, short_tmp: Path
) -> None:
    script = short_tmp / "script"
    script.write_text(f"#!/bin/sh\n# {'x' * 250_000}\n")
    with flooding_agent(lab_home, "deaf"):
        lab_home.ok("node", "add", "local")
        lab_home.ok("submit", "--no-snapshot", "--array=0-999", str(script))
        eventually(
            lambda: "has not read" in row(lab_home, "local")["reason"],
            what="the link is closed with a reason",
        )
        before = peak_kb(lab_home)
        assert lab_home.json("queue", "--all"), "other requests are served"
        assert peak_kb(lab_home) - before < GROWTH_KB
