"""A job with a step on two real hosts that is paused, or reaches its limit: each rank saves its work."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
SCRIPT = """#!/bin/sh
#SBATCH -N2 --ntasks-per-node=1 --requeue=limit --output=out
[ ! -e saved.0 ] || exit 0
srun sh -c '
trap "echo TERM >>saved.$SLURM_PROCID; sleep 2; touch $WARPDECK_CHECKPOINT; exit 0" TERM
touch ready.$SLURM_PROCID; while :; do sleep 0.05; done'
echo "the script went on" >>went-on
"""


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Home:
    """A home with two hosts."""
    for host in (1, 2):
        options = ["--name", f"pause{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *options)
    return shared_home


@pytest.mark.parametrize("reason", ["pause", "limit"])
def test_each_rank_on_two_hosts_saves_its_work_once(cluster: Home, short_tmp: Path, reason: str) -> None:
    (short_tmp / "train.sh").write_text(SCRIPT)
    job = int(cluster.json("submit", "--no-snapshot", "train.sh", cwd=short_tmp)["job_id"])
    for rank in range(2):
        eventually((short_tmp / f"ready.{rank}").exists, what=f"rank {rank} handles TERM")
    if reason == "pause":
        cluster.ok("pause", str(job))
    else:
        cluster.request("job_update", jobs=[str(job)], change={"time_limit_s": 1})
    eventually(lambda: cluster.state(job) == "COMPLETED", what="the job has ended")
    assert cluster.job(job)["restarts"] == 1
    assert [(short_tmp / f"saved.{rank}").read_text() for rank in range(2)] == ["TERM\n", "TERM\n"]
    assert not (short_tmp / "went-on").exists()
