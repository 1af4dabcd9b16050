"""Fixtures that start agents for the tests of this folder."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lab.nvml import build_fake_nvml
from tests.support.agent import AgentProcess

from warpdeck.fleet.build import build_zipapp

PYTHON = "/usr/bin/python3"
"""A Python that every user may run; other users may be unable to run the Python of the tests."""
ADA, BOB, LAB = (61_000 + 3 * (os.getpid() % 1000) + each for each in range(3))
"""Ids derived from the pid, so that several test runs on one machine use different ones."""
WITH_ACCOUNTS = 'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"'
"""Mount the test's user accounts in the agent's own mount namespace, then run the command."""
MakeAgent = Callable[..., AgentProcess]


@pytest.fixture
def make_agent(short_tmp: Path) -> Iterator[MakeAgent]:
    """A function that makes agents, each with its own folder. All of them are ended after the test."""
    agent_processes: list[AgentProcess] = []

    def make(name: str = "node", **environ: str) -> AgentProcess:
        agent_processes.append(AgentProcess(short_tmp / name / "agent", **environ))
        return agent_processes[-1]

    yield make
    for agent in agent_processes:
        agent.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[AgentProcess]:
    """One agent for all tests of a module that leave it unchanged. Each test uses new job ids."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder:
        new_agent_process = AgentProcess(Path(folder) / "agent")
        new_agent_process.start()
        yield new_agent_process
        new_agent_process.close()


@pytest.fixture
def agent(make_agent: MakeAgent) -> AgentProcess:
    """A started agent with a controller."""
    agent_process = make_agent()
    agent_process.start()
    return agent_process


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stand-in NVML library."""
    return build_fake_nvml(tmp_path_factory.mktemp("nvml")).parent


class Gpus:
    """A stand-in GPU driver that reports the content of its state file."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.state = folder / "nvml.state"
        self.environ = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(self.state)}

    def show(self, *lines: str) -> None:
        """Replace the state that the driver reports."""
        new = self.state.with_suffix(".new")
        new.write_text("driver 550.54.15\n" + "\n".join(lines) + "\n")
        os.replace(new, self.state)


@pytest.fixture
def gpus(library: Path, short_tmp: Path) -> Iterator[Gpus]:
    yield Gpus(library, short_tmp)


@contextlib.contextmanager
def agent_of_root(folder: Path, *first: str, **environ: str) -> Iterator[AgentProcess]:
    """Run a root agent on a node with the users ada and bob; ada is also in the group lab.

    The command in `first` runs the agent.
    """
    folder.chmod(0o711)
    passwd = [f"{name}:x:{uid}:{uid}::/tmp:/bin/sh" for name, uid in (("ada", ADA), ("bob", BOB))]
    groups = [f"ada:x:{ADA}:", f"bob:x:{BOB}:", f"lab:x:{LAB}:ada"]
    for name, lines in (("passwd", passwd), ("group", groups)):
        (folder / name).write_text(Path("/etc", name).read_text() + "\n".join(lines) + "\n")
    zipapp, _ = build_zipapp(str(folder))
    program = ["unshare", "--mount", "sh", "-c", WITH_ACCOUNTS, str(folder), *first, PYTHON, "-I", zipapp]
    new_agent_process = AgentProcess(folder / "agent", program=program, **environ)
    new_agent_process.start()
    yield new_agent_process
    new_agent_process.close()
