"""A gateway to a real Slurm under many clients, another user of the machine, and processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.e2e.local.test_over_slurm import gateway_over
from tests.slurm_parity.peer.real_slurm import RealSlurm
from tests.support.home import Home
from tests.support.processes import has_ended
from tests.support.waiting import eventually

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient
from warpdeck.protocol.requests import MAX_CLIENTS_OF_USER

pytestmark = pytest.mark.slurm
NOBODY = 65534
CLIENTS = 300
MAX_GATEWAY_MIB = 200
OUTAGE_S = 150.0
"""Longest wait for the end of a job after an outage. squeue itself tries again for a minute."""
COUNTING = "i=0; while [ ! -e {go} ]; do i=$((i+1)); echo line $i; sleep 0.1; done; echo end; exit 3"
"""A script that prints numbered lines until a file exists."""
ANOTHER_USER = """
import json, os, sys, traceback
from warpdeck.base.paths import Paths
from warpdeck.base.errors import UserError
from warpdeck.client.blocking_client import SyncClient
os.setuid({uid})  # This user cannot read the interpreter's modules.
with SyncClient.connect(Paths({home!r}), start=False) as client:
    for kind, fields in {requests!r}:
        try:
            client.call(kind, **fields)
        except UserError as error:
            print(kind, "refused")
        else:
            print(kind, "done")
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with RealSlurm() as running:
        yield running


@pytest.fixture(scope="module")
def site(slurm: RealSlurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with gateway_over(slurm, tmp_path_factory.mktemp("attacks")) as home:
        yield home


def start(site: Home, *words: str, cwd: Path) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "warpdeck.cli.main", *words]
    return subprocess.Popen(
        argv, env=site.environ, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def submit(site: Home, folder: Path, script: str, *options: str) -> str:
    done = site.run("submit", "--parsable", *options, "--wrap", script, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def running(site: Home, folder: Path) -> str:
    """Return a job that prints lines until the file "go" exists in the folder."""
    job = submit(site, folder, COUNTING.format(go=folder / "go"))
    eventually(lambda: site.state(job) == "RUNNING", what="the job runs")
    return job


def numbered(lines: list[str]) -> list[str]:
    return [f"line {number}" for number in range(1, len(lines) + 1)]


def gateway_mib(site: Home) -> float:
    status = Path(f"/proc/{site.controller_pid()}/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def test_three_hundred_clients_starve_nobody_and_ask_slurm_no_more_often(
    site: Home, slurm: RealSlurm
) -> None:
    slurm.ok("sdiag", "--reset")
    begun, refusals, slowest = time.monotonic(), list[str](), 0.0
    with ExitStack() as open_clients:
        clients = []
        for _ in range(CLIENTS):
            try:
                client = open_clients.enter_context(SyncClient.connect(Paths(str(site.path)), start=False))
            except UserError as error:
                refusals.append(error.message)
                continue
            client.begin("subscribe")
            clients.append(client)
        assert len(clients) == MAX_CLIENTS_OF_USER and all("already connected" in text for text in refusals)
        while time.monotonic() - begun < 20:
            for client in clients[::50]:
                asked = time.monotonic()
                client.call("jobs")
                slowest = max(slowest, time.monotonic() - asked)
        assert gateway_mib(site) < MAX_GATEWAY_MIB
    assert slowest < 2.0
    assert slurm.rpcs() <= 12, "two minutes' allowance at most, with the first looks"


def test_another_user_of_the_machine_reaches_nothing(site: Home, tmp_path: Path) -> None:
    job = submit(site, tmp_path, "true", "--hold")
    requests = [
        ("job", {"job": job}),
        ("cancel", {"jobs": [job]}),
        ("release", {"jobs": [job]}),
        ("log", {"job": job}),
        ("submit", {"request": {"script": "#!/bin/sh\ntrue\n", "submit_dir": "/"}}),
    ]
    script = ANOTHER_USER.format(uid=NOBODY, home=str(site.path), requests=requests)

    def as_nobody() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, cwd="/", check=False
        )

    assert site.path.stat().st_mode & 0o777 == 0o700
    closed = as_nobody()
    assert closed.returncode == 1 and "belongs to another user" in closed.stderr
    parents = [path for path in (site.path, *site.path.parents) if path.stat().st_mode & 0o001 == 0]
    modes = {path: path.stat().st_mode & 0o777 for path in [*parents, site.path / "warpdeck.sock"]}
    try:
        for path in modes:
            path.chmod(0o777)
        opened = as_nobody()
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert opened.stdout.split("\n")[:-1] == [f"{kind} refused" for kind, _ in requests], opened.stderr
    assert site.state(job) == "PENDING"
    site.ok("cancel", job)


def test_a_killed_slurmctld_neither_ends_a_wait_nor_a_log(
    site: Home, slurm: RealSlurm, tmp_path: Path
) -> None:
    job = running(site, tmp_path)
    logs = start(site, "logs", "-f", job, cwd=tmp_path)
    waiter = start(site, "submit", "--wait", "--wrap", COUNTING.format(go=tmp_path / "go"), cwd=tmp_path)
    pid = (slurm.folder / "slurmctld.pid").read_text().strip()
    assert waiter.stdout is not None
    other = waiter.stdout.readline().split()[-1]
    eventually(lambda: site.state(other) == "RUNNING", what="the other job runs")
    submit(site, tmp_path, "true", "--hold", "--job-name=saved-last")
    eventually(
        lambda: any(b"saved-last" in path.read_bytes() for path in slurm.folder.glob("state*/job_state")),
        what="slurmctld has saved its state, with both jobs",
    )
    slurm.run(["kill", "-KILL", pid])
    assert waiter.stderr is not None and logs.stderr is not None
    told = [process.stderr.readline() for process in (waiter, logs) if process.stderr is not None]
    assert all("slurmctld" in line and "still waiting" in line for line in told), told
    (tmp_path / "go").touch()
    slurm.run(["sh", "-c", "setsid slurmctld -D >/dev/null 2>&1 </dev/null &"])
    _, errors = waiter.communicate(timeout=OUTAGE_S)
    assert waiter.returncode == 3 and errors.count("still waiting") == 0
    out, errors = logs.communicate(timeout=OUTAGE_S)
    assert logs.returncode == 0 and errors.count("still waiting") == 0
    *lines, end = out.splitlines()
    assert end == "end" and lines == numbered(lines)


def test_a_wait_for_a_canceled_job_is_no_success(site: Home, tmp_path: Path) -> None:
    waiter = start(site, "submit", "--wait", "--hold", "--wrap", "true", cwd=tmp_path)
    assert waiter.stdout is not None
    site.ok("cancel", waiter.stdout.readline().split()[-1])
    waiter.communicate(timeout=OUTAGE_S)
    assert waiter.returncode == 1


def test_a_log_goes_on_after_its_gateway_was_killed(site: Home, tmp_path: Path) -> None:
    job = running(site, tmp_path)
    logs = start(site, "logs", "-f", job, cwd=tmp_path)
    assert logs.stdout is not None
    first = logs.stdout.readline()
    pid = site.controller_pid()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: has_ended(pid), what="the end of the gateway")
    eventually(lambda: site.run("status").returncode == 0, what="the gateway that the client starts")
    (tmp_path / "go").touch()
    eventually(lambda: logs.poll() is not None, timeout_s=OUTAGE_S, what="the end of the log")
    # Not `communicate`, which would lose the lines that were read ahead with the first one.
    with logs:
        out = logs.stdout.read()
    assert logs.returncode == 0, out
    *lines, end = [first.rstrip(), *out.splitlines()]
    assert end == "end" and lines == numbered(lines), "nothing is missing and nothing is repeated"


@pytest.mark.parametrize("option", ["--output=/proc/nothing/out.txt", "--chdir=/proc/nothing"])
def test_a_job_that_cannot_write_its_output_says_so(site: Home, tmp_path: Path, option: str) -> None:
    job = submit(site, tmp_path, "echo hello", option)
    eventually(lambda: site.state(job) == "FAILED", what="the end of the job")
    assert "could not write its output file" in site.ok("show", job)
    for words in (("logs", job), ("logs", "-f", job)):
        failed = site.run(*words)
        assert failed.returncode == 1 and "could not write its output file" in failed.stderr, failed
