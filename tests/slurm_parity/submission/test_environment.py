"""The variables of batch scripts and of srun's tasks beside those of the real Slurm: the same names, and the same values where
they do not follow from the machines."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home

pytestmark = [pytest.mark.lab, pytest.mark.slurm]

SCRIPT = """#!/bin/bash
dump() { python3 -c 'import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], "w"))' "$1"; }
export -f dump
dump "$TOLD/batch"
srun bash -c 'dump "$TOLD/task.$SLURM_PROCID"'
"""
TELL = """python3 -c 'import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + "/shell", "w"))' "$1"\n"""
ASKED = (
    [],
    ["-n", "2"],
    ["-N", "2"],
    ["-N", "2", "--ntasks-per-node=1", "-c", "1"],
    ["--mem=100"],
    ["--mem-per-cpu=50", "-n", "1"],
    ["--gpus=2"],
    ["--gpus-per-node=2", "-N", "2"],
    ["--gpus-per-task=1", "-n", "2"],
    ["--gres=gpu:1", "--mem-per-gpu=100"],
    ["--cpus-per-gpu=1", "--gpus=1"],
    ["-a", "3"],
    ["-n", "2", "-m", "cyclic"],
    ["-n", "2", "-m", "plane=1"],
    ["-n", "2", "-O"],
    ["--hint=nomultithread"],
    ["--threads-per-core=1"],
    ["--ntasks-per-core=1", "-n", "1"],
    ["--mem-bind=local"],
    ["--profile=task"],
    ["--gpus=1", "--gpu-bind=closest"],
    ["--gpus=2", "--ntasks-per-gpu=1"],
    ["-d", "singleton", "-J", "one"],
    ["-N", "2", "-n", "3", "--mem=100"],
    ["--overcommit"],
)
"""Options of the submissions that are compared."""
NOT_OURS = {
    "SLURM_WORKING_CLUSTER",  # where slurmctld listens
    "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0",
    "SLURM_SRUN_COMM_HOST",
    "SLURM_SRUN_COMM_PORT",
    "SLURM_STEP_LAUNCHER_PORT",
    "SLURM_EXPORT_ENV",
    "SLURMD_TRES_BIND",
    "SLURM_NTASKS_PER_TRES",
    *("SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_VERBOSE"),
    *("SLURM_MEM_BIND_LIST", "SLURM_MEM_BIND_TYPE"),
}
"""Slurm's own business."""
MORE = {
    *(
        "SLURM_JOB_QOS",
        "SLURM_JOB_START_TIME",
        "SLURM_JOB_END_TIME",
    ),  # of Slurm with accounting, and of newer ones
    "SLURM_JOB_GPUS",  # to salloc's shell too, as its page says
    "SLURM_CPUS_PER_TASK",  # 1 where Slurm leaves it out
    "SLURM_GPUS_PER_NODE",  # for --gres too
    *("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_ON_NODE"),  # none, said to jobs without GPUs
}
"""What we tell and 22.05 does not."""
DIFFERENT = {
    *(
        "SLURM_CLUSTER_NAME",
        "SLURM_CONF",
        "SLURM_JOB_ID",
        "SLURM_JOBID",
        "SLURM_ARRAY_JOB_ID",
        "SLURM_TASK_PID",
    ),
    *(
        "SLURM_JOB_NODELIST",
        "SLURM_NODELIST",
        "SLURM_STEP_NODELIST",
        "SLURMD_NODENAME",
        "SLURM_TOPOLOGY_ADDR",
    ),
    *("SLURM_SUBMIT_HOST", "SLURM_SUBMIT_DIR", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_JOB_PARTITION"),
    *("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
    *("SLURM_JOB_NAME", "SLURM_STEP_GPUS"),
    "SLURM_MEM_BIND",  # quiet, for tasks
}
"""Values that follow from the machines, or from which job it is."""
HELD = (
    [],
    ["-n", "2"],
    ["-N", "2", "--mem=100"],
    ["--gpus=2", "--cpus-per-gpu=1"],
    ["--hint=nomultithread", "-O"],
)
"""Options of salloc that are compared."""
PREFIXES = ("SLURM", "CUDA_VISIBLE", "GPU_DEVICE", "ENVIRONMENT")


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Iterator[Home]:
    """Two hosts."""
    for host in (1, 2):
        argv = ["--name", f"env{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *argv)
    return shared_home


def told(folder: Path) -> dict[str, dict[str, str]]:
    """Process -> its variables that are Slurm's."""
    return {
        path.name: {
            name: value for name, value in json.loads(path.read_text()).items() if name.startswith(PREFIXES)
        }
        for path in folder.iterdir()
        if not path.name.startswith("slurm-")
    }


@pytest.mark.parametrize("options", ASKED, ids=" ".join)
def test_jobs_are_told_what_slurm_tells_them(
    cluster: Home, slurm: RealSlurm, short_tmp: Path, options: list[str]
) -> None:
    found = {}
    for who in ("real", "ours"):
        folder = short_tmp / who
        folder.mkdir()
        (short_tmp / "job.sh").write_text(SCRIPT)
        argv = ["sbatch", "--wait", "-t", "5", "-o", f"{folder}/slurm-%a", *options, "job.sh"]
        if who == "real":
            done = slurm.run(argv, cwd=short_tmp, env={"TOLD": str(folder)})
            assert done.rc == 0, done
        else:
            ours = cluster.slurm(*argv, cwd=short_tmp, TOLD=str(folder))
            assert ours.returncode == 0, ours.stderr + "".join(p.read_text() for p in folder.glob("slurm-*"))
        found[who] = told(folder)
    compare(found["ours"], found["real"], options)


@pytest.mark.parametrize("options", HELD, ids=" ".join)
def test_the_shell_of_an_allocation_is_told_what_slurm_tells_it(
    cluster: Home, slurm: RealSlurm, short_tmp: Path, options: list[str]
) -> None:
    (short_tmp / "tell.sh").write_text(TELL)
    found = {}
    for who in ("real", "ours"):
        folder = short_tmp / who
        folder.mkdir()
        argv = ["salloc", "-t", "5", *options, "bash", str(short_tmp / "tell.sh"), str(folder)]
        if who == "real":
            done = slurm.run(argv, cwd=short_tmp)
            assert done.rc == 0, done
        else:
            ours = cluster.slurm(*argv, cwd=short_tmp)
            assert ours.returncode == 0, ours.stderr
        found[who] = told(folder)
    compare(found["ours"], found["real"], options)


def compare(ours: dict[str, dict[str, str]], theirs: dict[str, dict[str, str]], options: list[str]) -> None:
    """Names, and values that do not follow from the machines."""
    assert set(ours) == set(theirs)
    for process, real in theirs.items():
        if not any(word.startswith("--mem-per-cpu") for word in options):
            real.pop("SLURM_MEM_PER_CPU", None)  # a default of its site
        ours_told = ours[process]
        assert set(real) - NOT_OURS <= set(ours_told), (process, set(real) - NOT_OURS - set(ours_told))
        assert set(ours_told) - set(real) <= MORE, (process, set(ours_told) - set(real) - MORE)
        begins, ends = (int(ours_told[f"SLURM_JOB_{word}_TIME"]) for word in ("START", "END"))
        assert (ends - begins, 0 <= time.time() - begins < 300) == (300, True)
        if "SLURM_NTASKS" not in real:  # as many as there is room for
            real["SLURM_TASKS_PER_NODE"] = ours_told["SLURM_TASKS_PER_NODE"]
        for name in set(real) & set(ours_told) - DIFFERENT:
            assert (process, name, ours_told[name]) == (process, name, real[name])


NICE = 'echo $SLURM_PRIO_PROCESS; srun sh -c "echo \\$SLURM_PRIO_PROCESS"; nice -n 2 srun sh -c "echo \\$SLURM_PRIO_PROCESS"'


def test_jobs_are_told_how_nice_their_submitter_was(cluster: Home, slurm: RealSlurm, short_tmp: Path) -> None:
    nice = ["nice", "-n", "3"]
    argv = ["sbatch", "--wait", "-n1", "-t", "5", "-o"]
    assert slurm.run([*nice, *argv, "real", "--wrap", NICE], cwd=short_tmp).rc == 0
    shims = cluster.ok("shims", "--folder").strip()
    for road in (f"{shims}/sbatch", "sbatch"):  # by the user's submitter, and by an interpreter of its own
        program = (
            [road] if road != "sbatch" else [sys.executable, "-m", "warpdeck.slurm.runtime.entry", "sbatch"]
        )
        subprocess.run(
            [*nice, *program, *argv[1:], "ours", "--wrap", NICE],
            cwd=short_tmp,
            env=cluster.environ,
            check=True,
            timeout=120,
        )
        assert (short_tmp / "ours").read_text() == (short_tmp / "real").read_text()
