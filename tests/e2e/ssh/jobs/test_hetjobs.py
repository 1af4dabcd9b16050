"""Heterogeneous jobs on two real hosts: they start and end together, and the script runs on the first node
only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.hosts import Lab
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.lab
HOSTS = (1, 2)


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Iterator[Home]:
    for host in HOSTS:
        argv = ["--name", f"het{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *argv)
    yield shared_home


@pytest.fixture
def work(home: Home, short_tmp: Path) -> Iterator[Path]:
    yield short_tmp
    home.slurm("scancel", "-u", "root")
    eventually(lambda: home.slurm("squeue", "-h").stdout == "", what="all jobs have ended")


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def submit(home: Home, work: Path, *argv: str) -> int:
    submitted = home.slurm("sbatch", "--parsable", *argv, cwd=work)
    assert submitted.returncode == 0, submitted.stderr
    return int(submitted.stdout)


def test_components_start_together_and_the_script_runs_once(home: Home, work: Path) -> None:
    (work / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH -J first -w het1 --gpus-per-node=1\n#SBATCH hetjob\n#SBATCH -J second -w het2 --gpus-per-node=2 -n2\n"
        "env | grep -E '^(SLURM|SLURMD)_' | sort; echo end; sleep 600\n"
    )
    job = submit(home, work, "job.sh")
    out = work / f"slurm-{job}.out"
    eventually(lambda: "end\n" in read(out), what="the script runs")
    rows = home.slurm("squeue", "-h", "-S", "i", "-o", "%i %A %j %T %N").stdout.splitlines()
    assert rows == [f"{job}+0 {job} first RUNNING het1", f"{job}+1 {job + 1} second RUNNING het2"]
    environ = dict(line.partition("=")[::2] for line in read(out).splitlines())
    assert environ["SLURM_HET_SIZE"] == "2"
    assert environ["SLURM_JOB_ID_HET_GROUP_1"] == str(job + 1)
    assert [environ[f"SLURM_JOB_NODELIST_HET_GROUP_{offset}"] for offset in range(2)] == ["het1", "het2"]
    assert (environ["SLURM_JOB_NODELIST"], environ["SLURM_JOB_NAME"]) == ("het1", "first")
    assert not (work / f"slurm-{job + 1}.out").exists()
    assert home.slurm("scancel", str(job)).returncode == 0
    eventually(lambda: home.slurm("squeue", "-h").stdout == "", what="all components have ended")
    records = home.slurm("sacct", "-nPXj", str(job), "-o", "jobid,jobidraw,state").stdout.splitlines()
    assert records == [f"{job}+0|{job}|CANCELLED by 0", f"{job}+1|{job + 1}|CANCELLED by 0"]
    for argv, offsets in (
        (("-j", f"{job}", "--whole-hetjob=no"), [0]),
        (("-j", f"{job}+1"), [1]),
        (("-j", f"{job + 1}"), [1]),
    ):
        assert home.slurm("sacct", "-nPX", "-o", "jobid", *argv).stdout.split() == [
            f"{job}+{offset}" for offset in offsets
        ]
    records = home.slurm(
        "sacct", "-nPX", "-o", "jobid", "-j", f"{job}+1", "--whole-hetjob=yes"
    ).stdout.split()
    assert records == [f"{job}+0", f"{job}+1"]


def test_the_end_of_the_script_ends_all_components_with_its_exit_code(home: Home, work: Path) -> None:
    submitted = home.slurm("sbatch", "-W", "-w", "het1", ":", "-w", "het2", "--wrap", "exit 3", cwd=work)
    job = int(submitted.stdout.split()[-1])
    assert submitted.returncode == 3
    fields = "jobid,state,exitcode,nodelist"
    eventually(
        lambda: (
            home.slurm("sacct", "-nPXj", str(job), "-o", fields).stdout.splitlines()
            == [f"{job}+0|FAILED|3:0|het1", f"{job}+1|FAILED|3:0|het2"]
        ),
        what="both have failed",
    )


RANK_VARIABLES = (
    "$SLURM_PROCID/$SLURM_NTASKS $SLURM_NODEID/$SLURM_NNODES $SLURM_LOCALID $SLURMD_NODENAME $SLURM_JOB_ID "
    "$SLURM_GTIDS $RANK/$WORLD_SIZE"
)


def run(home: Home, work: Path, script: str, *options: str) -> tuple[int, list[str]]:
    """Submit a job of two components, the second with two tasks, and return its id and the output of its
    script.
    """
    (work / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
    job_options = options or ("-w", "het1", ":", "-w", "het2", "-n2")
    submitted = home.slurm("sbatch", "-W", "-o", "out", *job_options, "job.sh", cwd=work)
    assert "Submitted" in submitted.stdout, submitted.stderr
    return int(submitted.stdout.split()[-1]), read(work / "out").splitlines()


def test_srun_runs_in_the_selected_components(home: Home, work: Path) -> None:
    job, lines = run(
        home,
        work,
        f"srun sh -c 'echo own {RANK_VARIABLES}'\nsrun --het-group=1 sh -c 'echo second {RANK_VARIABLES}'\n"
        f"srun --het-group=0,1 -l sh -c 'echo {RANK_VARIABLES}'\nsrun -n1 echo a : -n2 echo b\nsrun --het-group=2 true; echo $?",
    )
    assert lines[0] == f"own 0/1 0/1 0 het1 {job} 0 0/1"
    assert sorted(lines[1:3]) == [f"second {rank}/2 0/1 {rank} het2 {job} 0,1 {rank}/2" for rank in range(2)]
    assert sorted(lines[3:6]) == [
        f"0: 0/3 0/2 0 het1 {job} 0 0/3",
        f"1: 1/3 1/2 0 het2 {job} 1,2 1/3",
        f"2: 2/3 1/2 1 het2 {job} 1,2 2/3",
    ]
    assert sorted(lines[6:9]) == ["a", "b", "b"]
    assert lines[9:] == ["srun: error: Requested het-group offset exceeds highest hetjob index (2 > 1)", "1"]
    steps = home.slurm("sacct", "-nPj", str(job), "-o", "jobid,jobidraw,state").stdout.splitlines()
    assert [f"{job}+1.{number}|{job + 1}.{number}|COMPLETED" for number in (1, 2, 3)] == [
        line for line in steps if line.startswith(f"{job}+1.") and line[len(str(job)) + 3].isdigit()
    ]


def test_srun_returns_the_highest_exit_code_of_all_components(home: Home, work: Path) -> None:
    _, lines = run(
        home,
        work,
        "srun --het-group=0,1 sh -c 'exit $((SLURM_PROCID + 3))'; echo $?\n"
        "srun -K --het-group=0,1 sh -c '[ $SLURM_PROCID = 2 ] && exit 7; sleep 600'; echo $?",
    )
    assert sorted(lines[:3]) == [
        "srun: error: het1: task 0: Exited with exit code 3",
        "srun: error: het2: task 1: Exited with exit code 4",
        "srun: error: het2: task 2: Exited with exit code 5",
    ]
    assert lines[3] == "5"
    assert lines[-1] == "143"


def test_the_input_of_srun_reaches_the_tasks_of_all_components(home: Home, work: Path) -> None:
    _, lines = run(home, work, "seq 3 | srun --het-group=0,1 -l sh -c 'cat | wc -l'")
    assert sorted(lines) == ["0: 3", "1: 3", "2: 3"]


def test_each_program_of_a_step_has_its_own_input_and_output_files(home: Home, work: Path) -> None:
    for number in range(2):
        (work / f"in.{number}").write_text(f"told {number}\n")
    (job, lines) = run(
        home,
        work,
        "srun -i in.0 -o out.0 -e err.0 sh -c 'cat; echo bad 0 >&2' : -i in.1 -o out.1-%t -e err.1 sh -c 'cat; echo bad 1 >&2'\n"
        "srun -o every sh -c 'echo first' : echo second\nsrun echo mine : -o its.%j echo its\nsrun echo bare : -l echo told",
    )
    files = {path.name: read(path) for path in work.iterdir() if path.name not in ("job.sh", "out")}
    assert files == {
        "in.0": "told 0\n",
        "in.1": "told 1\n",
        "out.0": "told 0\n",
        "out.1-1": "told 1\n",
        "out.1-2": "told 1\n",
        "err.0": "bad 0\n",
        "err.1": "bad 1\nbad 1\n",
        "every": files["every"],
        f"its.{job + 1}": "its\nits\n",
    }
    assert sorted(files["every"].split()) == ["first", "second", "second"]
    assert sorted(lines) == ["1: told", "2: told", "bare", "mine"]


def test_ranks_of_all_components_have_the_same_master_address(lab: Lab, home: Home, work: Path) -> None:
    _, lines = run(home, work, "srun --het-group=0,1 sh -c 'echo $MASTER_ADDR $MASTER_PORT'")
    (address,) = set(lines)
    assert address.split()[0] == lab.address(1)


def test_commands_for_one_component_apply_to_the_whole_job(home: Home, work: Path) -> None:
    """A dry run, `why` and `rerun` of one component apply to the whole job."""
    dry = home.slurm("sbatch", "--test-only", "-w", "het1", ":", "-w", "het2", "--wrap", "true", cwd=work)
    assert "to start at" in dry.stderr, dry.stderr
    job = submit(
        home,
        work,
        "-w",
        "het1",
        ":",
        "-w",
        "het2",
        "-d",
        f"afterany:{submit(home, work, '-H', '--wrap', 'true')}",
        "--wrap",
        "true",
    )
    eventually(lambda: "waits for" in home.run("why", f"{job}+1").stdout, what="the reason is known")
    home.slurm("scancel", str(job))
    rerun = home.json("rerun", f"{job}+1")["job_id"]
    eventually(
        lambda: (
            home.slurm("sacct", "-nPXj", str(rerun), "-o", "jobid,state").stdout.splitlines()
            == [f"{rerun}+0|COMPLETED", f"{rerun}+1|COMPLETED"]
        ),
        what="both ran",
    )


def test_salloc_allocates_and_releases_all_components_together(home: Home, work: Path) -> None:
    script = "squeue -ho '%i %N' -S i; srun --het-group=0,1 -l sh -c 'echo $SLURMD_NODENAME of $SLURM_HET_SIZE'; echo $SLURM_HET_SIZE"
    result = home.run("salloc", "-w", "het1", ":", "-w", "het2", "sh", "-c", script, cwd=work)
    assert result.returncode == 0, result.stderr
    job = int(result.stderr.split("Granted job allocation ")[1].split()[0])
    rows, output = result.stdout.splitlines()[:2], result.stdout.splitlines()[2:]
    assert rows == [f"{job}+0 het1", f"{job}+1 het2"]
    assert sorted(output[:2]) == ["0: het1 of 2", "1: het2 of 2"] and output[2:] == ["2"]
    fields = "jobid,state,exitcode"
    eventually(
        lambda: (
            home.slurm("sacct", "-nPXj", str(job), "-o", fields).stdout.splitlines()
            == [f"{job}+0|COMPLETED|0:0", f"{job}+1|COMPLETED|0:0"]
        ),
        what="both were given back",
    )


def test_components_start_once_although_the_controller_is_killed(home: Home, work: Path) -> None:
    for number in range(4):
        out = work / f"ran{number}"
        wrap = f"echo $SLURM_HET_SIZE >>{out}; sleep 600"
        job = submit(home, work, "-H", "-w", "het1", ":", "-w", "het2", "--wrap", wrap)
        home.slurm("scontrol", "release", str(job))
        home.kill_controller()
        home.ok("up", "--no-local-node")
        eventually(lambda out=out: read(out) == "2\n", what="the script has run")
        eventually(
            lambda job=job: (
                home.slurm("squeue", "-hj", str(job), "-o", "%T").stdout.split() == ["RUNNING"] * 2
            ),
            what="both run",
        )
        assert home.slurm("scancel", str(job)).returncode == 0
        eventually(lambda: home.slurm("squeue", "-h").stdout == "", what="both have ended")
        assert read(out) == "2\n", "it ran once"
