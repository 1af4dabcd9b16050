"""A training job with PyTorch (gloo) on two real hosts: one rank stops, and the verdict names it."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
DEBIAN = "/usr/bin/python3"
"""The interpreter of Debian's PyTorch."""
TRAIN = """
import os, time
import torch, torch.distributed as dist

def load_batch(step):
    while step == 40 and dist.get_rank() == 2 and not os.path.exists("go"):
        time.sleep(5)
    time.sleep(1)

def step_once(step):
    load_batch(step)
    gradient = torch.ones(4)
    dist.all_reduce(gradient)
    if dist.get_rank() == 0:
        print(f"step {step} loss {1 / (step + 1):.4f}", flush=True)

dist.init_process_group("gloo", init_method="env://")
for step in range(1000):
    step_once(step)
"""
LIMIT_S = 300.0


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Home:
    """A home with two hosts that examines a quiet job soon."""
    (shared_home.path / "config.toml").write_text("[scheduler]\nhang_after_s = 20\n")
    shared_home.ok("config", "reload")
    for host in (1, 2):
        options = ["--name", f"hang{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *options)
    return shared_home


def notice(home: Home, job: int) -> str:
    """Return the job's notice."""
    return str(home.request("job", job=str(job))["notice"])


def test_a_rank_that_left_the_collective_is_named_until_it_continues(cluster: Home, short_tmp: Path) -> None:
    tool = shutil.which("py-spy", path=sysconfig.get_path("scripts"))
    assert tool is not None
    (short_tmp / "train.py").write_text(TRAIN)
    (short_tmp / "train.sh").write_text(
        "#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=2 --output=out\n"
        f"export GLOO_SOCKET_IFNAME=eth0 PATH=$PATH:{Path(tool).parent}\nexec srun {DEBIAN} train.py\n"
    )
    job = int(cluster.json("submit", "--no-snapshot", "train.sh", cwd=short_tmp)["job_id"])
    eventually(lambda: "not in all_reduce" in notice(cluster, job), what="the verdict", timeout_s=LIMIT_S)
    verdict = notice(cluster, job)
    assert verdict.startswith(
        "makes no progress: rank 2 on hang2 is not in all_reduce: it is in load_batch (train.py:7)"
    )
    assert verdict.endswith("; 3 other ranks wait in all_reduce")
    assert verdict in cluster.ok("why", str(job))
    assert verdict in cluster.ok("show", str(job))
    eventually(lambda: verdict in (short_tmp / "out").read_text(), what="the verdict in the job's output")
    (short_tmp / "go").touch()
    eventually(lambda: not notice(cluster, job), what="the verdict is withdrawn", timeout_s=LIMIT_S)
    assert "is no longer suspected to hang" in cluster.ok("show", str(job))
    cluster.ok("cancel", str(job))
