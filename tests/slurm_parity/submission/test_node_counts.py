"""The number of nodes of a started job, and its required nodes, beside a real Slurm.

The cases combine --nodes, --nodelist, tasks and GPUs. The choice among equal nodes is each scheduler's own.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
REQUESTS = (
    "-N1-3", "-N2-3 -n4", "-N1-3 -n2", "-N1-3 --gpus-per-node=1", "-N1-9", "-N3-9", "-N1-3 --exclusive", "-N2-3 -p debug",
    "-N2 -n1", "-N4 -n2", "-n3 --ntasks-per-node=1", "-n20", "-n40", "-n20 -c2", "--gpus=6",
    "-w n1", "-w n1,n2", "-N1 -w n1,n2", "-N2 -w n1", "-N3 -w n1,n3", "-N1-3 -w n1,n2", "-N1-2 -w n1,n2,n3", "-n4 -w n1,n2",
    "-n1 -w n1,n2", "-N2 -w n1 -x n1", "-N2 -w n1 -x n2", "-N4 -x n1", "-w n9", "-x n9", "-w n3 -p debug", "-w n3 -p debug,gpu",
    "-n20 -w n2", "--gpus=6 -w n2", "--gpus=2 -w n2,n3", "-N1-4 -n2 -w n2",
)  # fmt: skip


class Outcome(NamedTuple):
    """The error message of a request, or its allocation."""

    refused: str = ""
    nodes: int = 0
    asked_for: str = ""
    has_all: bool = True


@pytest.fixture(scope="module")
def warpdeck() -> Iterator[WarpdeckCluster]:
    with (
        tempfile.TemporaryDirectory(prefix="wdo", dir="/tmp") as folder,
        WarpdeckCluster(Path(folder)) as running,
    ):
        yield running


def outcome_of(slurm: RealSlurm | WarpdeckCluster, options: str) -> Outcome:
    """Return the result of the request on the empty cluster, and end the job."""
    submitted = slurm.run(
        ["sbatch", "--parsable", "-t5", "-o/dev/null", *options.split(), "--wrap", "sleep 100"]
    )
    if submitted.rc:
        return Outcome(refused=submitted.err.splitlines()[0])
    job = submitted.out.strip()
    if isinstance(slurm, WarpdeckCluster):
        slurm.wait_until_running(int(job))
    eventually(lambda: _state(slurm, job) == "RUNNING", what=f"{options} runs")
    text = slurm.run(["scontrol", "show", "job", job]).out
    fields = dict(re.findall(r"\b(NumNodes|ReqNodeList|NodeList)=(\S+)", text))
    required, allocated = (
        set(slurm.run(["scontrol", "show", "hostnames", fields[name]]).out.split())
        for name in ("ReqNodeList", "NodeList")
    )
    if isinstance(slurm, WarpdeckCluster):
        slurm.report_job_end(int(job))
    else:
        slurm.run(["scancel", job])
    eventually(lambda: not slurm.run(["squeue", "-h"]).out, what=f"{options} has ended")
    has_all = required <= allocated or fields["ReqNodeList"] == "(null)"
    return Outcome(nodes=int(fields["NumNodes"]), asked_for=fields["ReqNodeList"], has_all=has_all)


def _state(slurm: RealSlurm | WarpdeckCluster, job: str) -> str:
    return slurm.run(["squeue", "-h", "-j", job, "-o", "%T"]).out.strip()


@pytest.mark.parametrize("options", REQUESTS)
def test_a_job_gets_the_number_of_nodes_that_slurm_allocates(
    slurm: RealSlurm, warpdeck: WarpdeckCluster, options: str
) -> None:
    assert outcome_of(warpdeck, options) == outcome_of(slurm, options)
