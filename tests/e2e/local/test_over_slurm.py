"""The everyday path of an ordinary user over a real Slurm: the command line and the library, through a gateway."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home
from tests.support.processes import has_ended
from tests.support.terminal import AtTerminal
from tests.support.waiting import WAIT_S, eventually

import warpdeck

pytestmark = pytest.mark.slurm
SOON_S = 15.0
"""Longest wait for a job of no time. The queue itself is read every 40 seconds."""


def square(number: int) -> tuple[int, str]:
    """Return the square and the job that computed it. It is sent to the cluster by value."""
    import os

    return number * number, os.environ["SLURM_JOB_ID"]


@contextmanager
def gateway_over(slurm: RealSlurm, folder: Path, *, settings: str = "") -> Iterator[Home]:
    """Yield a user's home with a gateway, in a folder that the nodes see. `settings` are lines of [slurm]."""
    shared = folder / "shared"
    home = Home(folder / "home", WARPDECK_ENGINE="slurm", **slurm.wrappers(folder / "bin"))
    home.path.mkdir(mode=0o700)
    (home.path / "config.toml").write_text(f'[slurm]\nfolder = "{shared}"\n{settings}')
    home.ok("up")
    yield home
    home.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("slurm22")
    with RealSlurm() as slurm, gateway_over(slurm, folder) as home:
        yield home


@pytest.fixture
def work(site: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with code, for this process and its commands."""
    monkeypatch.chdir(tmp_path)
    for name in ("PATH", "WARPDECK_ENGINE"):
        monkeypatch.setenv(name, site.environ[name])
    (tmp_path / "train.sh").write_text(
        "#!/bin/sh\n#SBATCH --job-name=train --gpus=1 --time=5\ncat words.txt\n"
    )
    (tmp_path / "words.txt").write_text("first\n")
    return tmp_path


def test_a_script_is_submitted_and_waited_for_without_delay(site: Home, work: Path) -> None:
    begun = time.monotonic()
    done = site.run("submit", "--wait", "train.sh", cwd=work)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - begun < SOON_S
    job = done.stdout.split()[-1]
    assert site.ok("logs", job) == "first\n"
    row = site.json("show", job)["row"]
    assert (row["name"], row["state"], row["gpus"]) == ("train", "COMPLETED", 1)
    assert site.run("submit", "--wait", "--wrap", "exit 3", cwd=work).returncode == 3


def test_a_waiting_job_has_a_reason_and_ends_when_it_is_cancelled(site: Home, work: Path) -> None:
    job = str(site.json("submit", "--hold", "--wrap", "true", cwd=work)["job_id"])
    assert "JobHeld" in site.ok("why", job)
    site.ok("cancel", job)
    assert site.state(job) == "CANCELLED"
    again = site.run("cancel", job)
    assert again.returncode == 1 and f"job {job}" in again.stderr


def test_an_action_is_shown_within_a_few_seconds_however_many_came_before(site: Home, work: Path) -> None:
    for _ in range(5):
        array = str(site.json("submit", "--hold", "--array=0-9", "--wrap", "true", cwd=work)["job_id"])
        site.ok("cancel", f"{array}_[3-5]")
    begun = time.monotonic()
    eventually(
        lambda: (
            [
                row["tasks_pending"]
                for row in site.request("jobs")["jobs"]
                if row["array_job_id"] == int(array)
            ]
            == [7]
        ),
        what="the tasks are gone",
    )
    assert time.monotonic() - begun < SOON_S
    site.ok("cancel", "--me")


def test_a_job_runs_the_code_of_its_submission_and_so_does_its_rerun(site: Home, work: Path) -> None:
    job = str(site.json("submit", "--hold", "train.sh", cwd=work)["job_id"])
    (work / "words.txt").write_text("second\n")
    site.ok("release", job)
    assert site.ok("logs", "-f", job) == "first\n"
    again = str(site.json("rerun", job)["job_id"])
    assert site.ok("logs", "-f", again) == "first\n"
    assert "-first\n+second\n" in site.ok("snapshot", "diff", job, cwd=work)


def test_a_command_runs_with_its_exit_code_and_output(site: Home, work: Path) -> None:
    done = site.run("run", "--gpus", "1", "sh", "-c", "echo $SLURM_JOB_GPUS; echo two >&2; exit 7", cwd=work)
    assert done.returncode == 7 and done.stdout.strip().isdigit() and "two" in done.stderr


def test_a_terminal_in_a_job_survives_a_killed_gateway(site: Home, work: Path) -> None:
    job = str(site.json("submit", "--wrap", "sleep 600", cwd=work)["job_id"])
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    terminal = AtTerminal(site, "srun", "--overlap", "--jobid", job, "--pty", "env", "PS1=> ", "sh")
    terminal.until("> ")
    terminal.type("X=4; echo in-$((X+1))-of-$SLURM_JOB_ID\n")
    terminal.until(f"in-5-of-{job}")
    killed = int((site.path / "controller.lock").read_text().split()[0])
    os.kill(killed, signal.SIGKILL)
    terminal.until("reconnecting to the step")
    terminal.type("echo still-$((X+2))\n")
    terminal.until("still-6")
    terminal.type("exit 3\n")
    assert terminal.ended() == 3
    terminal.close()
    site.ok("cancel", job)


@pytest.mark.parametrize("moment", ["waits", "runs", "ends"])
def test_an_allocation_survives_a_gateway_that_is_killed(
    site: Home, work: Path, tmp_path: Path, moment: str
) -> None:
    """The gateway is killed while salloc waits, while its shell runs, or just before the shell ends."""
    shell = (
        f"srun echo one; touch {tmp_path}/runs; until [ -e go ]; do sleep 0.1; done; srun echo two; exit 3"
    )
    argv = [sys.executable, "-m", "warpdeck.cli.main", "salloc", "--job-name", moment, "--exclusive"]
    full = site.json("submit", "--exclusive", "-N4", "--wrap", "sleep 600", cwd=work)["job_id"]
    with (
        (tmp_path / "out").open("w") as out,
        subprocess.Popen(
            [*argv, "sh", "-c", shell], env=site.environ, cwd=work, stdout=out, stderr=out
        ) as holder,
    ):
        eventually(lambda: "queued and waiting" in (tmp_path / "out").read_text(), what="salloc waits")
        if moment == "waits":
            kill_gateway(site)
        site.ok("cancel", str(full))
        eventually((tmp_path / "runs").exists, what="the shell runs")
        if moment == "runs":
            kill_gateway(site)
            site.ok("queue")  # Another command starts the next gateway.
        (work / "go").touch()
        if moment == "ends":
            kill_gateway(site)
        try:
            assert holder.wait(WAIT_S) == 3
        finally:
            holder.kill()
    text = (tmp_path / "out").read_text()
    assert (text.count("one\n"), text.count("two\n"), text.count("Granted")) == (1, 1, 1), text
    eventually(lambda: ends(site, moment) == ["FAILED"], what="the end is recorded once")


def ends(site: Home, name: str) -> list[str]:
    """Return the states of the ended jobs of this name in the record."""
    rows = site.request("records", names=[name], ended=True)["jobs"]
    return [row["state"] for row in rows if row["state"] not in ("PENDING", "RUNNING")]


def kill_gateway(site: Home) -> None:
    """Kill the gateway, and wait until it has ended."""
    pid = int((site.path / "controller.lock").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: has_ended(pid), what="the gateway has ended")


def test_no_byte_of_a_step_is_lost_or_repeated_while_gateways_are_killed(
    site: Home, work: Path, tmp_path: Path
) -> None:
    lines, killed = 400_000, set[int]()
    data = "".join(f"{number}\n" for number in range(lines))
    (tmp_path / "in").write_text(data)
    slow = f"while read -r n; do echo $n; case $n in *0000) sleep 0.1 ;; esac; done; seq {lines} >&2"
    argv = [sys.executable, "-m", "warpdeck.cli.main", "srun", "sh", "-c", slow]
    with (
        (tmp_path / "in").open() as source,
        (tmp_path / "out").open("w") as out,
        (tmp_path / "err").open("w") as err,
        subprocess.Popen(argv, env=site.environ, cwd=work, stdin=source, stdout=out, stderr=err) as step,
    ):
        while len(killed) < 4 and step.poll() is None:
            size = (tmp_path / "out").stat().st_size
            if size > (len(killed) + 1) * len(data) / 6:
                pid = int((site.path / "controller.lock").read_text().split()[0])
                if pid not in killed and not has_ended(pid):
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
        assert step.wait(120) == 0
    assert len(killed) == 4
    assert (tmp_path / "out").read_text() == data
    said = [line for line in (tmp_path / "err").read_text().splitlines() if not line.startswith("srun: ")]
    assert said == [str(number) for number in range(1, lines + 1)]


def test_python_functions_run_as_jobs(site: Home, work: Path) -> None:
    with (
        warpdeck.Client(site.path) as deck,
        warpdeck.Executor(deck, time=5, snapshot="none", cwd=work) as executor,
    ):
        found = list(executor.map(square, range(4), timeout=120))
    assert [value for value, _ in found] == [0, 1, 4, 9]
    assert len({job for _, job in found}) == 4


def test_a_submission_continues_when_its_gateway_is_killed(site: Home, work: Path, tmp_path: Path) -> None:
    program = tmp_path / "slow" / "sbatch"
    program.parent.mkdir()
    found = subprocess.check_output(["which", "sbatch"], env=site.environ, text=True).strip()
    program.write_text(
        f'#!/bin/sh\ncase $* in *--version*) ;; *) echo x >{tmp_path}/begun; sleep 1 ;; esac\nexec {found} "$@"\n'
    )
    program.chmod(0o755)
    slow = Home(site.path, **{**site.environ, "PATH": f"{program.parent}:{site.environ['PATH']}"})
    slow.ok("down")
    slow.ok("up")
    argv = [
        sys.executable,
        "-m",
        "warpdeck.cli.main",
        "submit",
        "--parsable",
        "--hold",
        "--job-name=once",
        "--wrap=true",
    ]
    with subprocess.Popen(argv, env=slow.environ, cwd=work, stdout=subprocess.PIPE, text=True) as client:
        eventually((tmp_path / "begun").exists, what="sbatch")
        pid = slow.controller_pid()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: has_ended(pid), what="the end of the gateway")
        out, _ = client.communicate(timeout=150)
    assert client.returncode == 0
    rows = [row["id"] for row in slow.json("queue", "--name", "once")]
    assert rows == [int(out)]
    slow.ok("cancel", out.strip())
    slow.ok("down")
    site.ok("up")


@pytest.mark.parametrize(
    "name",
    ["a\nb", 'it\'s "quoted" $HOME `id`', "x" * 1024, "d\u00e9j\u00e0 \u65e5\u672c \U0001f600", "--help"],
)
def test_any_name_of_a_job_is_shown_on_one_line(site: Home, work: Path, name: str) -> None:
    done = site.run("submit", "--parsable", "--hold", f"--job-name={name}", "--wrap=true", cwd=work)
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    assert site.job(job)["name"] == name
    assert len(site.ok("queue", "--jobs", job).splitlines()) == 2
    site.ok("cancel", job)


class TestNewestSlurm:
    """The same path over the newest version."""

    @pytest.fixture(scope="class")
    def site(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
        folder = tmp_path_factory.mktemp("slurm26")
        with RealSlurm(version="26.05") as slurm, gateway_over(slurm, folder) as home:
            yield home

    def test_the_everyday_path(self, site: Home, work: Path) -> None:
        assert site.json("status")["engine"]["version"].startswith("26.05.")
        job = str(site.json("submit", "train.sh", cwd=work)["job_id"])
        assert site.ok("logs", "-f", job) == "first\n"
        assert site.run("run", "sh", "-c", "exit 5", cwd=work).returncode == 5
        again = str(site.json("rerun", job)["job_id"])
        assert site.ok("logs", "-f", again) == "first\n"

    def test_nodes_in_use_are_shown_soon_after_a_job_starts(self, site: Home, work: Path) -> None:
        job = str(site.json("submit", "--gpus=4", "--nodes=1", "--wrap", "sleep 600", cwd=work)["job_id"])
        eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
        begun = time.monotonic()
        eventually(
            lambda: any(row["cpus_used"] for row in site.request("nodes")["nodes"]), what="a node in use"
        )
        assert time.monotonic() - begun < SOON_S
        site.ok("cancel", job)
