"""The controller is killed when it has made what was asked for and before it has said so: it is made once, and the client has it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.lab.lostanswers import GREETINGS, LostAnswers
from tests.support.home import Home, temporary_home
from tests.support.waiting import eventually

from warpdeck.base.paths import Paths
from warpdeck.base.submitter_address import listens

CODE = 3
RUN = f"echo ran >> {{folder}}/runs; exit {CODE}"
LIBRARY = "import sys, warpdeck\nwith warpdeck.Client() as deck:\n    deck.submit(command=sys.argv[1], snapshot='none')\n"
SIGNALS = """import sys, warpdeck
with warpdeck.Client() as deck:
    try:
        deck.cancel(sys.argv[1], signal="USR1")
    except warpdeck.UserError as error:
        print(error)
        sys.exit(3)
"""
IN_JOB = """echo "$WARPDECK_ACCESS" > {folder}/real.new; mv {folder}/real.new {folder}/real
until [ -S {folder}/access ]; do sleep 0.05; done
WARPDECK_ACCESS={folder}/access srun -n{tasks} sh -c 'echo ran >> {folder}/runs; exit 3'
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
    return home.run("submit", "--no-snapshot", str(home.path.parent / "job.sh"))


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
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    warpdeck = (sys.executable, "-m", "warpdeck.cli.main")
    return program(home, [sys.executable, "-c", spawn, *warpdeck, verb, "--pty", "sh", "-c", script])


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


def numbers(home: Home) -> set[int]:
    """The jobs there are."""
    return {row["id"] for row in home.request("jobs", finished=True)["jobs"]}


def ended(home: Home, before: set[int]) -> set[int]:
    """The jobs that came since and have ended."""
    rows = home.request("jobs", finished=True)["jobs"]
    return {row["id"] for row in rows if row["state"] in ("COMPLETED", "FAILED")} - before


@pytest.fixture(scope="module")
def site() -> Iterator[Home]:
    """One controller and one node for all tests here."""
    with temporary_home() as home:
        home.ok("up")
        home.wait_for_idle_node()
        yield home


TELLS = (srun, salloc, run)
"""Whose exit code is the command's."""
SESSIONS = (session, run_session)
"""These can be joined only as long as the command runs; one that has ended before is not joined, and they say that."""
MADE = (*TELLS, *SESSIONS, sbatch, sbatch_array, submit, library)


@pytest.mark.slow
def test_what_was_asked_for_is_made_once(site: Home, short_tmp: Path) -> None:
    before = numbers(site)
    proxy = LostAnswers(site)
    folders = {ask: short_tmp / ask.__name__ for ask in MADE}
    with ThreadPoolExecutor(len(MADE)) as pool:
        asked = {}
        for ask, folder in folders.items():
            folder.mkdir()
            asked[ask] = pool.submit(ask, site, RUN.format(folder=folder))
        proxy.hold(len(MADE))
        proxy.lose()
        done = {ask: each.result() for ask, each in asked.items()}
    codes = {ask: CODE if ask in TELLS else 0 for ask in MADE if ask not in SESSIONS}
    wrong = [done[ask] for ask, code in codes.items() if done[ask].returncode != code]
    assert not wrong, f"{wrong}\n{site.log()}"
    eventually(lambda: len(ended(site, before)) == len(MADE), what="each was made once, and has ended")
    assert {(folder / "runs").read_text() for folder in folders.values()} == {"ran\n"}
    assert len(numbers(site) - before) == len(MADE)


def test_a_client_that_was_not_greeted_asks_again(site: Home, short_tmp: Path) -> None:
    before = numbers(site)
    proxy = LostAnswers(site, answers=GREETINGS)
    asks = (submit, run, library)
    with ThreadPoolExecutor(len(asks)) as pool:
        asked = [pool.submit(ask, site, f"echo ran >> {short_tmp}/runs") for ask in asks]
        proxy.hold(len(asks))
        proxy.lose()
        done = [each.result() for each in asked]
    assert [each.returncode for each in done] == [0] * len(asks), f"{done}\n{site.log()}"
    eventually(lambda: len(ended(site, before)) == len(asks), what="each was made once, and has ended")
    assert (short_tmp / "runs").read_text() == "ran\n" * len(asks)


def test_a_code_folder_that_was_not_taken_is_sent_again(site: Home, short_tmp: Path) -> None:
    (short_tmp / "job.sh").write_text(f"#!/bin/sh\ncat words > {short_tmp}/out\n")
    (short_tmp / "words").write_text("as they were\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(short_tmp), *words], check=True)
    proxy = LostAnswers(site, answers=(b'"have"',))
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(site.ok, "submit", "--require-snapshot", "--wait", "job.sh", cwd=short_tmp)
        proxy.hold()
        proxy.lose()
        asked.result()
    assert (short_tmp / "out").read_text() == "as they were\n"


def test_a_signal_of_the_librarys_is_sent_once(site: Home, short_tmp: Path) -> None:
    script = f"trap 'echo told >> {short_tmp}/told' USR1; touch {short_tmp}/here; until [ -e {short_tmp}/go ]; do sleep 0.05; done"
    job = site.json("submit", "--no-snapshot", "--wrap", script)["job_id"]
    eventually((short_tmp / "here").exists, what="the job runs")
    proxy = LostAnswers(site, answers=(b'"errors"',))
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(program, site, [sys.executable, "-c", SIGNALS, str(job)])
        proxy.hold()
        proxy.lose()
        done = asked.result()
    assert done.returncode == 3 and "connection to the controller lost" in done.stdout, (
        done.stdout + done.stderr
    )
    eventually(lambda: _text(short_tmp / "told"), what="the job was told")
    (short_tmp / "go").touch()
    eventually(lambda: site.job(job)["end"], what="the job has ended")
    assert (short_tmp / "told").read_text() == "told\n"


@pytest.mark.parametrize("verb", ["run", "srun"])
def test_a_session_whose_command_ended_while_the_controller_was_away_tells_its_end(
    site: Home, short_tmp: Path, verb: str
) -> None:
    script = f"echo $$ > {short_tmp}/pid; until [ -e {short_tmp}/go ]; do sleep 0.05; done; echo last words; exit 7"
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(at_terminal, site, verb, script)
        pid = int(eventually(lambda: _text(short_tmp / "pid"), what="the command runs"))
        site.kill_controller()
        (short_tmp / "go").touch()
        eventually(lambda: not Path(f"/proc/{pid}").exists(), what="the command has ended")
        site.ok("up")
        done = asked.result()
    assert done.returncode == 7, done.stdout + done.stderr
    assert done.stdout.endswith("last words\n")


def test_an_array_is_made_once_with_all_its_tasks(site: Home, short_tmp: Path) -> None:
    before = numbers(site)
    proxy = LostAnswers(site)
    with ThreadPoolExecutor() as pool:
        script = f"echo $SLURM_ARRAY_TASK_ID >> {short_tmp}/runs"
        asked = pool.submit(site.slurm, "sbatch", "--array=1-4", "--wait", "--wrap", script)
        proxy.hold()
        proxy.lose()
        done = asked.result()
    assert done.returncode == 0, done.stdout + done.stderr + site.log()
    assert len(numbers(site) - before) == 4
    assert sorted((short_tmp / "runs").read_text().split()) == ["1", "2", "3", "4"]


def test_a_submitter_asks_again(site: Home, short_tmp: Path) -> None:
    paths = Paths(str(site.path))
    proxy = LostAnswers(site)
    proxy.armed.clear()
    shim = Path(site.ok("shims", "--folder").strip()) / "sbatch"

    def can_be_asked() -> bool:
        program(site, [str(shim), "-H", "--wrap", "true"])
        return listens(paths)

    eventually(can_be_asked, what="a submitter can be asked")
    before = numbers(site)
    alone = short_tmp / "sbatch"  # where nothing else submits what the submitter does not
    text = shim.read_text()
    assert f"exec {sys.executable}" in text
    alone.write_text(text.replace(f"exec {sys.executable}", "exec /bin/false"))
    alone.chmod(0o700)
    proxy.armed.set()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(program, site, [str(alone), "--wrap", f"echo ran >> {short_tmp}/runs"])
        proxy.hold()
        proxy.lose()
        done = asked.result()
    assert done.returncode == 0, done.stdout + done.stderr + site.log()
    eventually(lambda: len(ended(site, before)) == 1, what="the job has ended")
    assert (short_tmp / "runs").read_text() == "ran\n"
    assert len(numbers(site) - before) == 1


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_step_of_a_job_runs_once(site: Home, short_tmp: Path, tasks: int) -> None:
    script = IN_JOB.format(folder=short_tmp, tasks=tasks)
    assert site.slurm("sbatch", f"-n{tasks}", "-O", "--wrap", script).returncode == 0
    real = eventually(lambda: _text(short_tmp / "real"), what="the job has begun")
    proxy = LostAnswers(site, path=str(short_tmp / "access"), real=real.strip())
    proxy.hold()
    proxy.lose()
    assert eventually(lambda: _text(short_tmp / "code"), what="srun has ended") == "3\n", site.log()
    assert (short_tmp / "runs").read_text() == tasks * "ran\n"


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
