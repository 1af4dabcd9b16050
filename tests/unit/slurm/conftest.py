"""Small sites for the tests of Slurm's commands.

A site has the configuration CONFIG and the nodes NODES of the test's module, and the controller's clock is at NOW. The
module's function `prepare` then submits jobs or runs commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.command_site import CommandSite


@contextmanager
def _site_of(module: ModuleType, folder: Path) -> Iterator[CommandSite]:
    config, nodes = getattr(module, "CONFIG", ""), getattr(module, "NODES", ("n1", "n2"))
    with CommandSite(folder, config=config, nodes=nodes, now=getattr(module, "NOW", None)) as site:
        if hasattr(module, "prepare"):
            module.prepare(site)
        yield site


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def site(folder: Path, request: pytest.FixtureRequest) -> Iterator[CommandSite]:
    """Return the site that all tests of a module share."""
    with _site_of(request.module, folder) as site:
        yield site


@pytest.fixture
def own_site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CommandSite]:
    """Return a site for a test that changes it."""
    with _site_of(request.module, tmp_path) as site:
        yield site
