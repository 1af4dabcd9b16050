"""An agent that floods the controller: it is read no faster than what it says is dealt with, and cut; other nodes feel little."""

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

from warpdeck.fleet.build import build_zipapp
from warpdeck_agent.linux.procfs import number, table

pytestmark = pytest.mark.lab
HONEST = 3
GROWTH_KB = 32 * 1024
"""Of the controller, for what it reads ahead and what Python keeps for later: a flood that is kept takes 2 MiB a second."""


@contextmanager
def liar(home: Home, folder: Path, kind: str) -> Iterator[None]:
    """A program that floods stands in for this machine's agent."""
    agent = home.path / "agent"
    agent.mkdir(mode=0o700, exist_ok=True)
    _, build = build_zipapp(str(folder))
    argv = [sys.executable, flooder.__file__, str(agent), build, kind]
    process = subprocess.Popen(argv, env=home.environ, stdout=subprocess.DEVNULL)
    try:
        eventually((agent / "agent.sock").exists, what="it listens")
        yield
    finally:
        process.kill()
        process.wait()


def peak_kb(home: Home) -> int:
    """The most memory that the controller has ever had."""
    return number(table(f"/proc/{home.controller_pid()}/status")["VmHWM"])


def row(home: Home, name: str) -> dict[str, Any]:
    """A node's."""
    found: dict[str, Any] = next(each for each in home.json("node", "ls") if each["name"] == name)
    return found


@pytest.mark.parametrize("kind", ["reports", "samples"])
def test_a_flood_costs_the_node_its_link_and_the_others_nothing(
    lab: Lab, lab_home: Home, short_tmp: Path, kind: str
) -> None:
    for host in range(1, HONEST + 1):
        lab_home.ok(
            "node", "add", f"root@{lab.address(host)}", "--name", f"gpu{host}",
            "--accept-host-key", lab.fingerprint(host),
        )  # fmt: skip
    before = peak_kb(lab_home)
    with liar(lab_home, short_tmp, kind):
        lab_home.run("node", "add", "local")  # it may be cut before the answer
        jobs = [
            lab_home.json("submit", "--no-snapshot", "-w", "gpu[1-3]", "--wrap", "true")["job_id"]
            for _ in range(3)
        ]
        eventually(
            lambda: "sends too many messages" in row(lab_home, "local")["reason"],
            what="it is cut, and said why",
        )
        assert row(lab_home, "local")["state"] == "down"
        assert "sends too many messages" in lab_home.ok("node", "show", "local")
        for job in jobs:
            eventually(
                lambda job=job: lab_home.state(job) == "COMPLETED", what=f"it ran: {lab_home.job(job)}"
            )
    assert peak_kb(lab_home) - before < GROWTH_KB
    assert all(row(lab_home, f"gpu{host}")["state"] == "idle" for host in range(1, HONEST + 1))


def test_jobs_that_an_agent_has_invented_cost_it_its_link(lab_home: Home, short_tmp: Path) -> None:
    lab_home.ok("up")
    before = peak_kb(lab_home)
    with liar(lab_home, short_tmp, "welcome"):
        refused = lab_home.run("node", "add", "local")
        assert refused.returncode and "sends too many messages" in refused.stderr
        assert lab_home.json("queue", "--all") == []
    assert peak_kb(lab_home) - before < 3 * GROWTH_KB, "one message of them was read"


def test_an_agent_that_never_reads_is_cut_before_it_has_the_controllers_memory(
    lab_home: Home, short_tmp: Path
) -> None:
    script = short_tmp / "script"
    script.write_text(f"#!/bin/sh\n# {'x' * 250_000}\n")
    with liar(lab_home, short_tmp, "deaf"):
        lab_home.ok("node", "add", "local")
        lab_home.ok("submit", "--no-snapshot", "--array=0-999", str(script))
        eventually(lambda: "has not read" in row(lab_home, "local")["reason"], what="it is cut, and said why")
        before = peak_kb(lab_home)
        assert lab_home.json("queue", "--all"), "the others are served"
        assert peak_kb(lab_home) - before < GROWTH_KB
