"""Finding a Slurm on this machine, for the question whether to connect to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpdeck.base.paths import Paths
from warpdeck.cli.shared import engine_offer
from warpdeck.cli.shared.engine_offer import slurm_answers
from warpdeck.slurm.shims.shim_scripts import install, path_without_shims


@pytest.fixture(autouse=True)
def configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the path of the only slurm.conf that is looked for. It does not exist."""
    monkeypatch.setattr(engine_offer, "CONFIGURATIONS", (str(tmp_path / "slurm.conf"),))
    return tmp_path / "slurm.conf"


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def with_slurm(tmp_path: Path, ping: str) -> dict[str, str]:
    """Return an environment with Slurm's commands. `ping` is the script of `scontrol ping`."""
    program(tmp_path / "bin", "scontrol", ping)
    program(tmp_path / "bin", "sinfo", "echo slurm 24.11.5")
    return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}


UP = "echo 'Slurmctld(primary) at login is UP'"
DOWN = "echo 'Slurmctld(primary) at login is DOWN'; exit 1"


def test_slurm_is_found_if_its_controller_answers(tmp_path: Path) -> None:
    assert slurm_answers(with_slurm(tmp_path, UP))
    assert not slurm_answers({"PATH": str(tmp_path / "empty")})


def test_slurm_is_found_if_it_is_down_but_configured(tmp_path: Path) -> None:
    environ = with_slurm(tmp_path, DOWN)
    assert not slurm_answers(environ)
    (tmp_path / "slurm.conf").touch()
    assert slurm_answers(environ)
    assert not slurm_answers(environ | {"SLURM_CONF": str(tmp_path / "missing.conf")})


def test_a_slurm_that_does_not_answer_in_time_is_not_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_offer, "ANSWER_S", 0.05)
    assert not slurm_answers(with_slurm(tmp_path, "exec tail -f /dev/null"))


def test_our_own_commands_are_not_taken_for_a_slurm(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    folder = install(Paths(str(tmp_path / "home")))
    assert path_without_shims(f"{folder}:/usr/bin:/bin") == "/usr/bin:/bin"
    assert not slurm_answers({"PATH": folder})
