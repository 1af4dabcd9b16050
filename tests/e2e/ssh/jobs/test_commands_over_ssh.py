"""Slurm's commands inside jobs on real hosts over SSH."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.batch import run
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab


def test_a_job_can_query_submit_and_cancel_jobs(lab: Lab, lab_home: Home, short_tmp: Path) -> None:
    for host in (1, 2):
        options = ["--name", f"cmd{host}", "--accept-host-key", lab.fingerprint(host)]
        lab_home.ok("node", "add", f"root@{lab.address(host)}", *options)
    out = run(
        lab_home,
        short_tmp / "w",
        "squeue -h -j $SLURM_JOB_ID -o '%i %T %N'\n"
        "sinfo -h -o %N\n"
        'scontrol show hostnames "$SLURM_JOB_NODELIST"\n'
        "next=$(sbatch --parsable -H -o again.txt --wrap 'echo never')\n"
        "squeue -h -j $next -o %T\n"
        "scancel $next; squeue -h -t all -j $next -o %T\n"
        "scontrol show job $SLURM_JOB_ID | grep -o JobState=RUNNING\n"
        "sacct -X -n -P -j $SLURM_JOB_ID -o JobID,State\n"
        "squeue --foo 2> /dev/null; echo $?\n",
        "-N2",
    ).splitlines()
    job = lab_home.json("queue", "-a")[0]["id"]
    assert out == [
        f"{job} RUNNING cmd[1-2]",
        "cmd[1-2]",
        # Tasks reach each other by address, because the hosts here do not resolve the names of the nodes.
        lab.address(1),
        lab.address(2),
        "PENDING",
        "CANCELLED",
        "JobState=RUNNING",
        f"{job}|RUNNING",
        "1",
    ]


def test_a_job_that_submits_itself_keeps_its_code(lab: Lab, lab_home: Home, short_tmp: Path) -> None:
    lab_home.ok(
        "node", "add", f"root@{lab.address(1)}", "--name", "self1", "--accept-host-key", lab.fingerprint(1)
    )
    (short_tmp / "data.txt").write_text("first\n")
    (short_tmp / "job.sh").write_text(
        '#!/bin/bash\ncat data.txt\n[ "$1" = again ] || sbatch --parsable -o again.txt job.sh again\n'
    )
    submitted = lab_home.slurm("sbatch", "-W", "-o", "out.txt", "job.sh", cwd=short_tmp)
    assert submitted.returncode == 0, (short_tmp / "out.txt").read_text() + submitted.stderr
    (short_tmp / "data.txt").write_text("second\n")
    again = short_tmp / "again.txt"
    eventually(lambda: again.exists() and again.read_text() == "first\n")


def test_show_hostnames_prints_addresses_for_names_that_resolve_wrongly(
    lab: Lab, lab_home: Home, short_tmp: Path
) -> None:
    """`torchrun --master_addr $(scontrol show hostnames | head -1)` depends on this.

    Every host resolves host8 to an unused address, and resolves host1 and host2 correctly.
    """
    for host, name in ((1, "host8"), (2, "host2"), (3, "host3")):
        options = ["--name", name, "--accept-host-key", lab.fingerprint(host)]
        lab_home.ok("node", "add", f"root@{lab.address(host)}", *options)
    show_hostnames = 'srun -N1 -n1 -w $SLURMD_NODENAME scontrol show hostnames "$SLURM_JOB_NODELIST"\n'
    assert run(lab_home, short_tmp / "a", show_hostnames, "-w", "host[2-3]").split() == ["host2", "host3"]
    ssh_script = f"first=$(scontrol show hostnames | tail -n 1)\nsrun -N1 -n1 -w host2 getent hosts $first\n{show_hostnames}"
    out = run(lab_home, short_tmp / "b", ssh_script, "-w", "host[2,8]").splitlines()
    assert out[0].split()[0] == lab.address(1)
    assert out[2] == lab.address(1)
    salloc_argv = ["salloc", "-Q", "-w", "host[2,8]", "sh", "-c", "$SCONTROL show hostnames"]
    scontrol = f"{sys.executable} -m warpdeck.slurm.runtime.entry scontrol"
    allocation = lab_home.slurm(*salloc_argv, SCONTROL=scontrol)
    assert lab.address(1) in allocation.stdout.split(), allocation.stderr
