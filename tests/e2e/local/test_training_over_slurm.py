"""Distributed training over a real Slurm: PyTorch's processes find each other in jobs of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.local.test_over_slurm import gateway_over
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.batch import run
from tests.support.home import Home

import warpdeck

pytestmark = pytest.mark.slurm
DEBIAN = "/usr/bin/python3"
"""The interpreter of Debian's PyTorch. The package from PyPI would bring five gigabytes of CUDA."""
TORCHRUN = f"{DEBIAN} -m torch.distributed.run --redirects=2 --tee=1"
"""With other redirects this PyTorch does not run under this Python."""
RENDEZVOUS = (
    "--nnodes=$SLURM_NNODES --nproc_per_node=1 --rdzv_id=$SLURM_JOB_ID --rdzv_backend=c10d "
    "--rdzv_endpoint=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1):29500"
)
"""The options that users commonly copy."""
REDUCE = """
import datetime, os, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://", timeout=datetime.timedelta(seconds=50))
number = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(number)
with open(f"result.{dist.get_rank()}", "w") as file:
    print("rank", dist.get_rank(), "of", dist.get_world_size(), "sum", int(number), "on", os.environ["SLURMD_NODENAME"], file=file)
dist.barrier()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with RealSlurm(own_names=True) as slurm, gateway_over(slurm, tmp_path_factory.mktemp("train")) as home:
        yield home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "train.py").write_text(REDUCE)
    return folder


def results(folder: Path) -> list[str]:
    """Return what the ranks wrote, in order."""
    return [path.read_text().strip() for path in sorted(folder.glob("result.*"))]


def test_torchrun_starts_two_ranks_on_a_node(site: Home, work: Path) -> None:
    run(site, work, f"{TORCHRUN} --standalone --nproc_per_node=2 train.py\n", "--cpus-per-task=2", "--time=5")
    assert results(work) == [f"rank {rank} of 2 sum 3 on n1" for rank in (0, 1)]


def test_torchrun_meets_on_the_first_of_two_nodes(site: Home, work: Path) -> None:
    run(site, work, f"srun {TORCHRUN} {RENDEZVOUS} train.py\n", "-N2", "--ntasks-per-node=1", "--time=5")
    assert sorted(line.split(" on ")[1] for line in results(work)) == ["n1", "n2"]
    assert [line.split(" on ")[0] for line in results(work)] == [f"rank {rank} of 2 sum 3" for rank in (0, 1)]


def test_the_library_trains_on_two_nodes_with_the_code_of_its_submission(
    site: Home, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", site.environ["PATH"])
    script = f"#!/bin/bash\nsrun {TORCHRUN} {RENDEZVOUS} train.py\ncat result.*\n"
    with warpdeck.Client(site.path, engine="slurm") as deck:
        job = deck.submit(
            text=script, cwd=work, hold=True, snapshot="require", nodes=2, ntasks_per_node=1, time=5
        )
        (work / "train.py").write_text("raise SystemExit(3)\n")
        site.ok("release", job.id)
        assert job.wait(timeout_s=120).ok, job.output()
        found = [line for line in job.output().decode().splitlines() if line.startswith("rank ")]
    assert [line.split(" on ")[0] for line in found] == [f"rank {rank} of 2 sum 3" for rank in (0, 1)]
