"""Agents for the tests of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.agent import AgentProcess

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
