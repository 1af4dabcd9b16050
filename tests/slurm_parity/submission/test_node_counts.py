"""On how many nodes a job starts, and on which it must, beside a real Slurm: what --nodes, --nodelist, tasks and GPUs say together.

Which nodes are taken where several would do is each scheduler's own affair.
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
ASKED = (
    "-N1-3", "-N2-3 -n4", "-N1-3 -n2", "-N1-3 --gpus-per-node=1", "-N1-9", "-N3-9", "-N1-3 --exclusive", "-N2-3 -p debug",
    "-N2 -n1", "-N4 -n2", "-n3 --ntasks-per-node=1", "-n20", "-n40", "-n20 -c2", "--gpus=6",
    "-w n1", "-w n1,n2", "-N1 -w n1,n2", "-N2 -w n1", "-N3 -w n1,n3", "-N1-3 -w n1,n2", "-N1-2 -w n1,n2,n3", "-n4 -w n1,n2",
    "-n1 -w n1,n2", "-N2 -w n1 -x n1", "-N2 -w n1 -x n2", "-N4 -x n1", "-w n9", "-x n9", "-w n3 -p debug", "-w n3 -p debug,gpu",
    "-n20 -w n2", "--gpus=6 -w n2", "--gpus=2 -w n2,n3", "-N1-4 -n2 -w n2",
)  # fmt: skip


class Given(NamedTuple):
    """What is said of a request, or what it gets."""

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


def given(slurm: RealSlurm | WarpdeckCluster, asked: str) -> Given:
    """What it gets on the empty cluster, which is empty again afterwards."""
    done = slurm.run(["sbatch", "--parsable", "-t5", "-o/dev/null", *asked.split(), "--wrap", "sleep 100"])
    if done.rc:
        return Given(refused=done.err.splitlines()[0])
    job = done.out.strip()
    if isinstance(slurm, WarpdeckCluster):
        slurm.wait_until_running(int(job))
    eventually(lambda: _state(slurm, job) == "RUNNING", what=f"{asked} runs")
    shown = slurm.run(["scontrol", "show", "job", job]).out
    fields = dict(re.findall(r"\b(NumNodes|ReqNodeList|NodeList)=(\S+)", shown))
    wanted, held = (
        set(slurm.run(["scontrol", "show", "hostnames", fields[name]]).out.split())
        for name in ("ReqNodeList", "NodeList")
    )
    if isinstance(slurm, WarpdeckCluster):
        slurm.report_job_end(int(job))
    else:
        slurm.run(["scancel", job])
    eventually(lambda: not slurm.run(["squeue", "-h"]).out, what=f"{asked} is gone")
    has_all = wanted <= held or fields["ReqNodeList"] == "(null)"
    return Given(nodes=int(fields["NumNodes"]), asked_for=fields["ReqNodeList"], has_all=has_all)


def _state(slurm: RealSlurm | WarpdeckCluster, job: str) -> str:
    return slurm.run(["squeue", "-h", "-j", job, "-o", "%T"]).out.strip()


@pytest.mark.parametrize("asked", ASKED)
def test_a_job_gets_as_many_nodes_as_slurm_gives_it(
    slurm: RealSlurm, warpdeck: WarpdeckCluster, asked: str
) -> None:
    assert given(warpdeck, asked) == given(slurm, asked)
