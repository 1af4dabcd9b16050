"""Two login nodes that share the home folder of a user: the second one refuses to start another gateway there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.home import Home

pytestmark = pytest.mark.slurm
LOCKED = """
import socket, sys
from warpdeck.base.controller_daemon import take_lock
from warpdeck.base.paths import SLURM, Paths
socket.sethostname("login2")
take_lock(Paths(sys.argv[1], wanted_engine=SLURM))
print("locked", flush=True)
sys.stdin.read()
"""
"""A gateway on another machine, as far as the lock tells it."""


def test_a_gateway_on_another_login_node_is_named_with_a_next_step(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", WARPDECK_ENGINE="slurm")
    home.path.mkdir(mode=0o700)
    (home.path / "engine").write_text("slurm\n")
    argv = ["unshare", "--uts", sys.executable, "-c", LOCKED, str(home.path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        for verb, told in (
            ("up", "another one with a folder of this machine"),
            ("down", "stop it on login2"),
        ):
            refused = home.run(verb)
            assert refused.returncode == 1, refused
            assert "runs on login2" in refused.stderr and told in " ".join(refused.stderr.split()), (
                refused.stderr
            )
        assert not (home.path / "state.db").exists(), "the record was not opened a second time"
        other.communicate("")
