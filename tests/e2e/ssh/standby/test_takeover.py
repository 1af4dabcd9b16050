"""A standby over SSH takes over: nothing that was acknowledged is lost, and nothing runs twice."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.homes import start_home
from tests.lab.hosts import Lab
from tests.lab.standbys import Standby
from tests.support.home import Home
from tests.support.processes import has_ended
from tests.support.waiting import eventually

from warpdeck.base.errors import UserError
from warpdeck.base.paths import Paths
from warpdeck.client.blocking_client import SyncClient

pytestmark = pytest.mark.lab

FOLLOW_S = 15.0


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
    print(f"\ntakeover with its agent after {took_s:.1f} s; slurmctld waits for SlurmctldTimeout (120 s)")
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
    queue = standby.run("queue")
    assert queue.returncode == 1 and "is the standby of the controller on" in queue.stderr
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
    assert first.request("standby")["standby"] is None
    eventually(lambda: not shared.receivers(), what="the receiver ends")
