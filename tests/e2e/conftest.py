"""The lab: three hosts for the whole session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.home import Home
from tests.lab.hosts import Lab, enter_namespaces


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Three hosts with four stand-in GPUs each, reached over SSH."""
    enter_namespaces()
    with tempfile.TemporaryDirectory(prefix="wdlab", dir="/tmp") as base:
        made = Lab(Path(base), 3)
        yield made
        made.close()


@pytest.fixture
def lab_home(lab: Lab, short_tmp: Path) -> Iterator[Home]:
    """A home whose user may log in to the lab's hosts; its controller has no local node."""
    made = Home(short_tmp / "home", HOME=str(lab.user_home(short_tmp / "user")), SSH_AUTH_SOCK="")
    made.ok("up", "--no-local-node")
    yield made
    for node in made.json("node", "ls"):
        made.run("node", "rm", "--force", node["name"])
    made.close()
