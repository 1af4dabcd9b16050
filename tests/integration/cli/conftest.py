"""Runs commands in the test's own process, with the controller of the module's fixture `site`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.home import Home

from warpdeck.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(site: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `warpdeck ARGV` in this process and return (exit code, stdout, stderr)."""
    monkeypatch.setenv("WARPDECK_HOME", str(site.path))
    monkeypatch.chdir(site.path.parent)

    def call(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        output = capsys.readouterr()
        return code, output.out, output.err

    return call
