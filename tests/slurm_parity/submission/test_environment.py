"""The environment of batch scripts and of srun's tasks beside a real Slurm.

The same variables exist, and those that do not depend on the machine have the same values.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
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
DUMP_SHELL = """python3 -c 'import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + "/shell", "w"))' "$1"\n"""
SBATCH_OPTIONS: tuple[list[str], ...] = (
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
"""Options of the compared submissions."""
SLURM_ONLY = {
    "SLURM_WORKING_CLUSTER",  # The address of slurmctld.
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
"""Internal variables of Slurm."""
WARPDECK_ONLY = {
    *(
        "SLURM_JOB_QOS",
        "SLURM_JOB_START_TIME",
        "SLURM_JOB_END_TIME",
    ),  # Slurm sets these with accounting and in newer versions.
    "SLURM_JOB_GPUS",  # We set it also for salloc's shell, as its man page says.
    "SLURM_CPUS_PER_TASK",  # We set it to 1 where Slurm leaves it out.
    "SLURM_GPUS_PER_NODE",  # We set it for --gres too.
    *("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_ON_NODE"),  # We set them to empty values for jobs without GPUs.
}
"""Variables that we set and Slurm 22.05 does not."""
VARYING = {
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
    "SLURM_MEM_BIND",  # Our srun sets it to quiet for tasks.
}
"""Variables with values that depend on the machine or the job."""
SALLOC_OPTIONS: tuple[list[str], ...] = (
    [],
    ["-n", "2"],
    ["-N", "2", "--mem=100"],
    ["--gpus=2", "--cpus-per-gpu=1"],
    ["--hint=nomultithread", "-O"],
)
"""Options of the compared salloc commands."""
PREFIXES = ("SLURM", "CUDA_VISIBLE", "GPU_DEVICE", "ENVIRONMENT")


@pytest.fixture(scope="module")
def cluster(lab: Lab, shared_home: Home) -> Home:
    """A home with two hosts as nodes."""
    for host in (1, 2):
        argv = ["--name", f"env{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *argv)
    return shared_home


def read_environments(folder: Path) -> dict[str, dict[str, str]]:
    """Return the variables of Slurm by process."""
    return {
        path.name: {
            name: value for name, value in json.loads(path.read_text()).items() if name.startswith(PREFIXES)
        }
        for path in folder.iterdir()
        if not path.name.startswith("slurm-")
    }


@pytest.mark.parametrize("options", SBATCH_OPTIONS, ids=" ".join)
def test_jobs_have_the_environment_that_slurm_sets(
    cluster: Home, slurm: RealSlurm, short_tmp: Path, options: list[str]
) -> None:
    environments = {}
    for scheduler in ("real", "ours"):
        folder = short_tmp / scheduler
        folder.mkdir()
        (short_tmp / "job.sh").write_text(SCRIPT)
        argv = ["sbatch", "--wait", "-t", "5", "-o", f"{folder}/slurm-%a", *options, "job.sh"]
        if scheduler == "real":
            result = slurm.run(argv, cwd=short_tmp, env={"TOLD": str(folder)})
            assert result.rc == 0, result
        else:
            submitted = cluster.slurm(*argv, cwd=short_tmp, TOLD=str(folder))
            assert submitted.returncode == 0, submitted.stderr + "".join(
                p.read_text() for p in folder.glob("slurm-*")
            )
        environments[scheduler] = read_environments(folder)
    assert_same_environments(environments["ours"], environments["real"], options)


@pytest.mark.parametrize("options", SALLOC_OPTIONS, ids=" ".join)
def test_the_shell_of_salloc_has_the_environment_that_slurm_sets(
    cluster: Home, slurm: RealSlurm, short_tmp: Path, options: list[str]
) -> None:
    (short_tmp / "tell.sh").write_text(DUMP_SHELL)
    environments = {}
    for scheduler in ("real", "ours"):
        folder = short_tmp / scheduler
        folder.mkdir()
        argv = ["salloc", "-t", "5", *options, "bash", str(short_tmp / "tell.sh"), str(folder)]
        if scheduler == "real":
            result = slurm.run(argv, cwd=short_tmp)
            assert result.rc == 0, result
        else:
            allocated = cluster.slurm(*argv, cwd=short_tmp)
            assert allocated.returncode == 0, allocated.stderr
        environments[scheduler] = read_environments(folder)
    assert_same_environments(environments["ours"], environments["real"], options)


def assert_same_environments(
    warpdeck: dict[str, dict[str, str]], slurm: dict[str, dict[str, str]], options: list[str]
) -> None:
    """Assert that the same variables exist and that comparable values are equal."""
    assert set(warpdeck) == set(slurm)
    for process, slurm_environ in slurm.items():
        if not any(word.startswith("--mem-per-cpu") for word in options):
            slurm_environ.pop("SLURM_MEM_PER_CPU", None)  # Slurm's site sets a default.
        environ = warpdeck[process]
        assert set(slurm_environ) - SLURM_ONLY <= set(environ), (
            process,
            set(slurm_environ) - SLURM_ONLY - set(environ),
        )
        assert set(environ) - set(slurm_environ) <= WARPDECK_ONLY, (
            process,
            set(environ) - set(slurm_environ) - WARPDECK_ONLY,
        )
        starts_at, ends_at = (int(environ[f"SLURM_JOB_{word}_TIME"]) for word in ("START", "END"))
        assert (ends_at - starts_at, 0 <= time.time() - starts_at < 300) == (300, True)
        if "SLURM_NTASKS" not in slurm_environ:  # The number of tasks depends on the free CPUs.
            slurm_environ["SLURM_TASKS_PER_NODE"] = environ["SLURM_TASKS_PER_NODE"]
        for name in set(slurm_environ) & set(environ) - VARYING:
            assert (process, name, environ[name]) == (process, name, slurm_environ[name])


NICE_SCRIPT = 'echo $SLURM_PRIO_PROCESS; srun sh -c "echo \\$SLURM_PRIO_PROCESS"; nice -n 2 srun sh -c "echo \\$SLURM_PRIO_PROCESS"'


def test_jobs_know_the_nice_value_of_their_submitter(
    cluster: Home, slurm: RealSlurm, short_tmp: Path
) -> None:
    nice = ["nice", "-n", "3"]
    argv = ["sbatch", "--wait", "-n1", "-t", "5", "-o"]
    assert slurm.run([*nice, *argv, "real", "--wrap", NICE_SCRIPT], cwd=short_tmp).rc == 0
    shims = cluster.ok("shims", "--folder").strip()
    # The command runs once through the user's submitter and once in its own interpreter.
    for program in (f"{shims}/sbatch", "sbatch"):
        argv_start = (
            [program]
            if program != "sbatch"
            else [sys.executable, "-m", "warpdeck.slurm.runtime.entry", "sbatch"]
        )
        subprocess.run(
            [*nice, *argv_start, *argv[1:], "ours", "--wrap", NICE_SCRIPT],
            cwd=short_tmp,
            env=cluster.environ,
            check=True,
            timeout=120,
        )
        assert (short_tmp / "ours").read_text() == (short_tmp / "real").read_text()
