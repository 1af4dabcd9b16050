"""The homes in which a process may start a controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck.base import paths
from warpdeck.base.paths import Paths, declare_slurm_command, default_paths, start_refusal


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a home that is set up. The process is no Slurm command, and no variable names a home."""
    for name in ("WARPDECK_HOME", "WARPDECK_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(paths, "_shim_home", None)
    return tmp_path


def test_a_verb_may_start_a_controller_in_any_home(home: Path) -> None:
    assert start_refusal(Paths(str(home / "new"))) == ""


@pytest.mark.parametrize(
    ("shim", "named", "exists", "allowed"),
    [
        ("", "", True, True),
        ("", "", False, False),
        ("", "own", False, True),
        ("own", "", True, True),
        ("own", "own", True, True),
        ("own", "", False, False),
        ("own", "other", True, False),
    ],
)
def test_a_slurm_command_starts_a_controller_only_in_its_own_or_a_named_home(
    home: Path, monkeypatch: pytest.MonkeyPatch, shim: str, named: str, exists: bool, allowed: bool
) -> None:
    own = home / "own"
    if exists:
        own.mkdir()
    declare_slurm_command(str(own) if shim else "")
    if named:
        monkeypatch.setenv("WARPDECK_HOME", str(home / named))
    found = default_paths() if shim or named else Paths(str(own))
    assert found.home == str(home / (named or "own"))
    assert (start_refusal(found) == "") == allowed
    monkeypatch.setenv("WARPDECK_TOKEN", "of a job")
    assert start_refusal(found) != ""
