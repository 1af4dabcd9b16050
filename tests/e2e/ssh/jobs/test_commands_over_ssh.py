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


def test_a_job_looks_around_submits_and_cancels(lab: Lab, lab_home: Home, short_tmp: Path) -> None:
    for host in (1, 2):
        words = ["--name", f"cmd{host}", "--accept-host-key", lab.fingerprint(host)]
        lab_home.ok("node", "add", f"root@{lab.address(host)}", *words)
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
        lab.address(1),  # by which tasks reach each other; nobody else knows the nodes by their names here
        lab.address(2),
        "PENDING",
        "CANCELLED",
        "JobState=RUNNING",
        f"{job}|RUNNING",
        "1",
    ]


def test_a_job_that_submits_itself_goes_on_with_its_own_code_on_another_host(
    lab: Lab, lab_home: Home, short_tmp: Path
) -> None:
    lab_home.ok(
        "node", "add", f"root@{lab.address(1)}", "--name", "self1", "--accept-host-key", lab.fingerprint(1)
    )
    (short_tmp / "data.txt").write_text("first\n")
    (short_tmp / "job.sh").write_text(
        '#!/bin/bash\ncat data.txt\n[ "$1" = again ] || sbatch --parsable -o again.txt job.sh again\n'
    )
    done = lab_home.slurm("sbatch", "-W", "-o", "out.txt", "job.sh", cwd=short_tmp)
    assert done.returncode == 0, (short_tmp / "out.txt").read_text() + done.stderr
    (short_tmp / "data.txt").write_text("second\n")
    again = short_tmp / "again.txt"
    eventually(lambda: again.exists() and again.read_text() == "first\n")


def test_hostnames_lead_to_the_node_that_they_name(lab: Lab, lab_home: Home, short_tmp: Path) -> None:
    """As `torchrun --master_addr $(scontrol show hostnames | head -1)` needs it. host8 is a name that every host resolves, to an
    address where nobody is; host1 and host2 resolve to themselves."""
    for host, name in ((1, "host8"), (2, "host2"), (3, "host3")):
        words = ["--name", name, "--accept-host-key", lab.fingerprint(host)]
        lab_home.ok("node", "add", f"root@{lab.address(host)}", *words)
    show = 'srun -N1 -n1 -w $SLURMD_NODENAME scontrol show hostnames "$SLURM_JOB_NODELIST"\n'
    assert run(lab_home, short_tmp / "a", show, "-w", "host[2-3]").split() == ["host2", "host3"]
    led = f"first=$(scontrol show hostnames | tail -n 1)\nsrun -N1 -n1 -w host2 getent hosts $first\n{show}"
    out = run(lab_home, short_tmp / "b", led, "-w", "host[2,8]").splitlines()
    assert out[0].split()[0] == lab.address(1)
    assert out[2] == lab.address(1)
    asked = ["salloc", "-Q", "-w", "host[2,8]", "sh", "-c", "$SCONTROL show hostnames"]
    scontrol = f"{sys.executable} -m warpdeck.slurm.runtime.entry scontrol"
    held = lab_home.slurm(*asked, SCONTROL=scontrol)
    assert lab.address(1) in held.stdout.split(), held.stderr
