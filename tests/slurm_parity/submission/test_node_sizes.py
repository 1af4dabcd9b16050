"""Options that ask for nodes of a size (--tmp, -B and its parts), beside a real Slurm's nodes of that size: what is said of each."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.slurm_parity.peer.real_slurm import NODES, RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.core import Agent
from tests.support.served import Served
from tests.support.waiting import eventually

from warpdeck.controller.events.events import NodeUp
from warpdeck.model import NodeName

pytestmark = pytest.mark.slurm


async def _tell(site: Served, name: str, **found: Any) -> None:
    """The node's agent says what it has found."""
    welcome = Agent(name).welcome()
    sizes = {"sockets": 2, "cores_per_socket": 4, "threads_per_core": 2, **found}
    welcome = dataclasses.replace(welcome, inventory=dataclasses.replace(welcome.inventory, **sizes))
    await site.controller.apply(NodeUp(name=NodeName(name), welcome=welcome))


@pytest.fixture(scope="module")
def warpdeck() -> Iterator[WarpdeckCluster]:
    """Its nodes are those of peer.SITE: two sockets of four cores of two threads, and no disk that they tell of."""

    async def grow(site: Served) -> None:
        for name in NODES:
            await _tell(site, name)

    with (
        tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder,
        WarpdeckCluster(Path(folder)) as running,
    ):
        running.run_in_loop(grow)
        yield running


@pytest.mark.parametrize(
    "asked",
    [
        "-B 2:4:2", "-B 2:4:4", "-B 3", "-B 2:*:2", "--sockets-per-node=2", "--sockets-per-node=4", "--cores-per-socket=4",
        "--cores-per-socket=9", "--sockets-per-node=2-4", "--tmp=0", "--tmp=100", "--tmp=100 -B 9", "--tmp=x",
    ],
)  # fmt: skip
def test_nodes_of_a_size_are_asked_for_as_of_slurm(
    slurm: RealSlurm, warpdeck: WarpdeckCluster, asked: str
) -> None:
    argv = ["sbatch", "-Q", "-t1", *asked.split(), "--wrap", "true"]
    real, own = slurm.run(argv), warpdeck.run(argv)
    assert own.rc == real.rc
    assert own.err.splitlines()[: len(real.err.splitlines())] == real.err.splitlines()


def test_what_nodes_are_is_shown_as_slurm_shows_it(slurm: RealSlurm, warpdeck: WarpdeckCluster) -> None:
    argv = ["sinfo", "-h", "-N", "-o", "%X %Y %Z %z", "-p", "debug"]
    assert warpdeck.run(argv).out == slurm.run(argv).out
    for field in ("CoresPerSocket=4", "Sockets=2", "ThreadsPerCore=2", "TmpDisk=0"):
        assert f"{field} " in warpdeck.run(["scontrol", "show", "node", "n1"]).out
        assert f"{field} " in slurm.run(["scontrol", "show", "node", "n1"]).out


def test_the_disk_that_a_job_asks_for_is_found_and_shown(warpdeck: WarpdeckCluster) -> None:
    warpdeck.run_in_loop(lambda site: _tell(site, "n4", tmp_disk_bytes=100 << 30))
    job = warpdeck.submit("--tmp=2G", "-t1")
    warpdeck.wait_until_running(job)
    shown = warpdeck.run(["scontrol", "show", "job", str(job)]).out
    assert "MinTmpDiskNode=2G\n" in shown and " NodeList=n4\n" in shown
    assert warpdeck.run(["squeue", "-h", "-j", str(job), "-o", "%d"]).out == "2G\n"
    jobs = json.loads(warpdeck.run(["squeue", "--json"]).out)["jobs"]
    assert {each["job_id"]: each["minimum_tmp_disk_per_node"] for each in jobs}[job] == 2048


@pytest.mark.parametrize(
    "asked",
    [
        "--hint=nomultithread -c 4", "--threads-per-core=1 -n 4", "--threads-per-core=2 -n 4", "--ntasks-per-core=1 -n 4",
        "--ntasks-per-core=1 -n 4 -c 2", "--hint=compute_bound -n 4", "--hint=multithread -n 4",
        "--threads-per-core=1 -N1 --ntasks-per-node=4 -c 2", "-B 1:2:1 -n 2", "--hint=nomultithread --gpus=2 --cpus-per-gpu=3",
        "--hint=nomultithread -c 8", "--threads-per-core=1 -n 20", "--threads-per-core=1 -N2 -n 3", "--ntasks-per-core=2 -n 4",
    ],
)  # fmt: skip
def test_a_job_that_uses_one_thread_of_a_core_gets_whole_cores(
    slurm: RealSlurm, warpdeck: WarpdeckCluster, asked: str
) -> None:
    argv = [*asked.split(), "-t1", "--mem-per-cpu=100"]
    number = slurm.ok("sbatch", "--parsable", *argv, "--wrap", "sleep 1000").strip()
    held = eventually(
        lambda: slurm.ok("squeue", "-h", "-t", "R", "-j", number, "-o", "%C %D"), what="it runs"
    )
    slurm.ok("scancel", number)
    job = warpdeck.submit(*argv)
    warpdeck.wait_until_running(job)
    assert warpdeck.run(["squeue", "-h", "-j", str(job), "-o", "%C %D"]).out == held
    warpdeck.report_job_end(job, exit_code=0)


def test_more_cores_than_a_node_has_are_refused(slurm: RealSlurm, warpdeck: WarpdeckCluster) -> None:
    argv = ["sbatch", "-t1", "--hint=nomultithread", "-c9", "--wrap", "true"]
    refused = "sbatch: error: Batch job submission failed: Requested node configuration is not available"
    assert [done.err.splitlines()[0] for done in (slurm.run(argv), warpdeck.run(argv))] == [refused] * 2
