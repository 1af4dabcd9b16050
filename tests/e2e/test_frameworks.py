"""Launchers that know Slurm find themselves in our steps: Lightning's and submitit's own code, and the words that TensorFlow reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.batch import run
from tests.home import Home
from tests.lab.hosts import Lab

pytestmark = pytest.mark.lab
DEBIAN = "/usr/bin/python3"
"""Debian's PyTorch is that interpreter's."""
FRAMEWORKS = Path(sys.prefix) / "frameworks"
"""Lightning without the PyTorch that it would bring; the Makefile puts it there."""
TWO_EACH = ("-N2", "--ntasks-per-node=2")

LIGHTNING = """
import os, torch, lightning_fabric
fabric = lightning_fabric.Fabric(accelerator="cpu", devices=2, num_nodes=2, strategy="ddp")
fabric.launch()
total = fabric.all_reduce(torch.tensor(float(fabric.global_rank + 1)), reduce_op="sum")
made = type(fabric.strategy.cluster_environment).__name__
with open(f"said.{fabric.global_rank}", "w") as said:
    print(made, "rank", fabric.global_rank, "of", fabric.world_size, "node", fabric.node_rank, "sum", int(total), file=said)
fabric.barrier()
"""
SUBMITIT = """
import submitit
from submitit.helpers import TorchDistributedEnvironment
job = submitit.JobEnvironment()
torch = TorchDistributedEnvironment()
with open(f"said.{job.global_rank}", "w") as said:
    print(job.cluster, job.global_rank, job.local_rank, job.node, job.num_nodes, job.num_tasks, *job.hostnames, file=said)
    print(torch.rank, torch.world_size, torch.local_rank, torch.local_world_size, torch.master_addr, file=said)
"""


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Iterator[Home]:
    """Two hosts under names that they know each other by, as Lightning before 2.1 asks of any Slurm cluster."""
    for host in (1, 2):
        words = ["--name", f"host{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *words)
    return shared_home


def said(home: Home, tmp: Path, command: str, *, program: str = "") -> list[str]:
    """What the ranks of this command have said."""
    folder = tmp / "w"
    folder.mkdir()
    (folder / "train.py").write_text(program)
    out = run(home, folder, command + "\n", *TWO_EACH)
    print(out)
    return [path.read_text().strip() for path in sorted(folder.glob("said.*"))]


@pytest.mark.skipif(
    not FRAMEWORKS.exists() and not os.environ.get("CI"), reason="make puts Lightning into its environment"
)
def test_lightning_reduces_over_two_hosts(cluster: Home, short_tmp: Path) -> None:
    settings = f"export GLOO_SOCKET_IFNAME=eth0 PYTHONPATH={FRAMEWORKS}"
    found = said(cluster, short_tmp, f"{settings}\nsrun {DEBIAN} train.py", program=LIGHTNING)
    assert found == [f"SLURMEnvironment rank {rank} of 4 node {rank // 2} sum 10" for rank in range(4)]


def test_submitit_knows_its_job_and_its_tasks(cluster: Home, short_tmp: Path) -> None:
    script = (
        f"export SUBMITIT_EXECUTOR=slurm\nsrun {sys.executable} train.py"  # as the scripts do that it submits
    )
    found = said(cluster, short_tmp, script, program=SUBMITIT)
    assert found == [
        f"slurm {rank} {rank % 2} {rank // 2} 2 4 host1 host2\n{rank} 4 {rank % 2} 2 host1"
        for rank in range(4)
    ]


def test_tensorflow_s_resolver_would_read_its_cluster(cluster: Home, short_tmp: Path) -> None:
    """SlurmClusterResolver takes these four, and expands the list of nodes and the counts itself or by scontrol."""
    names = "SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE SLURM_STEP_NODELIST SLURM_PROCID"
    command = f"srun sh -c 'for n in {names}; do eval echo \\$$n; done >said.$SLURM_PROCID'"
    expand = 'scontrol show hostnames "$SLURM_JOB_NODELIST" >said.hosts'
    found = said(cluster, short_tmp, f"{command}\n{expand}")
    assert found == [f"4\n2(x2)\nhost[1-2]\n{rank}" for rank in range(4)] + ["host1\nhost2"]
