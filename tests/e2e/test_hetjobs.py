"""Heterogeneous jobs on two real hosts: sbatch's words, one start, the script on the first node alone, one end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.home import Home
from tests.lab.hosts import Lab
from tests.waiting import eventually

pytestmark = pytest.mark.lab
HOSTS = (1, 2)


@pytest.fixture(scope="module")
def home(lab: Lab, shared_home: Home) -> Iterator[Home]:
    for host in HOSTS:
        words = ["--name", f"het{host}", "--accept-host-key", lab.fingerprint(host)]
        shared_home.ok("node", "add", f"root@{lab.address(host)}", *words)
    yield shared_home


@pytest.fixture
def work(home: Home, short_tmp: Path) -> Iterator[Path]:
    yield short_tmp
    home.slurm("scancel", "-u", "root")
    eventually(lambda: home.slurm("squeue", "-h").stdout == "", what="nothing is left")


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def submit(home: Home, work: Path, *words: str) -> int:
    done = home.slurm("sbatch", "--parsable", *words, cwd=work)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_components_start_together_and_the_script_runs_once(home: Home, work: Path) -> None:
    (work / "job.sh").write_text(
        "#!/bin/bash\n#SBATCH -J first -w het1 --gpus-per-node=1\n#SBATCH hetjob\n#SBATCH -J second -w het2 --gpus-per-node=2 -n2\n"
        "env | grep -E '^(SLURM|SLURMD)_' | sort; echo end; sleep 600\n"
    )
    job = submit(home, work, "job.sh")
    out = work / f"slurm-{job}.out"
    eventually(lambda: "end\n" in read(out), what="the script runs")
    listed = home.slurm("squeue", "-h", "-S", "i", "-o", "%i %A %j %T %N").stdout.splitlines()
    assert listed == [f"{job}+0 {job} first RUNNING het1", f"{job}+1 {job + 1} second RUNNING het2"]
    told = dict(line.partition("=")[::2] for line in read(out).splitlines())
    assert told["SLURM_HET_SIZE"] == "2"
    assert told["SLURM_JOB_ID_HET_GROUP_1"] == str(job + 1)
    assert [told[f"SLURM_JOB_NODELIST_HET_GROUP_{offset}"] for offset in range(2)] == ["het1", "het2"]
    assert (told["SLURM_JOB_NODELIST"], told["SLURM_JOB_NAME"]) == ("het1", "first")
    assert not (work / f"slurm-{job + 1}.out").exists()
    assert home.slurm("scancel", str(job)).returncode == 0
    eventually(lambda: home.slurm("squeue", "-h").stdout == "", what="all components have ended")
    ended = home.slurm("sacct", "-nPXj", str(job), "-o", "jobid,jobidraw,state").stdout.splitlines()
    assert ended == [f"{job}+0|{job}|CANCELLED by 0", f"{job}+1|{job + 1}|CANCELLED by 0"]


def test_the_end_of_the_script_ends_all_alike(home: Home, work: Path) -> None:
    done = home.slurm("sbatch", "-W", "-w", "het1", ":", "-w", "het2", "--wrap", "exit 3", cwd=work)
    job = int(done.stdout.split()[-1])
    assert done.returncode == 3
    ended = "jobid,state,exitcode,nodelist"
    eventually(
        lambda: (
            home.slurm("sacct", "-nPXj", str(job), "-o", ended).stdout.splitlines()
            == [f"{job}+0|FAILED|3:0|het1", f"{job}+1|FAILED|3:0|het2"]
        ),
        what="both have failed",
    )
