"""A controller with the restrictions of its systemd unit serves other users, and reaches its nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

from warpdeck.base.systemd_units import HARDENING

pytestmark = pytest.mark.lab

PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
RESTRICTED = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({PR_SET_MDWE}, {REFUSE_EXEC_GAIN}, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-I", "-m", "warpdeck.daemon.controller_process", *sys.argv[1:]])
"""


def capabilities() -> str:
    """Return the capabilities that the unit keeps, in the form of setpriv."""
    (line,) = [line for line in HARDENING.splitlines() if line.startswith("CapabilityBoundingSet=")]
    names = line.partition("=")[2].split()
    return ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in names)])


@pytest.fixture
def home(lab: Lab, short_tmp: Path) -> Iterator[Home]:
    """A home whose controller runs with the capabilities of the unit, without new privileges, and without W^X mappings."""
    made = Home(short_tmp / "home", HOME=str(lab.user_home(short_tmp / "user")), SSH_AUTH_SOCK="")
    made.path.mkdir(mode=0o711)
    short_tmp.chmod(0o755)
    controller = subprocess.Popen(
        [
            *(
                "setpriv",
                f"--bounding-set={capabilities()}",
                "--no-new-privs",
                sys.executable,
                "-c",
                RESTRICTED,
            ),
            *("--home", str(made.path), "--no-local-node"),
        ],
        env=made.environ,
        cwd="/",
    )
    eventually((made.path / "warpdeck.sock").exists, what="the controller answers")
    yield made
    made.close()
    assert controller.wait(timeout=30) == 0


def test_a_restricted_controller_writes_output_as_the_user(home: Home, lab: Lab, short_tmp: Path) -> None:
    (status,) = [
        line
        for line in Path(f"/proc/{home.controller_pid()}/status").read_text().splitlines()
        if line.startswith("CapBnd")
    ]
    assert int(status.split()[1], 16).bit_count() == 7
    target = f"root@{lab.address(2)}"
    home.ok("node", "add", target, "--name", "gpu2", "--accept-host-key", lab.fingerprint(2))
    folder = short_tmp / "nobody"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    reader = (
        "+dac_read_search"  # With it, the user may run an interpreter in a folder that only root can read.
    )
    ids = (
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        f"--inh-caps={reader}",
        f"--ambient-caps={reader}",
    )
    sbatch = (
        sys.executable,
        "-m",
        "warpdeck.slurm.runtime.entry",
        "sbatch",
        "--wrap",
        "hostname",
        "-o",
        "out.txt",
    )
    done = subprocess.run(
        ["setpriv", *ids, "--", *sbatch],
        env={**home.environ, "HOME": str(folder)},
        cwd=folder,
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    out = folder / "out.txt"
    eventually(lambda: out.exists() and out.read_text() == "host2\n", what="the output of the user's job")
    assert out.stat().st_uid == 65534
