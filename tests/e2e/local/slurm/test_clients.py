"""Unmodified programs that drive Slurm submit, poll and signal jobs on this machine's own node."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.home import Home
from tests.support.waiting import eventually

PROGRAM_S = 180.0
"""Time limit for work of about ten seconds. Some of the programs poll only every five seconds."""

SUBMITIT = """
import os, submitit
executor = submitit.AutoExecutor(folder="log")
assert executor.cluster == "slurm", executor.cluster
executor.update_parameters(timeout_min=5, cpus_per_task=1, mem_gb=0.5, slurm_array_parallelism=2)
def told(number):
    return number * number, submitit.JobEnvironment().job_id == os.environ["SLURM_JOB_ID"]
print(executor.submit(told, 5).result())
jobs = executor.map_array(told, range(3))
print([job.result()[0] for job in jobs], len({job.job_id.split("_")[0] for job in jobs}))
def fails():
    raise LookupError("not there")
error = executor.submit(fails).exception()
print(type(error).__name__, "LookupError: not there" in str(error))
"""
CHECKPOINT = """
import os, pathlib, time, submitit
class Counts(submitit.helpers.Checkpointable):
    def __init__(self):
        self.begun = 0
    def __call__(self, go):
        self.begun += 1
        pathlib.Path(go + str(self.begun)).touch()
        while self.begun < 2:
            time.sleep(0.05)
        return self.begun, os.environ["SLURM_RESTART_COUNT"]
executor = submitit.AutoExecutor(folder="log")
executor.update_parameters(timeout_min=5, cpus_per_task=1, mem_gb=0.5)
job = executor.submit(Counts(), os.path.abspath("go"))
while not os.path.exists("go1"):
    time.sleep(0.05)
job._interrupt()
print(job.result())
"""
HYDRA = """
import os, hydra
@hydra.main(version_base=None, config_path=None, config_name=None)
def main(config):
    with open(f"{os.environ['RESULTS']}/result.{config.x}", "w") as file:
        print(config.x, os.environ["SLURM_JOB_NAME"], os.environ["SLURM_ARRAY_TASK_ID"], file=file)
main()
"""
SIMPLE_SLURM = """
import datetime
from simple_slurm import Slurm
first = Slurm(array=range(2), cpus_per_task=1, job_name="named", output=f"{Slurm.JOB_ARRAY_MASTER_ID}_{Slurm.JOB_ARRAY_ID}.out",
              time=datetime.timedelta(minutes=3))
job = first.sbatch("echo task " + Slurm.SLURM_ARRAY_TASK_ID)
Slurm(dependency=dict(afterok=job), wait=True).sbatch("true")
held = Slurm(hold=True, job_name="held").sbatch("true")
first.squeue.update_squeue()
print(job, first.squeue.jobs[held]["NAME"], first.squeue.jobs[held]["NODELIST(REASON)"])
first.scancel.cancel_job(held)
first.squeue.update_squeue()
print(first.squeue.jobs)
"""
DASK = """
from dask.distributed import Client
from dask_jobqueue import SLURMCluster
if __name__ == "__main__":
    cluster = SLURMCluster(cores=1, memory="500MB", walltime="00:05:00", interface="lo", log_directory="logs", local_directory=".",
                           scheduler_options={"dashboard_address": None})
    cluster.scale(jobs=1)
    with Client(cluster) as client:
        print(client.submit(lambda number: number + 1, 41).result(timeout=120))
    cluster.close()
"""
QTOOLKIT = """
import os, time
from qtoolkit.core.data_objects import QResources
from qtoolkit.host.local import LocalHost
from qtoolkit.io.slurm import SlurmIO
from qtoolkit.manager import QueueManager
queue = QueueManager(SlurmIO(), LocalHost())
here = os.getcwd()
asked = QResources(queue_name="main", job_name="asked", memory_per_thread=100, nodes=1, processes_per_node=1, threads_per_process=1,
                   time_limit=120, output_filepath=here + "/out", error_filepath=here + "/err")
made = queue.submit("touch begun; exec sleep 1000", options=asked, work_dir=here)
while not os.path.exists("begun"):
    time.sleep(0.05)
job, [row] = queue.get_job(made.job_id), queue.get_jobs_list(jobs=[made.job_id, "999"])
print(made.status.name, repr(made.stderr), job.name, job.sub_state.name, job.info.memory, job.info.time_limit, job.queue_name)
print(row.state.name, row.info.cpus, row.username == os.environ.get("USER", row.username))
print(queue.cancel(made.job_id).status.name)
print(queue.submit("true", options={"time": "xx"}, work_dir=here).status.name)
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One controller, with Slurm's commands on the PATH of programs in its environment."""
    with tempfile.TemporaryDirectory(prefix="wdp", dir="/tmp") as folder:
        home = Home(Path(folder) / "home")
        home.ok("up")
        home.wait_for_idle_node()
        shims = home.ok("shims", "--folder").strip()
        home.environ |= {"PATH": f"{shims}:{os.environ['PATH']}", "HOME": folder}
        yield home
        home.close()


def run_program(home: Home, folder: Path, program: str, *argv: str, **environ: str) -> list[str]:
    """Run a Python program and return its output."""
    (folder / "program.py").write_text(program)
    result = subprocess.run(
        [sys.executable, "program.py", *argv],
        cwd=folder,
        env={**home.environ, **environ},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert result.returncode == 0, (
        f"{result.stdout}{result.stderr}\n{home.run('queue', '--all').stdout}\n{home.log()}"
    )
    return result.stdout.splitlines()


def test_a_job_of_sbatch_runs_in_the_folder_and_its_code_is_recorded(site: Home, short_tmp: Path) -> None:
    (short_tmp / "train.py").write_text("print(1)\n")
    subprocess.run(["git", "init", "-q"], cwd=short_tmp, check=True, timeout=60)
    result = site.slurm("sbatch", "--wait", "--parsable", "--wrap", "pwd; echo made >made", cwd=short_tmp)
    assert result.returncode == 0, result.stderr
    assert (short_tmp / "made").read_text() == "made\n"
    job = result.stdout.strip()
    assert (short_tmp / f"slurm-{job}.out").read_text() == f"{short_tmp}\n"
    assert "train.py" in site.ok("snapshot", "show", job)


def test_files_are_created_with_the_umask_of_the_submitter(site: Home, short_tmp: Path) -> None:
    short_tmp.chmod(0o755)
    script = "umask; touch made; srun sh -c 'umask; touch made.step'"
    commands = (
        f'sbatch --wait -o out --export=NONE --wrap "{script}"',
        "srun --overcommit sh -c 'umask; touch made.srun'",
        "salloc -n1 srun sh -c 'umask; touch made.salloc'",
    )
    result = subprocess.run(
        ["sh", "-ec", "umask 027\n" + "\n".join(commands)],
        cwd=short_tmp,
        env=site.environ,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.split()[-2:] == ["0027", "0027"]
    assert (short_tmp / "out").read_text().split() == ["0027", "0027"]
    modes = {path.name: path.stat().st_mode & 0o777 for path in short_tmp.iterdir()}
    assert modes == dict.fromkeys(["out", "made", "made.step", "made.srun", "made.salloc"], 0o640)


def test_the_tests_of_submitit_pass_with_our_commands(site: Home, short_tmp: Path) -> None:
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--pyargs",
            "submitit.slurm",
            "submitit.auto",
        ],
        cwd=short_tmp,
        env=site.environ,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def test_submitit_runs_jobs_and_arrays_and_returns_errors(site: Home, short_tmp: Path) -> None:
    assert run_program(site, short_tmp, SUBMITIT) == ["(25, True)", "[0, 1, 4] 1", "FailedJobError True"]


def test_submitit_saves_a_checkpoint_and_requeues_its_job(site: Home, short_tmp: Path) -> None:
    assert run_program(site, short_tmp, CHECKPOINT) == ["(2, '1')"]


def test_the_hydra_launcher_runs_a_sweep(site: Home, short_tmp: Path) -> None:
    launcher = [
        "-m",
        "hydra/launcher=submitit_slurm",
        "hydra.launcher.timeout_min=5",
        "hydra.launcher.mem_gb=1",
    ]
    run_program(
        site, short_tmp, HYDRA, *launcher, "hydra.launcher.cpus_per_task=1", "+x=7,8", RESULTS=str(short_tmp)
    )
    results = [path.read_text() for path in sorted(short_tmp.glob("result.*"))]
    assert results == ["7 program 0\n", "8 program 1\n"]


def test_simple_slurm_submits_dependent_jobs_and_reads_the_queue(site: Home, short_tmp: Path) -> None:
    *_, summary, queue_text = run_program(site, short_tmp, SIMPLE_SLURM)
    job, name, reason = summary.split()
    assert (name, reason, queue_text) == ("held", "(JobHeldUser)", "{}")
    assert [(short_tmp / f"{job}_{task}.out").read_text() for task in (0, 1)] == ["task 0\n", "task 1\n"]


def test_qtoolkit_submits_jobs_and_reads_them_with_squeue_and_scontrol(site: Home, short_tmp: Path) -> None:
    assert run_program(site, short_tmp, QTOOLKIT) == [
        "SUCCESSFUL '' asked RUNNING 102400 120 main",
        "RUNNING 1 True",
        "SUCCESSFUL",
        "FAILED",
    ]


def test_reportseff_reads_the_efficiency_of_jobs(site: Home, short_tmp: Path) -> None:
    options = ("--parsable", "--mem=100", "--time=10", "--array=0-1", "--wait", "--wrap")
    result = site.slurm("sbatch", *options, "exit $SLURM_ARRAY_TASK_ID", cwd=short_tmp)
    assert result.returncode == 1, result.stderr
    output = run_program(
        site,
        short_tmp,
        "from reportseff.console import main\nmain()\n",
        "--format=JobID,State,ReqMem,Partition,User",
    )
    rows = [line.split()[1:5] for line in output if "slurm-" in line]
    user = site.environ.get("USER", "root")
    assert [row[:3] for row in rows] == [["COMPLETED", "100M", "main"], ["FAILED", "100M", "main"]], output
    assert {row[3] for row in rows} == {user}


def test_a_dask_cluster_starts_and_cancels_its_worker_jobs(site: Home, short_tmp: Path) -> None:
    assert run_program(site, short_tmp, DASK)[-1] == "42"
    eventually(
        lambda: not site.json("queue", "--name", "dask-worker"), what="the workers' jobs are cancelled"
    )
