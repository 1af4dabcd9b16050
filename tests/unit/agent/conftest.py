"""Agents for the tests of this folder."""

from __future__ import annotations

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


@pytest.fixture
def agent(make_agent: MakeAgent) -> AgentProcess:
    """One agent that runs and has a controller."""
    made = make_agent()
    made.start()
    return made
