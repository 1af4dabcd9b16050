"""The controller is killed after it has created an object and before its answer arrives: the object is
created once, and the client gets it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.lab.answer_proxy import GREETINGS, AnswerDroppingProxy
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import listens

CODE = 3
RUN = f"echo ran >> {{folder}}/runs; exit {CODE}"
LIBRARY_PROGRAM = "import sys, warpdeck\nwith warpdeck.Client() as deck:\n    deck.submit(command=sys.argv[1], snapshot='none')\n"
SIGNAL_PROGRAM = """import sys, warpdeck
with warpdeck.Client() as deck:
    try:
        deck.cancel(sys.argv[1], signal="USR1")
    except warpdeck.UserError as error:
        print(error)
        sys.exit(3)
"""
JOB_SCRIPT = """echo "$WARPDECK_ACCESS" > {folder}/real.new; mv {folder}/real.new {folder}/real
until [ -S {folder}/access ]; do sleep 0.05; done
WARPDECK_ACCESS={folder}/access srun -n{tasks} sh -c 'echo ran >> {folder}/runs; exit 3'
echo $? > {folder}/code"""
"""A job whose srun uses a socket of the test once the socket exists."""

Result = subprocess.CompletedProcess[str]


def sbatch(home: Home, script: str) -> Result:
    return home.slurm("sbatch", "--wrap", script)


def sbatch_array(home: Home, script: str) -> Result:
    return home.slurm("sbatch", "--array=3", "--begin=now", "--wrap", script)


def srun(home: Home, script: str) -> Result:
    return home.slurm("srun", "sh", "-c", script)


def submit(home: Home, script: str) -> Result:
    (home.path.parent / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    return home.run("submit", "--no-snapshot", str(home.path.parent / "job.sh"))


def salloc(home: Home, script: str) -> Result:
    return home.slurm("salloc", "sh", "-c", script)


def run(home: Home, script: str) -> Result:
    return home.run("run", "sh", "-c", script)


def session(home: Home, script: str) -> Result:
    return at_terminal(home, "srun", script)


def run_session(home: Home, script: str) -> Result:
    return at_terminal(home, "run", script)


def at_terminal(home: Home, verb: str, script: str) -> Result:
    """Run the verb with --pty on a terminal."""
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    warpdeck = (sys.executable, "-m", "warpdeck.cli.main")
    return program(home, [sys.executable, "-c", spawn, *warpdeck, verb, "--pty", "sh", "-c", script])


def library(home: Home, script: str) -> Result:
    return program(home, [sys.executable, "-c", LIBRARY_PROGRAM, script])


def program(home: Home, argv: list[str]) -> Result:
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


def job_ids(home: Home) -> set[int]:
    """Return the ids of all jobs."""
    return {row["id"] for row in home.request("jobs", finished=True)["jobs"]}


def ended_ids(home: Home, before: set[int]) -> set[int]:
    """Return the ids of new jobs that have ended."""
    rows = home.request("jobs", finished=True)["jobs"]
    return {row["id"] for row in rows if row["state"] in ("COMPLETED", "FAILED")} - before


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One controller and one node for all tests here."""
    with temporary_home() as home:
        home.ok("up")
        home.wait_for_idle_node()
        yield home


RETURN_EXIT_CODE = (srun, salloc, run)
"""Commands that return the exit code of the job's command."""
SESSIONS = (session, run_session)
"""Sessions can be joined only while their command runs. If it has ended before, they report that."""
COMMANDS = (*RETURN_EXIT_CODE, *SESSIONS, sbatch, sbatch_array, submit, library)


@pytest.mark.slow
def test_each_request_creates_its_object_once(site: Home, short_tmp: Path) -> None:
    before = job_ids(site)
    proxy = AnswerDroppingProxy(site)
    folders = {command: short_tmp / command.__name__ for command in COMMANDS}
    with ThreadPoolExecutor(len(COMMANDS)) as pool:
        futures = {}
        for command, folder in folders.items():
            folder.mkdir()
            futures[command] = pool.submit(command, site, RUN.format(folder=folder))
        proxy.wait_for_held_answers(len(COMMANDS))
        proxy.drop_answers_and_restart()
        results = {command: future.result() for command, future in futures.items()}
    codes = {
        command: CODE if command in RETURN_EXIT_CODE else 0 for command in COMMANDS if command not in SESSIONS
    }
    failed = [results[command] for command, code in codes.items() if results[command].returncode != code]
    assert not failed, f"{failed}\n{site.log()}"
    eventually(
        lambda: len(ended_ids(site, before)) == len(COMMANDS),
        what="each job exists once and has ended",
    )
    assert {(folder / "runs").read_text() for folder in folders.values()} == {"ran\n"}
    assert len(job_ids(site) - before) == len(COMMANDS)


def test_a_client_without_a_welcome_repeats_its_request(site: Home, short_tmp: Path) -> None:
    before = job_ids(site)
    proxy = AnswerDroppingProxy(site, answers=GREETINGS)
    commands = (submit, run, library)
    with ThreadPoolExecutor(len(commands)) as pool:
        futures = [pool.submit(command, site, f"echo ran >> {short_tmp}/runs") for command in commands]
        proxy.wait_for_held_answers(len(commands))
        proxy.drop_answers_and_restart()
        results = [future.result() for future in futures]
    assert [result.returncode for result in results] == [0] * len(commands), f"{results}\n{site.log()}"
    eventually(
        lambda: len(ended_ids(site, before)) == len(commands), what="each job exists once and has ended"
    )
    assert (short_tmp / "runs").read_text() == "ran\n" * len(commands)


def test_a_code_folder_is_sent_again_if_its_answer_was_lost(site: Home, short_tmp: Path) -> None:
    (short_tmp / "job.sh").write_text(f"#!/bin/sh\ncat words > {short_tmp}/out\n")
    (short_tmp / "words").write_text("as they were\n")
    for git_argv in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(short_tmp), *git_argv], check=True)
    proxy = AnswerDroppingProxy(site, answers=(b'"have"',))
    with ThreadPoolExecutor() as pool:
        submission = pool.submit(site.ok, "submit", "--require-snapshot", "--wait", "job.sh", cwd=short_tmp)
        proxy.wait_for_held_answers()
        proxy.drop_answers_and_restart()
        submission.result()
    assert (short_tmp / "out").read_text() == "as they were\n"


def test_a_signal_from_the_library_is_sent_once(site: Home, short_tmp: Path) -> None:
    script = (
        f"trap 'echo signaled >> {short_tmp}/signaled' USR1; touch {short_tmp}/started; "
        f"until [ -e {short_tmp}/go ]; do sleep 0.05; done"
    )
    job = site.json("submit", "--no-snapshot", "--wrap", script)["job_id"]
    eventually((short_tmp / "started").exists, what="the job runs")
    proxy = AnswerDroppingProxy(site, answers=(b'"errors"',))
    with ThreadPoolExecutor() as pool:
        signaling = pool.submit(program, site, [sys.executable, "-c", SIGNAL_PROGRAM, str(job)])
        proxy.wait_for_held_answers()
        proxy.drop_answers_and_restart()
        result = signaling.result()
    assert result.returncode == 3 and "connection to the controller lost" in result.stdout, (
        result.stdout + result.stderr
    )
    eventually(lambda: _text(short_tmp / "signaled"), what="the signal has arrived")
    (short_tmp / "go").touch()
    eventually(lambda: site.job(job)["end"], what="the job has ended")
    assert (short_tmp / "signaled").read_text() == "signaled\n"


@pytest.mark.parametrize("verb", ["run", "srun"])
def test_a_session_returns_the_end_of_a_command_that_ended_meanwhile(
    site: Home, short_tmp: Path, verb: str
) -> None:
    script = f"echo $$ > {short_tmp}/pid; until [ -e {short_tmp}/go ]; do sleep 0.05; done; echo last words; exit 7"
    with ThreadPoolExecutor() as pool:
        session_result = pool.submit(at_terminal, site, verb, script)
        pid = int(eventually(lambda: _text(short_tmp / "pid"), what="the command runs"))
        site.kill_controller()
        (short_tmp / "go").touch()
        eventually(lambda: not Path(f"/proc/{pid}").exists(), what="the command has ended")
        site.ok("up")
        result = session_result.result()
    assert result.returncode == 7, result.stdout + result.stderr
    # If the controller was killed before the first attach, the terminal is not raw and adds a carriage return.
    assert result.stdout.rstrip().endswith("last words")


def test_an_array_is_created_once_with_all_its_tasks(site: Home, short_tmp: Path) -> None:
    before = job_ids(site)
    proxy = AnswerDroppingProxy(site)
    with ThreadPoolExecutor() as pool:
        script = f"echo $SLURM_ARRAY_TASK_ID >> {short_tmp}/runs"
        submission = pool.submit(site.slurm, "sbatch", "--array=1-4", "--wait", "--wrap", script)
        proxy.wait_for_held_answers()
        proxy.drop_answers_and_restart()
        result = submission.result()
    assert result.returncode == 0, result.stdout + result.stderr + site.log()
    assert len(job_ids(site) - before) == 4
    assert sorted((short_tmp / "runs").read_text().split()) == ["1", "2", "3", "4"]


def test_a_submitter_repeats_its_request(site: Home, short_tmp: Path) -> None:
    paths = Paths(str(site.path))
    proxy = AnswerDroppingProxy(site)
    proxy.armed.clear()
    shim = Path(site.ok("shims", "--folder").strip()) / "sbatch"

    def submitter_listens() -> bool:
        program(site, [str(shim), "-H", "--wrap", "true"])
        return listens(paths)

    eventually(submitter_listens, what="a submitter listens")
    before = job_ids(site)
    # In this copy of the script, no other program submits if the submitter does not.
    script_copy = short_tmp / "sbatch"
    text = shim.read_text()
    assert f"exec {sys.executable}" in text
    script_copy.write_text(text.replace(f"exec {sys.executable}", "exec /bin/false"))
    script_copy.chmod(0o700)
    proxy.armed.set()
    with ThreadPoolExecutor() as pool:
        submission = pool.submit(program, site, [str(script_copy), "--wrap", f"echo ran >> {short_tmp}/runs"])
        proxy.wait_for_held_answers()
        proxy.drop_answers_and_restart()
        result = submission.result()
    assert result.returncode == 0, result.stdout + result.stderr + site.log()
    eventually(lambda: len(ended_ids(site, before)) == 1, what="the job has ended")
    assert (short_tmp / "runs").read_text() == "ran\n"
    assert len(job_ids(site) - before) == 1


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_step_of_a_job_runs_once_although_its_answer_was_lost(
    site: Home, short_tmp: Path, tasks: int
) -> None:
    script = JOB_SCRIPT.format(folder=short_tmp, tasks=tasks)
    assert site.slurm("sbatch", f"-n{tasks}", "-O", "--wrap", script).returncode == 0
    socket_path = eventually(lambda: _text(short_tmp / "real"), what="the job has started")
    proxy = AnswerDroppingProxy(site, path=str(short_tmp / "access"), real=socket_path.strip())
    proxy.wait_for_held_answers()
    proxy.drop_answers_and_restart()
    assert eventually(lambda: _text(short_tmp / "code"), what="srun has ended") == "3\n", site.log()
    assert (short_tmp / "runs").read_text() == tasks * "ran\n"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
