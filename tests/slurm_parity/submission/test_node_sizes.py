"""Options that request nodes of a size (--tmp, -B and its parts), beside a real Slurm with such nodes."""

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


async def _report_sizes(site: Served, name: str, **sizes_found: Any) -> None:
    """Let the node's agent report its sizes."""
    welcome = Agent(name).welcome()
    sizes = {"sockets": 2, "cores_per_socket": 4, "threads_per_core": 2, **sizes_found}
    welcome = dataclasses.replace(welcome, inventory=dataclasses.replace(welcome.inventory, **sizes))
    await site.controller.apply(NodeUp(name=NodeName(name), welcome=welcome))


@pytest.fixture(scope="module")
def warpdeck() -> Iterator[WarpdeckCluster]:
    """A cluster with the nodes of real_slurm.SITE: two sockets with four cores with two threads, and no
    reported disk.
    """

    async def report_all(site: Served) -> None:
        for name in NODES:
            await _report_sizes(site, name)

    with (
        tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder,
        WarpdeckCluster(Path(folder)) as running,
    ):
        running.run_in_loop(report_all)
        yield running


@pytest.mark.parametrize(
    "options",
    [
        "-B 2:4:2", "-B 2:4:4", "-B 3", "-B 2:*:2", "--sockets-per-node=2", "--sockets-per-node=4", "--cores-per-socket=4",
        "--cores-per-socket=9", "--sockets-per-node=2-4", "--tmp=0", "--tmp=100", "--tmp=100 -B 9", "--tmp=x",
    ],
)  # fmt: skip
def test_requests_for_node_sizes_have_the_result_of_slurm(
    slurm: RealSlurm, warpdeck: WarpdeckCluster, options: str
) -> None:
    argv = ["sbatch", "-Q", "-t1", *options.split(), "--wrap", "true"]
    slurm_result, our_result = slurm.run(argv), warpdeck.run(argv)
    assert our_result.rc == slurm_result.rc
    assert our_result.err.splitlines()[: len(slurm_result.err.splitlines())] == slurm_result.err.splitlines()


def test_node_sizes_are_shown_as_in_slurm(slurm: RealSlurm, warpdeck: WarpdeckCluster) -> None:
    argv = ["sinfo", "-h", "-N", "-o", "%X %Y %Z %z", "-p", "debug"]
    assert warpdeck.run(argv).out == slurm.run(argv).out
    for field in ("CoresPerSocket=4", "Sockets=2", "ThreadsPerCore=2", "TmpDisk=0"):
        assert f"{field} " in warpdeck.run(["scontrol", "show", "node", "n1"]).out
        assert f"{field} " in slurm.run(["scontrol", "show", "node", "n1"]).out


def test_a_job_with_tmp_runs_on_a_node_with_that_disk_size(warpdeck: WarpdeckCluster) -> None:
    warpdeck.run_in_loop(lambda site: _report_sizes(site, "n4", tmp_disk_bytes=100 << 30))
    job = warpdeck.submit("--tmp=2G", "-t1")
    warpdeck.wait_until_running(job)
    text = warpdeck.run(["scontrol", "show", "job", str(job)]).out
    assert "MinTmpDiskNode=2G\n" in text and " NodeList=n4\n" in text
    assert warpdeck.run(["squeue", "-h", "-j", str(job), "-o", "%d"]).out == "2G\n"
    jobs = json.loads(warpdeck.run(["squeue", "--json"]).out)["jobs"]
    assert {each["job_id"]: each["minimum_tmp_disk_per_node"] for each in jobs}[job] == 2048


@pytest.mark.parametrize(
    "options",
    [
        "--hint=nomultithread -c 4", "--threads-per-core=1 -n 4", "--threads-per-core=2 -n 4", "--ntasks-per-core=1 -n 4",
        "--ntasks-per-core=1 -n 4 -c 2", "--hint=compute_bound -n 4", "--hint=multithread -n 4",
        "--threads-per-core=1 -N1 --ntasks-per-node=4 -c 2", "-B 1:2:1 -n 2", "--hint=nomultithread --gpus=2 --cpus-per-gpu=3",
        "--hint=nomultithread -c 8", "--threads-per-core=1 -n 20", "--threads-per-core=1 -N2 -n 3", "--ntasks-per-core=2 -n 4",
    ],
)  # fmt: skip
def test_a_job_with_one_thread_per_core_gets_whole_cores(
    slurm: RealSlurm, warpdeck: WarpdeckCluster, options: str
) -> None:
    argv = [*options.split(), "-t1", "--mem-per-cpu=100"]
    number = slurm.ok("sbatch", "--parsable", *argv, "--wrap", "sleep 1000").strip()
    allocated = eventually(
        lambda: slurm.ok("squeue", "-h", "-t", "R", "-j", number, "-o", "%C %D"), what="the job runs"
    )
    slurm.ok("scancel", number)
    job = warpdeck.submit(*argv)
    warpdeck.wait_until_running(job)
    assert warpdeck.run(["squeue", "-h", "-j", str(job), "-o", "%C %D"]).out == allocated
    warpdeck.report_job_end(job, exit_code=0)


def test_a_request_for_more_cores_than_a_node_has_is_refused(
    slurm: RealSlurm, warpdeck: WarpdeckCluster
) -> None:
    argv = ["sbatch", "-t1", "--hint=nomultithread", "-c9", "--wrap", "true"]
    message = "sbatch: error: Batch job submission failed: Requested node configuration is not available"
    assert [result.err.splitlines()[0] for result in (slurm.run(argv), warpdeck.run(argv))] == [message] * 2
