"""Options that ask for nodes of a size (--tmp, -B and its parts), beside a real Slurm's nodes of that size: what is said of each."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core import Agent
from tests.lab.ours import OurSlurm
from tests.lab.peer import NODES, RealSlurm
from tests.served import Served

from warpdeck.controller.events import NodeUp
from warpdeck.model import NodeName

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def ours() -> Iterator[OurSlurm]:
    """Its nodes are those of peer.SITE: two sockets of four cores of two threads, and no disk that they tell of."""

    async def grow(site: Served) -> None:
        for name in NODES:
            welcome = Agent(name).welcome()
            inventory = dataclasses.replace(
                welcome.inventory, sockets=2, cores_per_socket=4, threads_per_core=2
            )
            await site.controller.apply(
                NodeUp(name=NodeName(name), welcome=dataclasses.replace(welcome, inventory=inventory))
            )

    with tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder, OurSlurm(Path(folder)) as running:
        running.do(grow)
        yield running


@pytest.mark.parametrize(
    "asked",
    [
        "-B 2:4:2", "-B 2:4:4", "-B 3", "-B 2:*:2", "--sockets-per-node=2", "--sockets-per-node=4", "--cores-per-socket=4",
        "--cores-per-socket=9", "--sockets-per-node=2-4", "--tmp=0", "--tmp=100", "--tmp=100 -B 9", "--tmp=x",
    ],
)  # fmt: skip
def test_nodes_of_a_size_are_asked_for_as_of_slurm(slurm: RealSlurm, ours: OurSlurm, asked: str) -> None:
    words = ["sbatch", "-Q", "-t1", *asked.split(), "--wrap", "true"]
    real, own = slurm.run(words), ours.run(words)
    assert own.rc == real.rc
    assert own.err.splitlines()[: len(real.err.splitlines())] == real.err.splitlines()


def test_what_nodes_are_is_shown_as_slurm_shows_it(slurm: RealSlurm, ours: OurSlurm) -> None:
    words = ["sinfo", "-h", "-N", "-o", "%X %Y %Z %z", "-p", "debug"]
    assert ours.run(words).out == slurm.run(words).out
    for field in ("CoresPerSocket=4", "Sockets=2", "ThreadsPerCore=2", "TmpDisk=0"):
        assert f"{field} " in ours.run(["scontrol", "show", "node", "n1"]).out
        assert f"{field} " in slurm.run(["scontrol", "show", "node", "n1"]).out
