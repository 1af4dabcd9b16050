import os
import subprocess
import sys
from pathlib import Path

import pytest

from warpdeck.base.paths import Paths
from warpdeck.slurm.command_table import APP, COMMANDS, FRONTED
from warpdeck.slurm.shims.shim_scripts import install


def test_every_command_has_its_own_script(tmp_path: Path) -> None:
    folder = install(Paths(str(tmp_path)))
    assert sorted(os.listdir(folder)) == sorted({*COMMANDS, *FRONTED, APP})
    assert all(os.stat(os.path.join(folder, name)).st_mode & 0o777 == 0o700 for name in os.listdir(folder))


def test_a_script_finds_warpdeck_in_any_environment_and_folder(tmp_path: Path) -> None:
    folder = install(Paths(str(tmp_path)))
    (tmp_path / "warpdeck.py").write_text("raise SystemExit('the wrong one')")
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere"}
    result = subprocess.run(
        [os.path.join(folder, "srun"), "--help"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert result.returncode == 0, result.stderr
    assert "usage: warpdeck srun" in result.stdout


def test_existing_scripts_are_not_rewritten(tmp_path: Path) -> None:
    folder = install(Paths(str(tmp_path)))
    before = os.stat(os.path.join(folder, "srun")).st_ino
    install(Paths(str(tmp_path)))
    assert os.stat(os.path.join(folder, "srun")).st_ino == before


@pytest.mark.parametrize(
    "argv",
    [["-m", "warpdeck.slurm.runtime.commands", "sbatch", "--help"], ["-m", "warpdeck.cli.main", "--help"]],
)
def test_a_closed_pipe_is_ignored(argv: list[str]) -> None:
    out, other_end = os.pipe()
    os.close(out)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    result = subprocess.run(
        [sys.executable, *argv], env=env, stdout=other_end, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(other_end)
    assert (result.returncode, result.stderr) == (1, "")
