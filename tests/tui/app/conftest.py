"""Settings of a separate user for each test. The settings of the real user are not read."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the test's files. Its subfolder `work` is the working folder."""
    for name, value in (
        ("HOME", "user"),
        ("XDG_CONFIG_HOME", "user/config"),
        ("XDG_STATE_HOME", "user/state"),
        ("XDG_DATA_HOME", "user/data"),
        ("WARPDECK_HOME", "home"),
    ):
        monkeypatch.setenv(name, str(short_tmp / value))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    work = short_tmp / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return short_tmp
