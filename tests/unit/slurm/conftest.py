"""A small site for the tests of Slurm's commands: one controller for each module of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_site import CommandSite


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def site(folder: Path, request: pytest.FixtureRequest) -> Iterator[CommandSite]:
    """Return a site with the configuration CONFIG and the nodes NODES of the test's module."""
    module = request.module
    config, nodes = getattr(module, "CONFIG", ""), getattr(module, "NODES", ("n1", "n2"))
    with CommandSite(folder, config=config, nodes=nodes) as site:
        yield site
