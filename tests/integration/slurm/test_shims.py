import os
import subprocess
import sys

import pytest

from warpdeck.base.paths import Paths
from warpdeck.slurm.command_table import APP, COMMANDS, FRONTED
from warpdeck.slurm.shims.shim_scripts import install


def test_every_command_has_a_script_of_its_own(tmp_path):
    folder = install(Paths(str(tmp_path)))
    assert sorted(os.listdir(folder)) == sorted({*COMMANDS, *FRONTED, APP})
    assert all(os.stat(os.path.join(folder, name)).st_mode & 0o777 == 0o700 for name in os.listdir(folder))


def test_a_script_finds_warpdeck_whatever_the_environment_and_folder(tmp_path):
    folder = install(Paths(str(tmp_path)))
    (tmp_path / "warpdeck.py").write_text("raise SystemExit('the wrong one')")
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nowhere"}
    said = subprocess.run(
        [os.path.join(folder, "srun"), "--help"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert said.returncode == 0, said.stderr
    assert "usage: warpdeck srun" in said.stdout


def test_scripts_that_stand_are_not_written_again(tmp_path):
    folder = install(Paths(str(tmp_path)))
    before = os.stat(os.path.join(folder, "srun")).st_ino
    install(Paths(str(tmp_path)))
    assert os.stat(os.path.join(folder, "srun")).st_ino == before


@pytest.mark.parametrize(
    "words",
    [["-m", "warpdeck.slurm.runtime.commands", "sbatch", "--help"], ["-m", "warpdeck.cli.main", "--help"]],
)
def test_a_reader_that_has_gone_is_no_trouble(words):
    out, theirs = os.pipe()
    os.close(out)
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, *words], env=env, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(theirs)
    assert (done.returncode, done.stderr) == (1, "")
