"""Fixtures for tests of whole screens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.pictures import freeze


@pytest.fixture
def static_environment(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use an empty home, a fixed time and a fixed number of colors."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(short_tmp))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(short_tmp)
    freeze(monkeypatch.setattr, monkeypatch.setenv)
    yield
    monkeypatch.undo()
    time.tzset()
