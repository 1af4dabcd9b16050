"""Distributed training on two real hosts without any rank settings: PyTorch (gloo), torchrun and JAX find
their ranks and addresses.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.batch import run
from tests.support.home import Home

pytestmark = pytest.mark.lab
DEBIAN = "/usr/bin/python3"
"""The interpreter of Debian's PyTorch. The package from PyPI would bring five gigabytes of CUDA."""

REDUCE = """
import datetime, os, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://", timeout=datetime.timedelta(seconds=50))
number = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(number)
with open(f"result.{os.environ['SLURM_STEP_ID']}.{dist.get_rank()}", "w") as file:
    print("rank", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"], "sum", int(number), file=file)
dist.barrier()
"""
TORCHRUN = f"{DEBIAN} -m torch.distributed.run --nproc_per_node=2 --redirects=2 --tee=1"
"""With other redirects this PyTorch does not run under this Python."""
JAX = """
import os, jax, jax.numpy as jnp
jax.config.update("jax_platforms", "cpu")
jax.distributed.initialize()
from jax.experimental.multihost_utils import process_allgather
found = process_allgather(jnp.array([jax.process_index() + 1]))
with open(f"result.{jax.process_index()}", "w") as file:
    print("rank", jax.process_index(), "of", jax.process_count(), "sum", int(found.sum()), file=file)
"""


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Home:
    """A home with two hosts."""
    for host in (1, 2):
        options = ["--name", f"train{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *options)
    return shared_home


def rank_results(folder: Path) -> list[str]:
    """Return the output files of the ranks."""
    return sorted(path.read_text().strip() for path in folder.glob("result.*"))


def train(home: Home, tmp: Path, command: str, *options: str, program: str = REDUCE) -> list[str]:
    """Run the command in a job and return the output files of its ranks."""
    folder = tmp / "w"
    folder.mkdir()
    (folder / "train.py").write_text(program)
    out = run(home, folder, "export GLOO_SOCKET_IFNAME=eth0\n" + command + "\n", *options)
    print(out)
    return rank_results(folder)


FOUR = [f"rank {rank} of 4 local {rank % 2} sum 10" for rank in range(4)]


def test_pytorch_initializes_on_two_hosts(cluster: Home, short_tmp: Path) -> None:
    found = train(cluster, short_tmp, f"srun {DEBIAN} train.py", "-N2", "--ntasks-per-node=2")
    assert found == FOUR


def test_torchrun_needs_only_the_number_of_processes(cluster: Home, short_tmp: Path) -> None:
    command = f"srun {TORCHRUN} train.py"
    assert train(cluster, short_tmp, command, "-N2", "--ntasks-per-node=1") == FOUR


def test_torchrun_can_rendezvous_at_the_master_address_of_the_script(cluster: Home, short_tmp: Path) -> None:
    command = (
        f"srun {TORCHRUN} --nnodes=$SLURM_NNODES "
        "--rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT train.py"
    )
    found = train(cluster, short_tmp, command, "-N2", "--ntasks-per-node=1")
    assert sorted(line.split(" local")[0] for line in found) == [f"rank {rank} of 4" for rank in range(4)]


def test_the_usual_torchrun_script_works_if_nodes_do_not_resolve_names(
    cluster: Home, short_tmp: Path
) -> None:
    """This is the script that users commonly copy. The hosts do not resolve the name train1."""
    command = (
        "first=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        "head_node_ip=$(srun --nodes=1 --ntasks=1 -w $first hostname --ip-address) || exit 1\n"
        f"srun {TORCHRUN} --nproc_per_node=1 --nnodes=$SLURM_NNODES --rdzv_id=$RANDOM --rdzv_backend=c10d "
        "--rdzv_endpoint=$first:29500 train.py\n"
        "export MASTER_ADDR=train1 MASTER_PORT=29501\n"
        "srun sh -c 'echo $MASTER_ADDR $SLURMD_NODENAME >>master; getent hosts $head_node_ip $first'"
    )
    found = train(cluster, short_tmp, command, "-N2", "--ntasks-per-node=1")
    assert found == [f"rank {rank} of 2 local 0 sum 3" for rank in range(2)]
    address = cluster.json("node", "show", "train1")["address"]
    masters = sorted((short_tmp / "w" / "master").read_text().splitlines())
    assert masters == [f"{address} train1", f"{address} train2"]


def test_jax_initializes_without_arguments(cluster: Home, short_tmp: Path) -> None:
    command = f"srun {sys.executable} train.py"
    found = train(cluster, short_tmp, command, "-N2", "-n2", program=JAX)
    assert found == [f"rank {rank} of 2 sum 3" for rank in range(2)]


def test_two_parallel_steps_on_one_node_have_different_ports(cluster: Home, short_tmp: Path) -> None:
    step = f"srun --overlap --overcommit -n2 {DEBIAN} train.py"
    found = train(cluster, short_tmp, f"{step} & {step} & wait", "-N1", "-n1")
    assert found == sorted([f"rank {rank} of 2 local {rank} sum 3" for rank in range(2)] * 2)


def test_a_command_of_warpdeck_run_has_the_rank_variables(cluster: Home, short_tmp: Path) -> None:
    (short_tmp / "train.py").write_text(REDUCE)
    short_tmp.chmod(0o755)
    argv = ["-N2", "-n4", "env", "GLOO_SOCKET_IFNAME=eth0", DEBIAN, "train.py"]
    result = cluster.run("run", *argv, cwd=short_tmp)
    assert rank_results(short_tmp) == FOUR, result.stdout + result.stderr + cluster.log()
