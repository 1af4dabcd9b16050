"""sacct knows fewer states than squeue."""

import json
from pathlib import Path

from tests.slurm_parity.peer.warpdeck_cluster import WarpdeckCluster
from tests.support.waiting import eventually


def test_configuring_and_completing_jobs_are_running_in_sacct(short_tmp: Path) -> None:
    with WarpdeckCluster(short_tmp) as slurm:  # its nodes report the start of a job only on request
        job = str(slurm.submit())
        eventually(
            lambda: slurm.run(["squeue", "-h", "-o", "%T"]).out == "CONFIGURING\n", what="nodes are allocated"
        )
        assert slurm.run(["sacct", "-nXPj", job, "-o", "state"]).out == "RUNNING\n"
        assert slurm.run(["sacct", "-nXP", "-s", "running", "-o", "jobid"]).out == f"{job}\n"
        assert slurm.run(["sacct", "-nXP", "-s", "completed", "-o", "jobid"]).out == ""
        (document,) = json.loads(slurm.run(["sacct", "--json", "-j", job]).out)["jobs"]
        assert document["state"]["current"] == "RUNNING"
        slurm.run(["scancel", job])
        eventually(
            lambda: slurm.run(["squeue", "-h", "-o", "%T"]).out == "COMPLETING\n",
            what="its nodes get the cancellation",
        )
        assert slurm.run(["sacct", "-nXPj", job, "-o", "state"]).out == "RUNNING\n"
