"""The life of nodes and agents: killed, cut off, replaced by another version. Jobs go on and their ends are known."""

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
    """Nodes gpu1 and gpu2."""
    for host in (1, 2):
        add(shared_home, lab, host)
    return shared_home


def add(home: Home, lab: Lab, host: int) -> None:
    target = f"root@{lab.address(host)}"
    home.ok("node", "add", target, "--name", f"gpu{host}", "--accept-host-key", lab.fingerprint(host))


class Gated:
    """A job that ticks, and ends with code 5 once its gate is open."""

    def __init__(self, home: Home, folder: Path, node: str) -> None:
        self.home = home
        self.gate = folder / "gate"
        self.ticks = folder / "ticks"
        command = (
            f"while [ ! -e {self.gate} ]; do echo tick; echo tick >>{self.ticks}; sleep 0.1; done; exit 5"
        )
        found = home.json("submit", "--no-snapshot", "-w", node, "--wrap", command, cwd=folder)
        self.id = found["job_id"]
        eventually(lambda: self.count() > 0, what=f"it runs: {home.job(self.id)}")

    def count(self) -> int:
        return len(self.ticks.read_text().splitlines()) if self.ticks.exists() else 0

    def goes_on(self) -> None:
        """It ticks from now on."""
        before = self.count()
        eventually(lambda: self.count() > before + 2, what="it ticks")

    def ends_well(self, *, timeout_s: float = 60.0) -> None:
        self.gate.touch()
        eventually(
            lambda: self.home.job(self.id)["end"], timeout_s=timeout_s, what=f"{self.home.job(self.id)}"
        )
        row = self.home.job(self.id)
        assert (row["state"], row["exit_code"], row["restarts"]) == ("FAILED", "5:0", 0)


def state(home: Home, name: str) -> str:
    return str(home.node(name)["state"])


def test_a_killed_agent_is_started_anew_and_adopts_its_job(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = Gated(home, short_tmp, "gpu1")
    agent = lab.agent(1)
    lab.on(1, "kill", "-9", str(agent))
    eventually(lambda: lab.agent(1) != agent, what="a new agent is there")
    job.goes_on()
    job.ends_well()


def test_a_job_that_ends_while_its_agent_is_dead_keeps_its_exit_code(
    home: Home, lab: Lab, short_tmp: Path
) -> None:
    job = Gated(home, short_tmp, "gpu1")
    lab.sh("sshd", "1", "stop")
    try:
        eventually(lambda: state(home, "gpu1") == "down", what="the link is lost")
        agent = lab.agent(1)
        lab.on(1, "kill", "-9", str(agent))
        job.gate.touch()
        eventually(lambda: lab.pids(1, str(job.gate)) == [], what="the job has ended")
    finally:
        lab.sh("sshd", "1", "start")
    job.ends_well()


def test_sshd_may_be_restarted(home: Home, lab: Lab, short_tmp: Path) -> None:
    job, other = Gated(home, short_tmp, "gpu2"), short_tmp / "other"
    other.mkdir()
    neighbour = Gated(home, other, "gpu1")
    lab.sh("sshd", "2", "stop")
    try:
        eventually(lambda: state(home, "gpu2") == "down", what="the link is lost")
        said = eventually(
            lambda: refused if "refused the connection" in (refused := reason(home, "gpu2")) else "",
            what="the reason is shown",
        )
        assert "next attempt in" in said
        assert home.state(job.id) == home.state(neighbour.id) == "RUNNING"
    finally:
        lab.sh("sshd", "2", "start")
    job.goes_on()
    job.ends_well()
    neighbour.ends_well()


def reason(home: Home, name: str) -> str:
    return str(home.node(name)["reason"])


def test_a_short_cut_of_the_link_is_not_even_noticed(home: Home, lab: Lab, short_tmp: Path) -> None:
    job = Gated(home, short_tmp, "gpu1")
    output = short_tmp / f"slurm-{job.id}.out"
    before = home.log().count("gpu1: connection lost")
    lab.sh("partition", "1")
    try:
        job.goes_on()
    finally:
        lab.sh("heal", "1")
    assert state(home, "gpu1") == "mixed"
    job.ends_well()
    eventually(lambda: len(output.read_text().splitlines()) == job.count(), what="no line is missing")
    assert home.log().count("gpu1: connection lost") == before


@pytest.fixture
def other_build(short_tmp: Path) -> Path:
    """An import root with an agent of other bytes."""
    source = Path(warpdeck_agent.__file__).parent
    copy = short_tmp / "other" / "warpdeck_agent"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "__init__.py").open("a") as file:
        file.write("# another build\n")
    return copy.parent


@pytest.fixture
def other_home(lab: Lab, short_tmp: Path, other_build: Path) -> Iterator[Home]:
    """A controller of that build."""
    path = os.pathsep.join((str(other_build), os.environ.get("PYTHONPATH", "")))
    made = start_home(lab, short_tmp, PYTHONPATH=path)
    yield made
    end_home(Home(made.path, HOME=made.environ["HOME"], SSH_AUTH_SOCK=""))


def ours(home: Home) -> Home:
    """The same home after a change of version."""
    home.ok("down")
    changed = Home(home.path, HOME=home.environ["HOME"], SSH_AUTH_SOCK="")
    changed.ok("up")
    return changed


def build_on(lab: Lab, host: int, home: Home) -> str:
    """The program of the home's agent that runs there."""
    return lab.on(host, "sh", "-c", f"tr '\\0' ' ' </proc/{lab.agent(host)}/cmdline")


def test_an_agent_of_another_build_is_replaced_and_its_job_goes_on(
    lab: Lab, other_home: Home, short_tmp: Path
) -> None:
    add(other_home, lab, 3)
    job = Gated(other_home, short_tmp, "gpu3")
    before = build_on(lab, 3, other_home)
    home = ours(other_home)
    eventually(lambda: state(home, "gpu3") == "mixed", what="the node is up")
    assert build_on(lab, 3, home) != before
    job.goes_on()
    job.home = home
    job.ends_well()


def test_an_agent_of_a_newer_protocol_is_left_alone_and_named(
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
    job = Gated(other_home, short_tmp, "gpu3")
    home = ours(other_home)
    eventually(lambda: "newer" in reason(home, "gpu3"), what="the reason is shown")
    assert "update warpdeck here" in reason(home, "gpu3")
    job.goes_on()
    home.ok("down")
    other_home.ok("up")
    job.ends_well()
