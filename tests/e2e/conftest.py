"""The lab: three hosts for the whole session, and homes of users who may log in to them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.home import Home
from tests.lab.homes import end_home, start_home
from tests.lab.hosts import Lab, enter_namespaces


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Three hosts with four stand-in GPUs each, reached over SSH."""
    enter_namespaces()
    made = Lab(3)
    yield made
    made.close()


@pytest.fixture
def lab_home(lab: Lab, short_tmp: Path) -> Iterator[Home]:
    """A fresh one for one test."""
    made = start_home(lab, short_tmp)
    yield made
    end_home(made)


@pytest.fixture(scope="module")
def shared_home(lab: Lab) -> Iterator[Home]:
    """One for all tests of a module: they use different nodes' names."""
    folder = Path(tempfile.mkdtemp(prefix="wd", dir="/tmp"))
    made = start_home(lab, folder)
    yield made
    end_home(made)
    shutil.rmtree(folder, ignore_errors=True)
