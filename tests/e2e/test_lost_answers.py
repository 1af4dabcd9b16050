"""The controller is killed when it has made what was asked for and before it has said so: it is made once, and the client has it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.home import Home
from tests.lab.lostanswers import LostAnswer
from tests.terminal import AtTerminal
from tests.waiting import eventually

from warpdeck.paths import Paths
from warpdeck.submitter.place import folder_of, listens

RUN = "echo ran >> {folder}/runs"
LIBRARY = "import sys, warpdeck\nwith warpdeck.Client() as deck:\n    deck.submit(command=sys.argv[1], snapshot='none')\n"
IN_JOB = """echo "$WARPDECK_ACCESS" > {folder}/real.new; mv {folder}/real.new {folder}/real
until [ -S {folder}/access ]; do sleep 0.05; done
WARPDECK_ACCESS={folder}/access {srun} srun {words} sh -c 'echo ran >> {folder}/runs; exit 3'
echo $? > {folder}/code"""
"""A job that has its srun ask over a socket of the test's, once that is there."""

Done = subprocess.CompletedProcess[str]


def sbatch(home: Home, script: str) -> Done:
    return home.slurm("sbatch", "--wrap", script)


def sbatch_array(home: Home, script: str) -> Done:
    return home.slurm("sbatch", "--array=3", "--begin=now", "--wrap", script)


def srun(home: Home, script: str) -> Done:
    return home.slurm("srun", "sh", "-c", script)


def submit(home: Home, script: str) -> Done:
    (home.path.parent / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    return home.run("submit", "--no-snapshot", "job.sh")


def salloc(home: Home, script: str) -> Done:
    return home.slurm("salloc", "sh", "-c", script)


def run(home: Home, script: str) -> Done:
    return home.run("run", "sh", "-c", script)


def session(home: Home, script: str) -> Done:
    return at_terminal(home, "srun", script)


def run_session(home: Home, script: str) -> Done:
    return at_terminal(home, "run", script)


def at_terminal(home: Home, verb: str, script: str) -> Done:
    """The verb with --pty."""
    terminal = AtTerminal(home, verb, "--pty", "sh", "-c", script)
    try:
        code = terminal.ended()
    finally:
        terminal.close()
    return subprocess.CompletedProcess([verb], code, terminal.shown.decode(), "")


def library(home: Home, script: str) -> Done:
    return program(home, [sys.executable, "-c", LIBRARY, script])


def program(home: Home, argv: list[str]) -> Done:
    return subprocess.run(
        argv,
        cwd=home.path.parent,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def ended(home: Home, before: set[int]) -> list[dict[str, Any]]:
    """The jobs that came since, once there are some and all have ended."""

    def found() -> list[dict[str, Any]]:
        rows = [row for row in home.asked("jobs", finished=True)["jobs"] if row["id"] not in before]
        return rows if rows and all(row["state"] == "COMPLETED" for row in rows) else []

    return eventually(found, what="what was asked for has ended")


@pytest.mark.parametrize(
    "ask", [sbatch, sbatch_array, srun, submit, salloc, run, session, run_session, library]
)
def test_what_was_asked_for_is_made_once(
    home: Home, short_tmp: Path, ask: Callable[[Home, str], Done]
) -> None:
    home.ok("up")
    home.until_its_node_is_idle()
    before = {row["id"] for row in home.asked("jobs", finished=True)["jobs"]}
    proxy = LostAnswer(home)
    done = ask(home, RUN.format(folder=short_tmp))
    assert proxy.lost.is_set() and done.returncode == 0, done.stdout + done.stderr + home.log()
    assert len(ended(home, before)) == 1
    assert (short_tmp / "runs").read_text() == "ran\n"


def test_an_array_is_made_once_with_all_its_tasks(home: Home, short_tmp: Path) -> None:
    home.ok("up")
    home.until_its_node_is_idle()
    proxy = LostAnswer(home)
    script = f"echo $SLURM_ARRAY_TASK_ID >> {short_tmp}/runs"
    done = home.slurm("sbatch", "--array=1-4", "--wait", "--wrap", script)
    assert proxy.lost.is_set() and done.returncode == 0, done.stdout + done.stderr + home.log()
    assert len({row["array_job_id"] for row in ended(home, set())}) == 1
    assert sorted((short_tmp / "runs").read_text().split()) == ["1", "2", "3", "4"]


def test_a_submitter_asks_again(home: Home, short_tmp: Path) -> None:
    home.ok("up")
    home.until_its_node_is_idle()
    paths = Paths(str(home.path))
    proxy = LostAnswer(home)
    proxy.armed.clear()
    shim = Path(home.ok("shims", "--folder").strip()) / "sbatch"

    def can_be_asked() -> bool:
        program(home, [str(shim), "-H", "--wrap", "true"])
        return listens(paths)

    eventually(can_be_asked, what="a submitter can be asked")
    before = {row["id"] for row in home.asked("jobs", finished=True)["jobs"]}
    alone = home.path.parent / "sbatch"  # where nothing else submits what the submitter does not
    text = shim.read_text()
    assert f"exec {sys.executable}" in text and folder_of(paths) in text
    alone.write_text(text.replace(f"exec {sys.executable}", "exec /bin/false"))
    alone.chmod(0o700)
    proxy.armed.set()
    done = program(home, [str(alone), "--wrap", RUN.format(folder=short_tmp)])
    assert proxy.lost.is_set() and done.returncode == 0, done.stdout + done.stderr + home.log()
    assert len(ended(home, before)) == 1
    assert (short_tmp / "runs").read_text() == "ran\n"


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_step_of_a_job_runs_once(home: Home, short_tmp: Path, tasks: int) -> None:
    home.ok("up")
    home.until_its_node_is_idle()
    script = IN_JOB.format(folder=short_tmp, words=f"-n{tasks}", srun="")
    assert home.slurm("sbatch", f"-n{tasks}", "-O", "--wrap", script).returncode == 0
    real = eventually(lambda: _text(short_tmp / "real"), what="the job has begun")
    proxy = LostAnswer(home, path=str(short_tmp / "access"), real=real.strip())
    assert eventually(lambda: _text(short_tmp / "code"), what="srun has ended") == "3\n", home.log()
    assert proxy.lost.is_set()
    assert (short_tmp / "runs").read_text() == tasks * "ran\n"


def _text(path: Path) -> str:
    return path.read_text() if os.path.exists(path) else ""
