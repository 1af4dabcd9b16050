"""Unmodified programs drive a real Slurm with its own commands, and the user's gateway shows their jobs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.local.slurm.test_clients import PROGRAM_S, SUBMITIT, run_program
from tests.e2e.local.test_over_slurm import gateway_over
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home
from tests.support.waiting import eventually

pytestmark = pytest.mark.slurm
OFTEN = "requests_per_minute = 6000\nidle_requests_per_minute = 6000\n"
"""Jobs of other programs are seen at the next look, which a test need not wait for."""

WATCHED = """
import os, pathlib, time, submitit
executor = submitit.AutoExecutor(folder="log")
executor.update_parameters(timeout_min=5, cpus_per_task=1, mem_gb=0.5, name="watched")
def waits(name):
    print("begun by", os.environ["SLURM_JOB_ID"], flush=True)
    while not os.path.exists(name):
        time.sleep(0.05)
    return name
running = executor.submit(waits, os.path.abspath("go"))
executor.update_parameters(slurm_additional_parameters={"begin": "now+1hour"})
later = executor.submit(waits, "never")
pathlib.Path("ids.new").write_text(f"{running.job_id} {later.job_id}")
os.rename("ids.new", "ids")
print(os.path.basename(running.result()))
"""
SNAKEFILE = """
rule all:
    input: "sum.txt"

rule part:
    output: "part.{number}"
    log: "log.{number}"
    shell: "echo part {wildcards.number} && while [ ! -e go ]; do sleep 0.1; done && echo {wildcards.number} >{output}"

rule total:
    input: expand("part.{number}", number=(3, 4))
    output: "sum.txt"
    shell: "cat {input} >{output}"
"""
SNAKEMAKE = (
    *("-m", "snakemake", "--executor=slurm", "--jobs=2", "--latency-wait=30", "--shared-fs-usage"),
    *("persistence", "input-output", "software-deployment", "sources", "source-cache"),
    *("--slurm-no-account", "--slurm-keep-successful-logs", "--slurm-init-seconds-before-status-checks=1"),
    *("--default-resources", "slurm_partition=gpu", "mem_mb=100", "runtime=5"),
)
PLACE = "mount -t tmpfs none /run && mkdir -p /run/slurm/conf && ln -s {folder}/slurm.conf /run/slurm/conf/"
"""Shows slurm.conf at a place of its own, as on real nodes. Jobs of snakemake remove SLURM_CONF from their environment."""


@pytest.fixture(scope="module", params=["22.05", "26.05"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A gateway over a Slurm with a database, which these programs ask for the states of their jobs."""
    folder = tmp_path_factory.mktemp("clients")
    with (
        RealSlurm(version=request.param, accounting=True) as slurm,
        gateway_over(slurm, folder, settings=OFTEN) as home,
    ):
        slurm.ok("sh", "-c", PLACE.format(folder=slurm.folder))
        yield home


@contextmanager
def program(home: Home, folder: Path, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program of Python while the test looks at its jobs."""
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, *argv],
            cwd=folder,
            env=home.environ,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], folder: Path) -> str:
    """Return the output of a program that must succeed."""
    out, _ = process.communicate(timeout=PROGRAM_S)
    assert process.returncode == 0, out + (folder / "errors").read_text()
    return out


def rows(home: Home, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows that the app shows for these jobs."""
    return [row for row in home.request("jobs")["jobs"] if str(row["id"]) in ids]


def has_output(home: Home, job: str) -> bool:
    """Return whether `warpdeck logs` shows the output of a rule's command."""
    return "\npart " in home.ok("logs", job)


def test_submitit_runs_jobs_and_arrays_and_returns_errors(site: Home, short_tmp: Path) -> None:
    assert run_program(site, short_tmp, SUBMITIT) == ["(25, True)", "[0, 1, 4] 1", "FailedJobError True"]


def test_jobs_of_submitit_are_shown_with_their_reason_and_output(site: Home, short_tmp: Path) -> None:
    (short_tmp / "program.py").write_text(WATCHED)
    with program(site, short_tmp, "program.py") as process:
        eventually((short_tmp / "ids").exists, what="two jobs of submitit")
        running, later = (short_tmp / "ids").read_text().split()
        eventually(
            lambda: [row["state"] for row in rows(site, (running, later))] == ["RUNNING", "PENDING"],
            what="rows of both jobs",
        )
        assert {row["name"] for row in rows(site, (running, later))} == {"watched"}
        listed = site.ok("queue")
        assert running in listed and later in listed
        assert "begin" in site.ok("why", later).lower()
        assert site.json("show", running)["row"]["nodes"]
        eventually(lambda: f"begun by {running}" in site.ok("logs", running), what="the job's output")
        site.ok("cancel", later)
        (short_tmp / "go").touch()
        assert ended(process, short_tmp) == "go\n"
    eventually(lambda: site.state(running) == "COMPLETED", what="the job's end is seen")
    assert site.state(later) == "CANCELLED"


def test_jobs_of_snakemake_are_shown_until_the_workflow_has_ended(site: Home, short_tmp: Path) -> None:
    (short_tmp / "Snakefile").write_text(SNAKEFILE)
    with program(site, short_tmp, *SNAKEMAKE) as process:

        def parts() -> list[dict[str, Any]]:
            assert process.poll() is None, (short_tmp / "errors").read_text()
            return [row for row in site.request("jobs")["jobs"] if row["state"] == "RUNNING"]

        eventually(lambda: len(parts()) == 2, timeout_s=PROGRAM_S, what="two jobs of the workflow run")
        ids = [str(row["id"]) for row in parts()]
        listed = site.ok("queue")
        assert all(job in listed for job in ids)
        assert {site.json("show", job)["row"]["partition"] for job in ids} == {"gpu"}
        for job in ids:
            eventually(partial(has_output, site, job), what=f"output of job {job}")
        (short_tmp / "go").touch()
        ended(process, short_tmp)
    assert (short_tmp / "sum.txt").read_text() == "3\n4\n"
    eventually(lambda: {site.state(job) for job in ids} == {"COMPLETED"}, what="the ends are seen")
