"""salloc and srun with --quiet print only errors and warnings, also while they wait for an allocation."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import temporary_home
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.slurm.shims.shim_scripts import install

pytestmark = pytest.mark.slurm


class Commands(NamedTuple):
    """Slurm's commands on the PATH of `env`, and the number of nodes of their cluster."""

    env: Mapping[str, str]
    nodes: int

    def start(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def output(self, *argv: str) -> str:
        with self.start(*argv) as command:
            out, err = command.communicate(timeout=60)
        assert command.returncode == 0, err
        return out.strip()


@pytest.fixture(scope="module", params=["slurm", "warpdeck"])
def commands(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    if request.param == "slurm":
        slurm: RealSlurm = request.getfixturevalue("slurm")
        yield Commands({**os.environ, **slurm.wrappers(tmp_path_factory.mktemp("bin"))}, nodes=4)
        return
    with temporary_home() as home:
        home.ok("up")
        home.wait_for_idle_node()
        folder = install(Paths(str(home.path)))
        yield Commands({**home.environ, "PATH": f"{folder}:{os.environ['PATH']}"}, nodes=1)


@pytest.fixture
def full(commands: Commands) -> Iterator[str]:
    """The job that holds all nodes."""
    whole = ("--exclusive", f"-N{commands.nodes}", "-o", "/dev/null", "--wrap", "sleep 1000")
    job = commands.output("sbatch", "--parsable", *whole)
    eventually(lambda: commands.output("squeue", "-h", "-j", job, "-o", "%t") == "R", what="the job runs")
    yield job
    commands.output("scancel", job)


@pytest.mark.parametrize("command", ["salloc", "srun"])
@pytest.mark.parametrize("quiet", [True, False])
def test_a_quiet_command_does_not_say_that_it_waits(
    commands: Commands, full: str, command: str, quiet: bool
) -> None:
    waiting = commands.start(command, *["-Q"] * quiet, "-J", "waits", "-n1", "true")
    eventually(lambda: commands.output("squeue", "-h", "-n", "waits", "-o", "%t") == "PD", what="a job waits")
    commands.output("scancel", full)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, ""), err
    assert (err == "") if quiet else (" queued and waiting for resources\n" in err)


def test_a_quiet_salloc_does_not_say_that_its_allocation_is_revoked(
    commands: Commands, tmp_path: Path
) -> None:
    script = f"echo $SLURM_JOB_ID >{tmp_path}/job; exec sleep 1000"
    with commands.start("salloc", "-Q", "-K", "-n1", "sh", "-c", script) as command:
        job = eventually(
            lambda: (tmp_path / "job").exists() and (tmp_path / "job").read_text().strip(), what="it runs"
        )
        commands.output("scancel", job)
        out, err = command.communicate(timeout=60)
    assert (out, err) == ("", "")
