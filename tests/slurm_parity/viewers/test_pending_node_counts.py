"""The number of nodes of a waiting job, beside a real Slurm: squeue's %D, scontrol's NumNodes, and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from tests.slurm_parity.peer.pair import Pair, side_by_side
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
REQUESTS = (
    "-n17", "-n33", "-n17 -N2", "-N1-2 -n3", "-N2-4 -n4", "-N2-4 -n20", "-n3 -c7", "--ntasks-per-node=3 -n7",
    "-n5 --ntasks-per-node=2",
    "-n20 --mem-per-cpu=4G", "-n3 --mem-per-cpu=30G", "-n2 --gres=gpu:1", "--gpus=9", "--gpus=4", "--gpus=5 -N1-3",
    "--gpus-per-task=1 -n6", "-n17 --exclusive", "-N1", "-N2-2", "-N1-3", "-N1-4 -n2", "-N1-3 -p debug", "-n17 -N1-4", "-N1-9",
    "-N1-4 -n5 --ntasks-per-node=2", "-n17 --mem=100", "-n17 -c2", "--array=0-3 -n17", "--array=0-3 -N1-3", "-w n1,n2",
    "-n17 -w n1,n2,n3", "-n4 -N1-3 --gpus-per-node=1", "-N3", "-n5 -N4", "-c8 -n5", "-p debug,gpu -n17",
)  # fmt: skip
HELD_REQUESTS = ("-n17", "-w n1,n2", "-N3", "-N1-2", "--gpus=9", "--ntasks-per-node=3 -n7",
        "-n7 --ntasks-per-node=4", "-n3 --mem-per-cpu=30G", "-N2-3 -n40",
        "-c8 -n5", "-N2 -n20", "-n17 -w n1,n2,n3")  # fmt: skip


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with side_by_side(Pair) as both:
        for cluster in (both.slurm, both.warpdeck):
            cluster.run(["sbatch", "-o/dev/null", "-N4", "--exclusive", "--wrap", "sleep 1000"])
        both.warpdeck.wait_until_running(1)
        eventually(
            lambda: both.slurm.ok("squeue", "-h", "-o", "%t") == "R\n", what="Slurm's nodes are all taken"
        )
        yield both


def shown_counts(cluster: RealSlurm | WarpdeckCluster, options: str) -> list[object]:
    """Return the counts that are shown for a job while it waits, or the error message of a refused one.

    The job is cancelled afterwards.
    """
    submitted = cluster.run(["sbatch", "--parsable", "-o/dev/null", *options.split(), "--wrap", "true"])
    if submitted.rc:
        return [submitted.err.splitlines()[0]]
    job = submitted.out.strip()
    [queue_row] = set(
        cluster.run(["squeue", "-h", "-j", job, "-O", "numnodes:6,maxnodes:6,numcpus:6"]).out.splitlines()
    )
    job_text = re.findall(
        r"NumNodes=\S+ NumCPUs=\S+ NumTasks=\S+", cluster.run(["scontrol", "show", "job", job]).out
    )
    jobs = [
        row for row in json.loads(cluster.run(["squeue", "--json"]).out)["jobs"] if row["job_id"] == int(job)
    ]
    cluster.run(["scancel", job])
    return [queue_row, job_text, [(row["node_count"], row["max_nodes"], row["tasks"]) for row in jobs]]


@pytest.mark.parametrize("options", REQUESTS)
def test_a_waiting_job_shows_the_node_count_that_it_shows_in_slurm(pair: Pair, options: str) -> None:
    assert shown_counts(pair.warpdeck, options) == shown_counts(pair.slurm, options)


@pytest.mark.parametrize("options", HELD_REQUESTS)
def test_a_held_job_shows_the_node_count_that_it_shows_in_slurm(pair: Pair, options: str) -> None:
    assert shown_counts(pair.warpdeck, f"-H {options}") == shown_counts(pair.slurm, f"-H {options}")
