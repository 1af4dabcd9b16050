"""Agents that are killed, disconnected or replaced by another build: jobs continue and their ends are
reported.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.homes import end_home, start_home
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

import warpdeck_agent

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def home(shared_home: Home, lab: Lab) -> Home:
    """A home with the nodes gpu1 and gpu2."""
    for host in (1, 2):
        add(shared_home, lab, host)
    return shared_home


def add(home: Home, lab: Lab, host: int) -> None:
    target = f"root@{lab.address(host)}"
    home.ok("node", "add", target, "--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host))


class GatedJob:
    """A job that writes ticks until its gate is open, and then ends with exit code 5."""

    def __init__(self, home: Home, folder: Path, node: str) -> None:
        self.home = home
        self.gate = folder / "gate"
        self.ticks = folder / "ticks"
        command = (
            f"while [ ! -e {self.gate} ]; do echo tick; echo tick >>{self.ticks}; sleep 0.1; done; exit 5"
        )
        submitted = home.json("submit", "--no-snapshot", "-w", node, "--wrap", command, cwd=folder)
        self.id = submitted["job_id"]
        eventually(lambda: self.tick_count() > 0, what=f"job runs: {home.job(self.id)}")

    def tick_count(self) -> int:
        return len(self.ticks.read_text().splitlines()) if self.ticks.exists() else 0

    def wait_for_ticks(self) -> None:
        """Wait until the job writes further ticks."""
        before = self.tick_count()
        eventually(lambda: self.tick_count() > before + 2, what="the job writes ticks")

    def open_gate_and_check_end(self, *, timeout_s: float = 60.0) -> None:
        self.gate.touch()
        eventually(
            lambda: self.home.job(self.id)["end"], timeout_s=timeout_s, what=f"{self.home.job(self.id)}"
        )
        row = self.home.job(self.id)
        assert (row["state"], row["exit_code"], row["restarts"]) == ("FAILED", "5:0", 0)


def state(home: Home, name: str) -> str:
    return str(home.node(name)["state"])


def test_a_killed_agent_is_restarted_and_adopts_its_job(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = GatedJob(home, short_tmp, "gpu1")
    agent = lab.agent(1)
    lab.on(1, "kill", "-9", str(agent))
    eventually(lambda: lab.agent(1) != agent, what="a new agent runs")
    job.wait_for_ticks()
    job.open_gate_and_check_end()


def test_a_job_that_ends_without_an_agent_keeps_its_exit_code(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = GatedJob(home, short_tmp, "gpu1")
    lab.sh("sshd", "1", "stop")
    try:
        eventually(lambda: state(home, "gpu1") == "down", what="the link is lost")
        agent = lab.agent(1)
        lab.on(1, "kill", "-9", str(agent))
        job.gate.touch()
        eventually(lambda: lab.pids(1, str(job.gate)) == [], what="the job has ended")
    finally:
        lab.sh("sshd", "1", "start")
    job.open_gate_and_check_end()


def test_jobs_survive_a_restart_of_sshd(home: Home, lab: Lab, short_tmp: Path) -> None:
    job, other = GatedJob(home, short_tmp, "gpu2"), short_tmp / "other"
    other.mkdir()
    neighbor = GatedJob(home, other, "gpu1")
    lab.sh("sshd", "2", "stop")
    try:
        eventually(lambda: state(home, "gpu2") == "down", what="the link is lost")
        message = eventually(
            lambda: refused if "refused the connection" in (refused := reason(home, "gpu2")) else "",
            what="the reason is shown",
        )
        assert "next attempt in" in message
        assert home.state(job.id) == home.state(neighbor.id) == "RUNNING"
    finally:
        lab.sh("sshd", "2", "start")
    job.wait_for_ticks()
    job.open_gate_and_check_end()
    neighbor.open_gate_and_check_end()


def reason(home: Home, name: str) -> str:
    return str(home.node(name)["reason"])


def test_a_short_interruption_of_the_link_goes_unnoticed(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = GatedJob(home, short_tmp, "gpu1")
    output = short_tmp / f"slurm-{job.id}.out"
    before = home.log().count("gpu1: connection lost")
    lab.sh("partition", "1")
    try:
        job.wait_for_ticks()
    finally:
        lab.sh("heal", "1")
    assert state(home, "gpu1") == "mixed"
    job.open_gate_and_check_end()
    eventually(lambda: len(output.read_text().splitlines()) == job.tick_count(), what="no line is missing")
    assert home.log().count("gpu1: connection lost") == before


@pytest.fixture
def other_build(short_tmp: Path) -> Path:
    """An import root with an agent of another build."""
    source = Path(warpdeck_agent.__file__).parent
    copy = short_tmp / "other" / "warpdeck_agent"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "__init__.py").open("a") as file:
        file.write("# another build\n")
    return copy.parent


@pytest.fixture
def other_home(lab: Lab, short_tmp: Path, other_build: Path) -> Iterator[Home]:
    """A home with a controller of that build."""
    path = os.pathsep.join((str(other_build), os.environ.get("PYTHONPATH", "")))
    home_of_other_build = start_home(lab, short_tmp, PYTHONPATH=path)
    yield home_of_other_build
    end_home(Home(home_of_other_build.path, HOME=home_of_other_build.environ["HOME"], SSH_AUTH_SOCK=""))


def restart_with_our_build(home: Home) -> Home:
    """Restart the controller of the home with our build."""
    home.ok("down")
    changed = Home(home.path, HOME=home.environ["HOME"], SSH_AUTH_SOCK="")
    changed.ok("up")
    return changed


def build_on(lab: Lab, host: int, home: Home) -> str:
    """Return the command line of the host's agent, which names its build."""
    return lab.on(host, "sh", "-c", f"tr '\\0' ' ' </proc/{lab.agent(host)}/cmdline")


def test_an_agent_of_another_build_is_replaced_and_its_job_continues(
    lab: Lab, other_home: Home, short_tmp: Path
) -> None:
    add(other_home, lab, 3)
    job = GatedJob(other_home, short_tmp, "gpu3")
    before = build_on(lab, 3, other_home)
    home = restart_with_our_build(other_home)
    eventually(lambda: state(home, "gpu3") == "mixed", what="the node is up")
    assert build_on(lab, 3, home) != before
    job.wait_for_ticks()
    job.home = home
    job.open_gate_and_check_end()


def test_an_agent_with_a_newer_protocol_is_left_running_and_reported(
    lab: Lab, other_build: Path, short_tmp: Path, other_home: Home
) -> None:
    other_home.ok("down")
    messages = other_build / "warpdeck_agent" / "wire" / "messages.py"
    text = messages.read_text()
    newer = text.replace("PROTOCOL_VERSION = 1", "PROTOCOL_VERSION = 2")
    assert newer != text
    messages.write_text(newer)
    other_home.ok("up", "--no-local-node")
    add(other_home, lab, 3)
    job = GatedJob(other_home, short_tmp, "gpu3")
    home = restart_with_our_build(other_home)
    eventually(lambda: "newer" in reason(home, "gpu3"), what="the reason is shown")
    assert "update warpdeck here" in reason(home, "gpu3")
    job.wait_for_ticks()
    home.ok("down")
    other_home.ok("up")
    job.open_gate_and_check_end()
