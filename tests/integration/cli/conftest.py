"""Verbs run in the test's own process, against the module's own controller (its fixture `site`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.home import Home

from warpdeck.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(site: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """warpdeck ARGV in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("WARPDECK_HOME", str(site.path))
    monkeypatch.chdir(site.path.parent)

    def call(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
