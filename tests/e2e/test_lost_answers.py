"""The controller is killed when it has made what was asked for and before it has said so: it is made once, and the client has it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.home import Home
from tests.lab.lostanswers import LostAnswer
from tests.waiting import eventually

RUN = "echo ran >> {folder}/runs"


def sbatch(home: Home, script: str) -> subprocess.CompletedProcess[str]:
    return home.slurm("sbatch", "--wrap", script)


def sbatch_array(home: Home, script: str) -> subprocess.CompletedProcess[str]:
    return home.slurm("sbatch", "--array=3", "--begin=now", "--wrap", script)


def srun(home: Home, script: str) -> subprocess.CompletedProcess[str]:
    return home.slurm("srun", "sh", "-c", script)


def submit(home: Home, script: str) -> subprocess.CompletedProcess[str]:
    (home.path.parent / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    return home.run("submit", "--no-snapshot", "job.sh")


def salloc(home: Home, script: str) -> subprocess.CompletedProcess[str]:
    return home.slurm("salloc", "sh", "-c", script)


@pytest.mark.parametrize("ask", [sbatch, sbatch_array, srun, submit, salloc])
def test_what_was_asked_for_is_made_once(
    home: Home, short_tmp: Path, ask: Callable[[Home, str], subprocess.CompletedProcess[str]]
) -> None:
    home.ok("up")
    home.until_its_node_is_idle()
    before = {row["id"] for row in home.asked("jobs", finished=True)["jobs"]}
    proxy = LostAnswer(home)
    done = ask(home, RUN.format(folder=short_tmp))
    assert proxy.lost.is_set() and done.returncode == 0, done.stdout + done.stderr + home.log()

    def made() -> list[dict[str, object]]:
        rows = [row for row in home.asked("jobs", finished=True)["jobs"] if row["id"] not in before]
        return rows if rows and all(row["state"] == "COMPLETED" for row in rows) else []

    assert len(eventually(made, what="what was asked for has ended")) == 1
    assert (short_tmp / "runs").read_text() == "ran\n"
