"""A standby over SSH takes over: nothing that was acknowledged is lost, and nothing runs twice."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.lab.homes import start_home
from tests.lab.hosts import Lab
from tests.lab.standbys import Standby
from tests.support.home import Home
from tests.support.processes import has_ended
from tests.support.waiting import eventually

import warpdeck
from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient

pytestmark = pytest.mark.lab

FOLLOW_S = 60.0
"""Bound of a takeover on a machine with a high load. The printed figure is 3 to 7 s otherwise, and at most 15 s."""
NOBODY = 65534
SLURM_BACKUP_S = 161.0
"""Measured from the kill of a slurmctld 22.05 with a backup on the same machine to the first answer of squeue, with the default
SlurmctldTimeout of 120 s and a shared StateSaveLocation.
"""


@pytest.fixture
def first(lab: Lab, short_tmp: Path) -> Iterator[Home]:
    """The home of the controller on this machine."""
    made = start_home(lab, short_tmp)
    yield made
    made.close()


@pytest.fixture
def standby(lab: Lab) -> Iterator[Standby]:
    made = Standby(lab, 1)
    yield made
    made.close()


def add_node(home: Home, lab: Lab, host: int) -> None:
    home.ok(
        "node",
        "add",
        f"root@{lab.address(host)}",
        "--name",
        f"gpu{host}",
        "--accept-host-key",
        lab.fingerprint(host),
    )


def kill_controller(home: Home) -> None:
    pid = home.controller_pid()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: has_ended(pid), what="the end of the controller")


def submit_fast(home: Home, script: str, count: int, acknowledged: list[int], *, folder: Path) -> None:
    """Submit jobs over one connection until it is lost, and record each acknowledged id."""
    with SyncClient.connect(Paths(str(home.path)), start=False) as client:
        for number in range(count):
            request = {"name": f"n{number}", "script": script, "submit_dir": str(folder)}
            try:
                acknowledged.append(client.call("submit", request=request)["job_id"])
            except UserError:
                return


def test_a_kill_during_submissions_loses_none_that_was_acknowledged(
    first: Home, lab: Lab, standby: Standby, short_tmp: Path
) -> None:
    add_node(first, lab, 2)
    standby.set_up(first, "--keys")
    assert eventually(lambda: standby.row(first)["waits"], what="the mode sync")
    counts = short_tmp / "counts"
    counts.mkdir()
    script = f"#!/bin/sh\n#SBATCH -o /dev/null\necho run >>{counts}/$SLURM_JOB_ID\n"
    acknowledged: list[int] = []
    submitting = threading.Thread(
        target=submit_fast, args=(first, script, 200, acknowledged), kwargs={"folder": short_tmp}
    )
    submitting.start()
    eventually(lambda: len(acknowledged) >= 100, what="the first half of the submissions")
    kill_controller(first)
    submitting.join()
    killed_at = time.monotonic()
    assert 100 <= len(acknowledged) < 200
    standby.ok("takeover", "--force")
    assert all(standby.home.state(job) for job in acknowledged)
    eventually(
        lambda: standby.home.node("gpu2")["state"] not in ("connecting", "down"), what="the agent follows"
    )
    took_s = time.monotonic() - killed_at
    print(
        f"\ntakeover with its agent after {took_s:.1f} s; the backup of a real slurmctld 22.05: {SLURM_BACKUP_S:.0f} s"
    )
    assert took_s < FOLLOW_S
    for job in acknowledged:
        eventually(lambda job=job: standby.home.state(job) == "COMPLETED", what=f"the end of job {job}")
    runs = {int(file.name): file.read_text().count("run") for file in counts.iterdir()}
    assert {job: runs.get(job) for job in acknowledged} == dict.fromkeys(acknowledged, 1)
    assert set(runs.values()) == {1}

    refused = first.run("queue")
    assert refused.returncode == 1
    assert "host1" in refused.stderr and "has taken over" in refused.stderr


def test_the_old_controller_finds_itself_superseded_and_becomes_the_standby(
    first: Home, lab: Lab, standby: Standby, short_tmp: Path
) -> None:
    add_node(first, lab, 2)
    standby.set_up(first, "--keys")
    gate = short_tmp / "gate"
    job = first.json("submit", "--no-snapshot", "--wrap", f"until [ -e {gate} ]; do sleep 0.05; done")[
        "job_id"
    ]
    eventually(lambda: first.state(job) == "RUNNING", what="the job runs")
    alive = standby.run("takeover")
    assert alive.returncode == 1 and "is alive" in alive.stderr and "--force" in alive.stderr
    old = first.controller_pid()
    standby.ok("takeover", "--force")
    eventually(lambda: has_ended(old), what="the superseded controller ends")
    assert "has taken over" in first.log()
    status = first.run("status")
    assert status.returncode == 1 and "now runs on host1" in status.stderr
    up = first.run("up")
    assert up.returncode == 1 and "now runs on host1" in up.stderr
    assert standby.home.state(job) == "RUNNING"
    # The new controller makes the first machine, here another folder of the host 3, its standby.
    gate.touch()
    eventually(lambda: standby.home.state(job) == "COMPLETED", what="the job ends under the new controller")


def test_an_old_controller_that_cannot_ask_its_standby_asks_the_nodes_before_it_accepts_a_job(
    first: Home, lab: Lab, standby: Standby
) -> None:
    """It is started again while neither of them answers, and the node answers first."""
    add_node(first, lab, 2)
    standby.set_up(first, "--keys")
    kill_controller(first)
    with ExitStack() as cut, ExitStack() as cut_node, ThreadPoolExecutor(1) as pool:
        for host, ends in ((standby.host, cut), (2, cut_node)):
            lab.sh("shun", str(host))
            ends.callback(lab.sh, "undrop", str(host))
        standby.ok("takeover", "--force")
        eventually(lambda: standby.home.node("gpu2")["state"] == "idle", what="the node obeys the standby")
        submitted = pool.submit(first.run, "submit", "--no-snapshot", "--hold", "--wrap", "true")
        eventually(
            lambda: "was not asked whether it has taken over" in first.log(), what="the attempt to ask"
        )
        cut_node.close()
        done = submitted.result()
    assert done.returncode == 1 and "is fenced" in done.stderr, f"{done.stdout}{done.stderr}"


def test_a_standby_that_is_killed_or_cut_off_returns_and_lacks_nothing(
    first: Home, lab: Lab, standby: Standby, short_tmp: Path
) -> None:
    standby.set_up(first)
    for round_ in range(3):
        for pid in standby.receivers():
            lab.on(standby.host, "kill", "-9", str(pid))
        for _ in range(5):
            first.json("submit", "--no-snapshot", "--hold", "--wrap", f"echo {round_}")
        eventually(
            lambda: standby.row(first)["waits"] and not standby.row(first)["behind_batches"],
            what="the standby has everything again",
        )
    lab.sh("drop", str(standby.host))
    try:
        job = first.json("submit", "--no-snapshot", "--hold", "--wrap", "true")["job_id"]
        row = standby.row(first)
        assert not row["waits"] and row["behind_batches"] and row["problem"]
        assert "sync, but async now" in first.ok("status")
        assert "requests are answered without it" in first.log()
    finally:
        lab.sh("undrop", str(standby.host))
    eventually(lambda: standby.row(first)["waits"], what="the mode sync returns", timeout_s=60)
    assert standby.row(first)["behind_batches"] == 0
    first.ok("down")
    standby.ok("takeover")
    assert standby.home.state(job) == "PENDING"


def test_a_full_disk_of_the_standby_delays_no_request_for_long_and_heals(
    first: Home, lab: Lab, standby: Standby
) -> None:
    standby.path.mkdir(parents=True)
    with lab.small_disk(standby.host, str(standby.path), size="2m"):
        standby.set_up(first)
        filler = standby.path / "filler"
        lab.on(standby.host, "sh", "-c", f"cat /dev/zero >{filler} 2>/dev/null || true")
        begun = time.monotonic()
        for _ in range(5):
            first.json("submit", "--no-snapshot", "--hold", "--wrap", "true")
        print(f"\n5 submissions in {time.monotonic() - begun:.1f} s while the standby's disk is full")
        eventually(
            lambda: any(word in standby.row(first)["problem"] for word in ("full", "No space")),
            what="the full disk is reported",
        )
        lab.on(standby.host, "rm", str(filler))
        eventually(lambda: standby.row(first)["waits"], what="the mode sync returns", timeout_s=60)
        assert standby.row(first)["behind_batches"] == 0
        first.ok("down")


def test_async_loses_at_most_the_last_second(
    first: Home, lab: Lab, standby: Standby, short_tmp: Path
) -> None:
    standby.set_up(first, "--mode", "async")
    acknowledged: list[tuple[float, int]] = []

    def submit() -> None:
        with SyncClient.connect(Paths(str(first.path)), start=False) as client:
            request = {"script": "#!/bin/sh\n", "submit_dir": str(short_tmp), "hold": True}
            while True:
                try:
                    job = client.call("submit", request=request)["job_id"]
                except UserError:
                    return
                acknowledged.append((time.monotonic(), job))

    submitting = threading.Thread(target=submit)
    submitting.start()
    eventually(lambda: len(acknowledged) >= 200, what="submissions")
    kill_controller(first)
    killed_at = time.monotonic()
    submitting.join()
    standby.ok("takeover", "--force")
    known = {row["id"] for row in standby.home.request("jobs", limit=100_000)["jobs"]}
    lost = [killed_at - at for at, job in acknowledged if job not in known]
    print(
        f"\nasync: {len(lost)} of {len(acknowledged)} submissions lost, the oldest {max(lost, default=0.0):.2f} s before the kill"
    )
    assert max(lost, default=0.0) < 1.0
    assert len(lost) < len(acknowledged)


def test_a_watchdog_takes_over_after_a_kill_but_not_after_a_stop(
    first: Home, lab: Lab, standby: Standby
) -> None:
    standby.set_up(first)
    watchdog = standby.start("takeover", "--watchdog", "5")
    first.ok("down")
    eventually(lambda: standby_contact(standby).get("orderly"), what="the farewell has arrived")
    first.ok("up")
    eventually(lambda: standby.row(first)["waits"], what="the standby follows again")
    assert watchdog.poll() is None
    kill_controller(first)
    killed_at = time.monotonic()
    _, err = watchdog.communicate(timeout=60)
    print(f"\nthe watchdog (5 s) took over {time.monotonic() - killed_at:.1f} s after the kill")
    assert watchdog.returncode == 0 and "taking over" in err, err
    assert standby.home.request("status")["host"] == "host1"
    assert time.monotonic() - killed_at < FOLLOW_S


def standby_contact(standby: Standby) -> dict[str, object]:
    found: dict[str, object] = json.loads((standby.path / "standby-contact.json").read_text())
    return found


def test_a_folder_that_both_machines_share_is_refused(first: Home, lab: Lab) -> None:
    shared = Standby(lab, 1, folder=first.path)
    done = first.run(
        "standby",
        f"root@{lab.address(1)}",
        "--accept-host-key",
        lab.fingerprint(1),
        "--home",
        str(shared.path),
    )
    assert done.returncode == 1 and "is the folder of the controller itself" in done.stderr
    relative = first.run("standby", f"root@{lab.address(1)}", "--home", "standby")
    assert relative.returncode == 1 and "is not an absolute path" in relative.stderr
    assert first.request("standby")["standby"] is None
    eventually(lambda: not shared.receivers(), what="the receiver ends")


def test_clients_on_the_standby_use_the_site_before_and_after_a_takeover(
    first: Home, lab: Lab, standby: Standby, short_tmp: Path
) -> None:
    add_node(first, lab, 2)
    standby.set_up(first, "--keys")
    assert standby.home.request("status")["pid"] == first.controller_pid()
    gate = short_tmp / "gate"
    script = f"echo begun; until [ -e {gate} ]; do sleep 0.05; done; echo ended; exit 3"
    waiting = standby.start("submit", "--wait", "--no-snapshot", "-o", f"{short_tmp}/out", "--wrap", script)
    job = eventually(
        lambda: next((row["id"] for row in first.request("jobs")["jobs"] if row["state"] == "RUNNING"), 0),
        what="the job of the client on the standby runs",
    )
    following = standby.start("logs", "-f", str(job))
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    kill_controller(first)
    standby.ok("takeover", "--force")
    taken_at = time.monotonic()
    eventually(
        lambda: standby.home.node("gpu2")["state"] not in ("connecting", "down"), what="the agent follows"
    )
    gate.touch()
    out, err = following.communicate(timeout=60)
    assert out == "ended\n", err
    print(f"\nlogs -f on the standby followed within {time.monotonic() - taken_at:.1f} s")
    waiting.communicate(timeout=60)
    assert waiting.returncode == 3
    assert time.monotonic() - taken_at < FOLLOW_S


def test_a_standby_that_missed_the_last_start_is_obeyed_all_the_same(
    first: Home, lab: Lab, standby: Standby
) -> None:
    add_node(first, lab, 2)
    standby.set_up(first, "--mode", "async", "--keys")
    lab.sh("drop", str(standby.host))
    try:
        for _ in range(2):  # Two starts with higher epochs, of which the standby does not learn.
            kill_controller(first)
            first.ok("up", "--no-local-node")
            eventually(lambda: first.node("gpu2")["state"] == "idle", what="the agent obeys the new start")
        epoch = first.request("status")["epoch"]
        kill_controller(first)
    finally:
        lab.sh("undrop", str(standby.host))
    standby.ok("takeover", "--force")
    eventually(lambda: standby.home.node("gpu2")["state"] == "idle", what="the agent obeys the standby")
    status = standby.home.request("status")
    assert status["epoch"] > epoch and not status["fenced"]


def test_a_host_without_warpdeck_gets_the_program_and_takes_over_with_it(
    first: Home, lab: Lab, standby: Standby, short_tmp: Path
) -> None:
    """The host has a Python of the same version, which does not find our sources."""
    empty = short_tmp / "empty"
    empty.touch()
    with lab.covered(standby.host, str(origin_of_warpdeck()), empty):
        missing = lab.command(standby.host, sys.executable, "-I", "-c", "import warpdeck")
        assert subprocess.run(missing, env=lab.environ, capture_output=True, check=False).returncode != 0
        standby.set_up(first)
        command = standby.row(first)["command"]
        assert command.startswith("/var/lib/warpdeck/standby-")
        job = first.json("submit", "--no-snapshot", "--hold", "--wrap", "true")["job_id"]
        kill_controller(first)
        environ = ("env", f"WARPDECK_HOME={standby.path}", f"HOME={standby.path.parent}")
        lab.on(standby.host, *environ, command, "takeover", "--force")
        assert standby.home.state(job) == "PENDING"
        lab.on(standby.host, *environ, command, "screen", "queue", "--plain")
        lab.on(standby.host, *environ, command, "down")


def origin_of_warpdeck() -> Path:
    """Return the file with which the interpreter finds warpdeck: that of an editable installation, or the package's own."""
    (site,) = [path for path in map(Path, sys.path) if path.name == "site-packages"]
    found = [
        file for file in site.glob("*.pth") if str(Path(warpdeck.__file__).parents[1]) in file.read_text()
    ]
    return found[0] if found else Path(warpdeck.__file__)


def connect_as(uid: int, path: Path) -> socket.socket:
    """Return a connection that a process of that user has opened."""
    receiver, sender = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        link = socket.socket(socket.AF_UNIX)
        link.connect(str(path))
        socket.send_fds(sender, [b"x"], [link.fileno()])
        os._exit(0)
    _, descriptors, _, _ = socket.recv_fds(receiver, 1, 1)
    os.waitpid(pid, 0)
    receiver.close()
    sender.close()
    return socket.socket(fileno=descriptors[0])


def test_a_user_of_the_standby_is_the_one_that_its_kernel_names(
    lab: Lab, standby: Standby, short_tmp: Path
) -> None:
    short_tmp.chmod(0o755)
    standby.path.parent.chmod(0o755)
    first = Home(short_tmp / "home", HOME=str(lab.user_home(short_tmp / "user")), SSH_AUTH_SOCK="")
    first.ok("up", "--shared", "--no-local-node")
    try:
        standby.set_up(first, "--keys")
        link = connect_as(NOBODY, standby.path / "warpdeck.sock")
        with SyncClient.over(link, Paths(str(standby.path))) as client:
            assert (client.welcome["uid"], client.welcome["admin"]) == (NOBODY, False)
            with pytest.raises(UserError, match="only root"):
                client.call("shutdown")
            with pytest.raises(UserError, match="only root"):
                client.call("standby_rm")
            with pytest.raises(UserError, match="only root"):
                client.call("standby_set", target="root@127.0.0.1")
        assert (standby.path / "state.db").stat().st_mode & 0o077 == 0
        assert all(file.stat().st_mode & 0o077 == 0 for file in (standby.path / "keys").glob("*"))
    finally:
        first.close()
