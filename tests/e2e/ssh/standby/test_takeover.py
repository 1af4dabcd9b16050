"""A standby over SSH takes over: nothing that was acknowledged is lost, and nothing runs twice."""

from __future__ import annotations

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
