"""Programs that drive Slurm, unchanged, on this machine's own node: what they submit, poll, signal and read is ours."""

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
"""For what takes ten seconds: these programs poll, some every five."""

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
    with open(f"{os.environ['SAID']}/said.{config.x}", "w") as said:
        print(config.x, os.environ["SLURM_JOB_NAME"], os.environ["SLURM_ARRAY_TASK_ID"], file=said)
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
    """One controller, with Slurm's commands on the PATH of whoever runs in its environment."""
    with tempfile.TemporaryDirectory(prefix="wdp", dir="/tmp") as folder:
        home = Home(Path(folder) / "home")
        home.ok("up")
        home.wait_for_idle_node()
        shims = home.ok("shims", "--folder").strip()
        home.environ |= {"PATH": f"{shims}:{os.environ['PATH']}", "HOME": folder}
        yield home
        home.close()


def ran(home: Home, folder: Path, program: str, *words: str, **environ: str) -> list[str]:
    """What a Python program says."""
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py", *words],
        cwd=folder,
        env={**home.environ, **environ},
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr}\n{home.run('queue', '--all').stdout}\n{home.log()}"
    )
    return done.stdout.splitlines()


def test_what_a_job_of_sbatch_writes_is_in_the_folder_and_its_code_is_kept(
    site: Home, short_tmp: Path
) -> None:
    (short_tmp / "train.py").write_text("print(1)\n")
    subprocess.run(["git", "init", "-q"], cwd=short_tmp, check=True, timeout=60)
    done = site.slurm("sbatch", "--wait", "--parsable", "--wrap", "pwd; echo made >made", cwd=short_tmp)
    assert done.returncode == 0, done.stderr
    assert (short_tmp / "made").read_text() == "made\n"
    job = done.stdout.strip()
    assert (short_tmp / f"slurm-{job}.out").read_text() == f"{short_tmp}\n"
    assert "train.py" in site.ok("snapshot", "show", job)


def test_files_are_made_with_the_umask_that_the_submitter_has(site: Home, short_tmp: Path) -> None:
    short_tmp.chmod(0o755)
    script = "umask; touch made; srun sh -c 'umask; touch made.step'"
    commands = (
        f'sbatch --wait -o out --export=NONE --wrap "{script}"',
        "srun --overcommit sh -c 'umask; touch made.srun'",
        "salloc -n1 srun sh -c 'umask; touch made.salloc'",
    )
    done = subprocess.run(
        ["sh", "-ec", "umask 027\n" + "\n".join(commands)],
        cwd=short_tmp,
        env=site.environ,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split()[-2:] == ["0027", "0027"]
    assert (short_tmp / "out").read_text().split() == ["0027", "0027"]
    made = {path.name: path.stat().st_mode & 0o777 for path in short_tmp.iterdir()}
    assert made == dict.fromkeys(["out", "made", "made.step", "made.srun", "made.salloc"], 0o640)


def test_submitit_s_own_tests_pass_where_our_commands_are(site: Home, short_tmp: Path) -> None:
    done = subprocess.run(
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
    assert done.returncode == 0, done.stdout


def test_submitit_runs_jobs_and_arrays_and_brings_errors(site: Home, short_tmp: Path) -> None:
    assert ran(site, short_tmp, SUBMITIT) == ["(25, True)", "[0, 1, 4] 1", "FailedJobError True"]


def test_submitit_checkpoints_and_has_its_job_requeued(site: Home, short_tmp: Path) -> None:
    assert ran(site, short_tmp, CHECKPOINT) == ["(2, '1')"]


def test_hydra_s_launcher_sweeps(site: Home, short_tmp: Path) -> None:
    launcher = [
        "-m",
        "hydra/launcher=submitit_slurm",
        "hydra.launcher.timeout_min=5",
        "hydra.launcher.mem_gb=1",
    ]
    ran(site, short_tmp, HYDRA, *launcher, "hydra.launcher.cpus_per_task=1", "+x=7,8", SAID=str(short_tmp))
    said = [path.read_text() for path in sorted(short_tmp.glob("said.*"))]
    assert said == ["7 program 0\n", "8 program 1\n"]


def test_simple_slurm_submits_depends_and_reads_the_queue(site: Home, short_tmp: Path) -> None:
    *_, told, left = ran(site, short_tmp, SIMPLE_SLURM)
    job, name, reason = told.split()
    assert (name, reason, left) == ("held", "(JobHeldUser)", "{}")
    assert [(short_tmp / f"{job}_{task}.out").read_text() for task in (0, 1)] == ["task 0\n", "task 1\n"]


def test_qtoolkit_submits_and_reads_jobs_by_squeue_and_scontrol(site: Home, short_tmp: Path) -> None:
    assert ran(site, short_tmp, QTOOLKIT) == [
        "SUCCESSFUL '' asked RUNNING 102400 120 main",
        "RUNNING 1 True",
        "SUCCESSFUL",
        "FAILED",
    ]


def test_reportseff_reads_how_well_jobs_used_what_they_had(site: Home, short_tmp: Path) -> None:
    words = ("--parsable", "--mem=100", "--time=10", "--array=0-1", "--wait", "--wrap")
    done = site.slurm("sbatch", *words, "exit $SLURM_ARRAY_TASK_ID", cwd=short_tmp)
    assert done.returncode == 1, done.stderr
    told = ran(
        site,
        short_tmp,
        "from reportseff.console import main\nmain()\n",
        "--format=JobID,State,ReqMem,Partition,User",
    )
    rows = [line.split()[1:5] for line in told if "slurm-" in line]
    user = site.environ.get("USER", "root")
    assert [row[:3] for row in rows] == [["COMPLETED", "100M", "main"], ["FAILED", "100M", "main"]], told
    assert {row[3] for row in rows} == {user}


def test_dask_s_cluster_scales_on_jobs_and_takes_them_away(site: Home, short_tmp: Path) -> None:
    assert ran(site, short_tmp, DASK)[-1] == "42"
    eventually(lambda: not site.json("queue", "--name", "dask-worker"), what="its jobs are cancelled")
