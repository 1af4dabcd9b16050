"""Agents for the tests of this folder."""

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
"""One that every user may run, which the tests' own may not be."""
ADA, BOB, LAB = (61_000 + 3 * (os.getpid() % 1000) + each for each in range(3))
"""Nobody else's on a machine where several test runs go on at once."""
WITH_ACCOUNTS = 'mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group && exec "$@"'
"""Users of the test's own, in a mount namespace of the agent's own."""
MakeAgent = Callable[..., AgentProcess]


@pytest.fixture
def make_agent(short_tmp: Path) -> Iterator[MakeAgent]:
    """Makes agents, each with a folder of its own; all are ended with the test."""
    made: list[AgentProcess] = []

    def make(name: str = "node", **environ: str) -> AgentProcess:
        made.append(AgentProcess(short_tmp / name / "agent", **environ))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[AgentProcess]:
    """One agent for all tests of a module that leave it as they found it; each takes new job ids."""
    with tempfile.TemporaryDirectory(prefix="wd", dir="/tmp") as folder:
        made = AgentProcess(Path(folder) / "agent")
        made.start()
        yield made
        made.close()


@pytest.fixture
def agent(make_agent: MakeAgent) -> AgentProcess:
    """One agent that runs and has a controller."""
    made = make_agent()
    made.start()
    return made


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in's folder."""
    return build_fake_nvml(tmp_path_factory.mktemp("nvml")).parent


class Gpus:
    """An agent's driver: what its state file says, it shows."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.state = folder / "nvml.state"
        self.environ = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(self.state)}

    def show(self, *lines: str) -> None:
        """Makes the driver say this from now on."""
        new = self.state.with_suffix(".new")
        new.write_text("driver 550.54.15\n" + "\n".join(lines) + "\n")
        os.replace(new, self.state)


@pytest.fixture
def gpus(library: Path, short_tmp: Path) -> Iterator[Gpus]:
    yield Gpus(library, short_tmp)


@contextlib.contextmanager
def agent_of_root(folder: Path, *first: str, **environ: str) -> Iterator[AgentProcess]:
    """A root agent on a node with the users ada (also in the group lab) and bob. `first`: the words that run all of it."""
    folder.chmod(0o711)
    passwd = [f"{name}:x:{uid}:{uid}::/tmp:/bin/sh" for name, uid in (("ada", ADA), ("bob", BOB))]
    groups = [f"ada:x:{ADA}:", f"bob:x:{BOB}:", f"lab:x:{LAB}:ada"]
    for name, lines in (("passwd", passwd), ("group", groups)):
        (folder / name).write_text(Path("/etc", name).read_text() + "\n".join(lines) + "\n")
    zipapp, _ = build_zipapp(str(folder))
    program = ["unshare", "--mount", "sh", "-c", WITH_ACCOUNTS, str(folder), *first, PYTHON, "-I", zipapp]
    made = AgentProcess(folder / "agent", program=program, **environ)
    made.start()
    yield made
    made.close()
